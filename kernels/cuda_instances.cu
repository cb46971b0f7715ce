// The kernel templates, instantiated for the GPU with one set of options.
//
// CMake compiles this file once per row of builds.def (FA1_BUILD, FA1_DIMENSIONS = all | few | one), after
// portable_math.cuh where the row says so. Every kernel template has internal linkage, so the builds stay apart.
#include "kernels/cuda_launches.hpp"
#include "kernels/variants.cuh"

#include <utility>

#define FA1_JOIN_(a, b) a##b
#define FA1_JOIN(a, b) FA1_JOIN_(a, b)

namespace fa1::kernels {
namespace {

dim3 blocks_of_launch() { return dim3(grid_of_launch.batch_heads, grid_of_launch.y); }

/// More than 48 KiB of dynamic shared memory is given to a kernel that asks for it. What fails here is
/// found by the launch's cudaGetLastError.
template <class Kernel> void launch(Kernel* kernel, const DeviceArguments& a) {
  const unsigned bytes = grid_of_launch.dynamic_shared_bytes;
  if (bytes > 48 * 1024)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  kernel<<<blocks_of_launch(), grid_of_launch.threads, bytes>>>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q,
                                                                a.n_kv, a.scale);
}

#define FA1_VARIANT(name, statement, tiles, plan, outputs, ...)                                    \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = statement;                                           \
    static constexpr Plan kPlan = Plan::plan;                                                      \
    static constexpr Outputs kOutputs = Outputs::outputs;                                          \
    template <int D> using TilesOf = typename tiles<D>::type;                                      \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      fa1_start<D><<<blocks_of_launch(), grid_of_launch.threads>>>(a.O, a.l, a.m, a.n_q);          \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      if constexpr (kPlan == Plan::scores || kPlan == Plan::key_ranges)                            \
        name<Br, Bc, D><<<blocks_of_launch(), grid_of_launch.threads>>>(                           \
            a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale, a.scratch);                      \
      else                                                                                         \
        launch(name<Br, Bc, D>, a);                                                                \
    }                                                                                              \
    template <int D> static void finish(const DeviceArguments& a) {                                \
      if constexpr (kPlan == Plan::key_ranges)                                                     \
        merge_ranges<D><<<blocks_of_launch(), grid_of_launch.threads>>>(a.scratch, a.O, a.l, a.m,  \
                                                                        a.n_q, kKeyRanges);        \
    }                                                                                              \
  };
#include "kernels/variants.def"
#undef FA1_VARIANT

template <class Variant, int D, int... Br, int... Bc>
void append(std::vector<Instance>& instances, Tiles<Tile<Br, Bc>...>) {
  (instances.push_back({Variant::kName, Variant::kStatement, Br, Bc, D, Variant::kPlan,
                        Variant::kOutputs, &Variant::template start<D>,
                        &Variant::template step<Br, Bc, D>, &Variant::template finish<D>}),
   ...);
}

template <class Variant, int... D>
void append_all(std::vector<Instance>& instances, std::integer_sequence<int, D...>) {
  (append<Variant, D>(instances, typename Variant::template TilesOf<D>{}), ...);
}

} // namespace

std::vector<Instance> FA1_JOIN(cuda_instances_, FA1_BUILD)() {
  using all = HeadDimensions;
  using few = FewHeadDimensions;
  using one = OneHeadDimension;
  std::vector<Instance> instances;
#define FA1_VARIANT(name, ...) append_all<name##_variant>(instances, FA1_DIMENSIONS{});
#include "kernels/variants.def"
#undef FA1_VARIANT
  return instances;
}

} // namespace fa1::kernels
