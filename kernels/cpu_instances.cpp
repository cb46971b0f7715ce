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

#define FA1_VARIANT(name, statement)                                                               \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = statement;                                           \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      name##_start<D>(a.O, a.l, a.m, a.n_q);                                                       \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      name<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale);                       \
    }                                                                                              \
  };
#include "kernels/variants.def"
#undef FA1_VARIANT

} // namespace

#define FA1_VARIANT(name, statement)                                                               \
  InstanceTable FA1_JOIN(name, FA1_MODE, FA1_D)();                                                 \
  InstanceTable FA1_JOIN(name, FA1_MODE, FA1_D)() {                                                \
    using Here = Rows<name##_variant, FA1_D, TilesFor<FA1_D>::type>;                               \
    return {Here::kRows, sizeof(Here::kRows) / sizeof(Here::kRows[0])};                            \
  }
#include "kernels/variants.def"

} // namespace fa1::kernels
