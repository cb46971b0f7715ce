/// The table rows of one kernel variant: its functions, instantiated for a list of tiles.
///
/// Included only where kernels are instantiated. Everything has internal linkage: translation units
/// are built for different instruction sets.
#pragma once

#include "kernels/instances.hpp"

namespace fa1::kernels {
namespace {

/// Variant has kName, kStatement, start<D> and step<Br, Bc, D>.
template <class Variant, int D, class List> struct Rows;
template <class Variant, int D, int... Br, int... Bc>
struct Rows<Variant, D, Tiles<Tile<Br, Bc>...>> {
  static constexpr Instance kRows[] = {{Variant::kName, Variant::kStatement, Br, Bc, D,
                                        &Variant::template start<D>,
                                        &Variant::template step<Br, Bc, D>}...};
};

} // namespace
} // namespace fa1::kernels
