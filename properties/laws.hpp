/// The checks behind the rows of invariants.cpp, one function a law.
#pragma once

#include "properties/property.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <string_view>

namespace fa1::properties::laws {

// laws_exact.cpp: relations that hold bit for bit
Outcome m_exact(const Case& c);
Outcome m_monotone(const Case& c);
Outcome l_at_least_one(const Case& c);
Outcome alpha_unit(const Case& c);
Outcome carry_split(const Case& c);
Outcome row_block(const Case& c);
Outcome query_permutation(const Case& c);
Outcome batch_neighbours(const Case& c);
Outcome repeat(const Case& c);
Outcome schedule(const Case& c);
Outcome value_columns(const Case& c);
Outcome value_scale_pow2(const Case& c);
Outcome qk_scale_pow2(const Case& c);
Outcome head_zero_padding(const Case& c);
Outcome dominant_key(const Case& c);
Outcome idle_tile(const Case& c);
Outcome single_key(const Case& c);
Outcome written(const Case& c);
Outcome traffic(const Case& c);
Outcome nan_locality(const Case& c);

// laws_within_bound.cpp: relations that hold up to the error bound
Outcome l_rescale(const Case& c);
Outcome o_rescale(const Case& c);
Outcome prefix(const Case& c);
Outcome merge(const Case& c);
Outcome tile_order(const Case& c);
Outcome key_permutation(const Case& c);
Outcome tile_width(const Case& c);
Outcome same_family(const Case& c);
Outcome cpu_gpu(const Case& c);
Outcome head_permutation(const Case& c);
Outcome value_linearity(const Case& c);
Outcome value_shift(const Case& c);
Outcome value_constant(const Case& c);
Outcome hull(const Case& c);
Outcome score_shift(const Case& c);
Outcome duplicate_keys(const Case& c);
Outcome uniform(const Case& c);
Outcome lse_consistent(const Case& c);
Outcome truth(const Case& c);
Outcome given_scores(const Case& c);

// laws_statistical.cpp: the error as a whole against its expectation
Outcome expected_error(const Case& c);
Outcome no_bias(const Case& c);

/// The stream of a case's own choices: a function of the recipe's text alone.
std::mt19937_64 choices_of(const Case& c);

/// s_j in the contract's order: a serial sum from 0, the scale after it, fused where the kernel
/// fuses.
float score_in_order(std::span<const float> q, std::span<const float> k, float scale,
                     bool contracted);

/// The borders of the tiles, as numbers of keys: Bc, 2 Bc, ..., n_kv; at most `most` of them, the
/// first and last included.
std::vector<std::int64_t> tile_borders(const Case& c, std::size_t most);

/// The carries after each of the first `tiles` tiles, by launches of one tile that resume from each
/// other.
std::vector<reference::State> carries_after_tiles(const Case& c, std::int64_t tiles);

/// A kernel of the same variant, back end, contraction and D that differs as asked; nullptr where
/// there is none.
const kernels::Kernel* sibling(const kernels::Kernel& kernel, bool same_Bc,
                               std::mt19937_64& choices);

/// The first kernel of all tables that the predicate holds of, or nullptr.
template <class Predicate> const kernels::Kernel* find_kernel_where(const Predicate& predicate) {
  for (const auto table : kernels::all_tables())
    if (const auto found = std::ranges::find_if(table, predicate); found != table.end())
      return &*found;
  return nullptr;
}

/// The same text and tile in another build; nullptr where this machine has none.
const kernels::Kernel* in_build(const kernels::Kernel& kernel, std::string_view build);

/// What a kernel on a GPU is held against: the same text and tile on the CPU, portable, fused or plain
/// as the GPU's build is; nullptr where this machine has none.
const kernels::Kernel* twin_on_cpu(const kernels::Kernel& kernel);

} // namespace fa1::properties::laws
