// What compute-sanitizer watches: every kernel instance of the GPU on small shapes, or a canary.
//
//   fa1_gpu_probe kernels          all instances with nvcc's defaults; prints how many launches there were
//   fa1_gpu_probe block-barriers   those of them without named barriers
//   fa1_gpu_probe canary TOOL      the kernel that TOOL must report
//   fa1_gpu_probe named-barriers   a right kernel whose threads hand a word over by bar.arrive and bar.sync
#include "kernels/kernel.hpp"
#include "kernels/launch.hpp"
#include "reference/recipe.hpp"
#include "reports/tests/canaries.cuh"

#include <cstdio>
#include <string>
#include <string_view>

using namespace fa1;

namespace {

reference::Problem small_problem(int n_q, int n_kv, int d) {
  return reference::make_problem(reference::parse_recipe("bh=2 n_q=" + std::to_string(n_q) +
                                                         " n_kv=" + std::to_string(n_kv) +
                                                         " d=" + std::to_string(d) + " seed=1"));
}

int run_kernels(bool named_barriers_too) {
  kernels::set_device_memory(kernels::DeviceMemory::exact);
  int launches = 0;
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    if (kernel.backend != kernels::Backend::cuda || kernel.D > 64 ||
        (kernel.variant == "fa1_pipelined" && !named_barriers_too))
      continue;
    const int d = kernel.D == 1 ? 1 : kernel.D - 1; // its last column is padding
    // One ragged tile, and whole tiles with a ragged end.
    for (const auto& [n_q, n_kv] : {std::pair{1, 1}, {kernel.Br + 1, 2 * kernel.Bc + 1}}) {
      const reference::Problem problem = small_problem(n_q, n_kv, d);
      const reference::State state = kernels::run(kernel, problem);
      ++launches;
      if (kernel.resumes) {
        kernels::resume(kernel, problem, state);
        ++launches;
      }
    }
  }
  std::printf("%d launches\n", launches);
  return launches > 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty()) {
    std::fprintf(stderr, "fa1_gpu_probe: %s\n", obstacle.c_str());
    return 3;
  }
  const std::string_view word = argc > 1 ? argv[1] : "";
  if ((word == "kernels" || word == "block-barriers") && argc == 2)
    return run_kernels(word == "kernels");
  if (word == "named-barriers" && argc == 2)
    return reports::tests::hands_over_by_named_barriers() ? 0 : 1;
  if (word == "canary" && argc == 3 && reports::tests::run_canary(argv[2]))
    return 0;
  std::fputs("usage: fa1_gpu_probe kernels | block-barriers | named-barriers | canary "
             "memcheck|racecheck|initcheck|synccheck\n",
             stderr);
  return 2;
}
