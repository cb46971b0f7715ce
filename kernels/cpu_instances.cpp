// The kernel templates, instantiated for the CPU executor for one head dimension.
//
// CMake compiles this file once per head dimension and contraction mode (FA1_D, FA1_MODE = plain |
// fma). -ffp-contract differs between the modes, so every kernel template has internal linkage.
#include "kernels/instance_rows.hpp"
#include "kernels/variants.cuh"

#define FA1_JOIN_(a, b, c) a##_##b##_D##c
#define FA1_JOIN(a, b, c) FA1_JOIN_(a, b, c)

namespace fa1::kernels {
namespace {

static_assert(kRoleThreads == kPipelineThreads);
static_assert(register_tile_bytes(32, 16, 4) == sizeof(TunedTiles<32, 16, 4>));
static_assert(register_tile_bytes(128, 64, 64) == sizeof(TunedTiles<128, 64, 64>));

#define FA1_VARIANT(name, statement, tiles, plan, outputs, ...)                                    \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = statement;                                           \
    static constexpr Plan kPlan = Plan::plan;                                                      \
    static constexpr Outputs kOutputs = Outputs::outputs;                                          \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      fa1_start<D>(a.O, a.l, a.m, a.n_q);                                                          \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      if constexpr (kPlan == Plan::scores || kPlan == Plan::key_ranges)                            \
        name<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale, a.scratch);          \
      else                                                                                         \
        name<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale);                     \
    }                                                                                              \
    template <int D> static void finish(const DeviceArguments& a) {                                \
      if constexpr (kPlan == Plan::key_ranges)                                                     \
        merge_ranges<D>(a.scratch, a.O, a.l, a.m, a.n_q, kKeyRanges);                              \
    }                                                                                              \
  };
#include "kernels/variants.def"
#undef FA1_VARIANT

} // namespace

#define FA1_VARIANT(name, statement, tiles, ...)                                                   \
  InstanceTable FA1_JOIN(name, FA1_MODE, FA1_D)();                                                 \
  InstanceTable FA1_JOIN(name, FA1_MODE, FA1_D)() {                                                \
    return Rows<name##_variant, FA1_D, tiles<FA1_D>::type>::table();                               \
  }
#include "kernels/variants.def"

} // namespace fa1::kernels
