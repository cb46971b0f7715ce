/// What the generated source of one group of mutants, and of the rewrites, is written with.
///
/// FA1_TABLE_OF(name, space, kernel, start_of, tiles)
///   defines InstanceTable name() for the template space::kernel and the template
///   space::start_of that writes its carries, for D = 8
#pragma once

#include "kernels/instance_rows.hpp"
#include "kernels/mutants/low_precision.cuh"

#define FA1_TABLE_OF(name, space, kernel, start_of, tiles)                                         \
  namespace fa1::kernels {                                                                         \
  namespace {                                                                                      \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = "";                                                  \
    static constexpr Plan kPlan = Plan::batch_heads;                                               \
    static constexpr Outputs kOutputs = Outputs::l_and_m;                                          \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      space::start_of<D>(a.O, a.l, a.m, a.n_q);                                                    \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      space::kernel<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale);              \
    }                                                                                              \
    template <int D> static void finish(const DeviceArguments&) {}                                 \
  };                                                                                               \
  }                                                                                                \
  InstanceTable name();                                                                            \
  InstanceTable name() { return Rows<name##_variant, 8, tiles>::table(); }                         \
  }
