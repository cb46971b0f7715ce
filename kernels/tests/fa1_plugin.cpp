// fa1 itself, or a mutant of it, behind the door: compiled once for each plug-in that CMake makes of it.
// FA1_D and FA1_MUTANT_SOURCE choose the kernel as they do in cpu_instances.cpp, FA1_BR and FA1_BC its
// tile.
#include "kernels/cpu_instances.cpp"
#include "kernels/launch.hpp"
#include "kernels/plugin.h"

#include <vector>

using namespace fa1::kernels;

const char* fa1_describe() {
  static const std::string text = R"({"name": ")" FA1_PLUGIN_NAME
                                  R"(", "gives": ["o", "l", "m"], "resumes": true, "max_d": )" +
                                  std::to_string(FA1_D) + "}";
  return text.c_str();
}

int fa1_forward(const fa1_args* a) {
  if (a->struct_size < sizeof *a)
    return FA1_OTHER_SIZE;
  if (a->memory != 0 || a->d > FA1_D || a->dv > FA1_D)
    return FA1_UNSUPPORTED;
  std::vector<float> l, m;
  const auto rows = static_cast<std::size_t>(a->batch_heads * a->n_q);
  const auto own = [&](float* given, std::vector<float>& spare) {
    spare.resize(given == nullptr ? rows : 0);
    return given == nullptr ? spare.data() : given;
  };
  const InstanceTable table = FA1_JOIN(fa1, FA1_MODE, FA1_D)();
  for (std::size_t i = 0; i < table.count; ++i)
    if (const Instance& instance = table.rows[i]; instance.Br == FA1_BR && instance.Bc == FA1_BC) {
      launch_cpu(instance,
                 {{a->batch_heads, a->n_q, a->n_kv, a->d, a->dv},
                  a->scale,
                  a->q,
                  a->k,
                  a->v,
                  a->o,
                  own(a->l, l),
                  own(a->m, m),
                  a->resume != 0},
                 {});
      return FA1_DONE;
    }
  return FA1_UNSUPPORTED;
}
