/// The zoo: wrong kernels that every law together must catch, and right ones that none may.
///
/// specimens   the instances of a table, grouped by variant: one fault (or one way of writing), several
///             tiles
/// hunt        asks one law of one specimen, of a few cases on each tile first and of more then, until
///             a case is violated. Nothing is shrunk: the recipe is the first that was found
/// seen_by_gates  which gates of numerics/gates.hpp reject any tile on any of gate_inputs(), which are made
///             once for all specimens
/// Requires    a process that may be lost: some specimens write where they must not
#pragma once

#include "numerics/gates.hpp"
#include "properties/property.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::properties {

struct Specimen {
  std::string variant; ///< mutant.no_alpha_on_O, rewrite.kahan
  std::vector<kernels::Kernel> tiles;

  const kernels::Kernel& kernel() const { return tiles.front(); }
  /// Without the word before the dot.
  std::string name() const { return variant.substr(variant.find('.') + 1); }
};

std::vector<Specimen> specimens(std::span<const kernels::Kernel> table);

struct Hunt {
  bool killed = false;
  int cases = 0;        ///< asked until the kill, or in all
  int held = 0;         ///< of these, where the law applied
  double seconds = 0.0; ///< until the kill, or in all
  std::string detail, replay;
};

/// At most `cases` on each tile.
Hunt hunt(const Invariant& law, const Specimen& specimen, int cases, std::uint64_t seed);

/// False where O is that of the right kernel, bit for bit, in `cases` problems on each tile: then O alone
/// cannot show the fault, whoever looks.
bool changes_O(const Specimen& specimen, int cases, std::uint64_t seed);

struct GateInput {
  reference::Problem problem;
  reference::Truth truth;
  reference::Tensor<float> plain; ///< what a plain implementation gives
};

/// Of kGateRecipes.
std::vector<GateInput> gate_inputs();

/// In the order of all_gates().
std::vector<bool> seen_by_gates(const Specimen& specimen, std::span<const GateInput> inputs);

} // namespace fa1::properties
