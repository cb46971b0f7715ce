/// What the generated source of one group of mutants, and of the rewrites, is written with.
///
/// of_VARIANT  what a mutant of the variant takes over from its row of variants.def, and the shapes it has
/// FA1_TABLE_OF(name, space, kernel, shapes)
///             defines InstanceTable name() for the template `kernel` as the namespace `space` sees it: its
///             own kernels, and fa1_start and merge_ranges of the right ones where it has none
#pragma once

#include "kernels/instance_rows.hpp"
#include "kernels/mutants/low_precision.cuh"
#include "kernels/split_kv.cuh"

namespace fa1::kernels {

template <int Dimension, class TilesOfKernel, Plan plan, Outputs outputs> struct Shapes {
  static constexpr int D = Dimension;
  using List = TilesOfKernel;
  static constexpr Plan kPlan = plan;
  static constexpr Outputs kOutputs = outputs;
};

/// Tiles that the right kernel has, too, at D = 8 or, for kernels whose many threads make the zoo
/// wait, at D = 4.
template <template <int> class TilesOfVariant> struct TilesOfMutantsOf {
  static constexpr int D = 8;
  using All = Tiles<Tile<4, 2>, Tile<3, 5>>;
  using Counted = CountedTilesOfMutants;
};
template <> struct TilesOfMutantsOf<TilesFor> {
  static constexpr int D = 8;
  using All = TilesOfMutants;
  using Counted = CountedTilesOfMutants;
};
template <> struct TilesOfMutantsOf<SingleKeys> {
  static constexpr int D = 8;
  using All = Tiles<Tile<1, 1>, Tile<16, 1>>;
  using Counted = Tiles<Tile<16, 1>>;
};
template <> struct TilesOfMutantsOf<RoleTiles> {
  static constexpr int D = 4;
  using All = Tiles<Tile<3, 5>>;
  using Counted = All;
};
template <> struct TilesOfMutantsOf<RegisterTiles> {
  static constexpr int D = 4;
  using All = Tiles<Tile<32, 4>>;
  using Counted = All;
};

#define FA1_VARIANT(name, statement, tiles, plan, outputs, ...)                                    \
  struct of_##name {                                                                               \
    using Of = TilesOfMutantsOf<tiles>;                                                            \
    using Mutants = Shapes<Of::D, Of::All, Plan::plan, Outputs::outputs>;                          \
    using CountedMutants = Shapes<Of::D, Of::Counted, Plan::plan, Outputs::outputs>;               \
  };
#include "kernels/variants.def"
#undef FA1_VARIANT

} // namespace fa1::kernels

#define FA1_TABLE_OF(name, space, kernel, shapes)                                                  \
  namespace fa1::kernels::space {                                                                  \
  namespace {                                                                                      \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = "";                                                  \
    static constexpr Plan kPlan = shapes::kPlan;                                                   \
    static constexpr Outputs kOutputs = shapes::kOutputs;                                          \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      fa1_start<D>(a.O, a.l, a.m, a.n_q);                                                          \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      if constexpr (kPlan == Plan::scores || kPlan == Plan::key_ranges)                            \
        kernel<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale, a.scratch);        \
      else                                                                                         \
        kernel<Br, Bc, D>(a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale);                   \
    }                                                                                              \
    template <int D> static void finish(const DeviceArguments& a) {                                \
      if constexpr (kPlan == Plan::key_ranges)                                                     \
        merge_ranges<D>(a.scratch, a.O, a.l, a.m, a.n_q, kKeyRanges);                              \
    }                                                                                              \
  };                                                                                               \
  }                                                                                                \
  }                                                                                                \
  namespace fa1::kernels {                                                                         \
  InstanceTable name();                                                                            \
  InstanceTable name() { return Rows<space::name##_variant, shapes::D, shapes::List>::table(); }   \
  }
