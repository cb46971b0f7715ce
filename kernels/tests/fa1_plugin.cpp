// A kernel of this laboratory behind the door, as strangers would meet it: FA1_KERNEL is its id. The
// variable FA1_PLUGIN_KERNEL of the environment names another, so that one library can be all of them.
#include "kernels/kernel.hpp"
#include "kernels/plugin.h"

#include <cstdlib>
#include <vector>

namespace {

const fa1::kernels::Kernel& kernel() {
  static const fa1::kernels::Kernel& chosen = []() -> const fa1::kernels::Kernel& {
    const char* const other = std::getenv("FA1_PLUGIN_KERNEL");
    return fa1::kernels::find_kernel(other == nullptr ? FA1_KERNEL : other, {});
  }();
  return chosen;
}

} // namespace

const char* fa1_describe() {
  static const std::string text = R"({"name": ")" + kernel().id +
                                  R"(", "gives": ["o", "l", "m"], "resumes": true, "max_d": )" +
                                  std::to_string(kernel().D) + "}";
  return text.c_str();
}

int fa1_forward(const fa1_args* a) {
  if (a->struct_size < sizeof *a)
    return FA1_OTHER_SIZE;
  if (a->memory != 0)
    return FA1_UNSUPPORTED;
  std::vector<float> l, m;
  const auto own = [&](float* given, std::vector<float>& spare) {
    spare.resize(given == nullptr ? static_cast<std::size_t>(a->batch_heads * a->n_q) : 0);
    return given == nullptr ? spare.data() : given;
  };
  kernel().run({{a->batch_heads, a->n_q, a->n_kv, a->d, a->dv},
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
