/// The table rows of one kernel variant: its functions, instantiated for a list of tiles.
///
/// Included only where kernels are instantiated. Everything has internal linkage: translation units
/// are built for different instruction sets.
#pragma once

#include "kernels/instances.hpp"

namespace fa1::kernels {
namespace {

/// Variant has kName, kStatement, kPlan, kOutputs, start<D>, step<Br, Bc, D> and finish<D>. One row
/// more than `count`, because there may be none.
template <class Variant, int D, class List> struct Rows;
template <class Variant, int D, int... Br, int... Bc>
struct Rows<Variant, D, Tiles<Tile<Br, Bc>...>> {
  static constexpr Instance kRows[] = {
      {Variant::kName, Variant::kStatement, Br, Bc, D, Variant::kPlan, Variant::kOutputs,
       &Variant::template start<D>, &Variant::template step<Br, Bc, D>,
       &Variant::template finish<D>}...,
      {}};
  static constexpr InstanceTable table() { return {kRows, sizeof...(Br)}; }
};

} // namespace
} // namespace fa1::kernels
