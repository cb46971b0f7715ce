/// What RapidCheck draws from: recipes and floats, with shrinkers.
///
/// any_float()         every class of fp32 by its encoding: +-0, subnormals, normals of all
///                     binades, FLT_MAX, Inf, NaN; shrinks towards 0, 1 and short numbers.
///                     (RapidCheck's own generator makes no NaN, Inf, -0 or subnormal.)
/// any_recipe(limits)  problems of all families, sizes that matter for tiles (1, around the tile
///                     width, primes), entries of Q from 1e-30 to 1e30 and negative scales now and
///                     then; one in eight is of the kind that the edge cases are made of: subnormal
///                     weights of huge values, scores far below 0, a score of +Inf, all scores -Inf or
///                     those of one tile, a scale of 0, an Inf or a NaN in Q, K or V; one in sixteen of
///                     the others is made of a recorded head; shrinks to smaller shapes and simpler
///                     families
#pragma once

#include "kernels/kernel.hpp"
#include "reference/recipe.hpp"

#include <rapidcheck.h>

namespace fa1::properties {

/// The shapes worth drawing for one kernel.
struct Limits {
  std::int64_t largest_d = 16; ///< d and dv
  std::int64_t Br = 4, Bc = 4;
  std::int64_t most_keys = 96;
  bool any_tile = false; ///< Br and Bc are not known: each problem is drawn for a tile of 1 to 128
};

Limits limits_of(const kernels::Kernel& kernel);

rc::Gen<float> any_float();
rc::Gen<reference::Recipe> any_recipe(const Limits& limits);

/// The next recipe outside a property, at RapidCheck's full size.
reference::Recipe draw_recipe(const rc::Gen<reference::Recipe>& recipes, rc::Random& random);

/// The steps towards simplicity, each a smaller or plainer recipe; empty at the simplest.
std::vector<reference::Recipe> simpler(const reference::Recipe& recipe);

} // namespace fa1::properties
