/// New problems from old ones: the left-hand and right-hand sides of the laws.
///
/// Every function returns a copy; indices count from 0; an index list may repeat or leave out
/// entries. Nothing is rounded unless the name says so.
#pragma once

#include "reference/problem.hpp"

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace fa1::properties {

using reference::Problem;
using reference::State;
using reference::Tensor;
using Indices = std::vector<std::int64_t>;

Indices range(std::int64_t first, std::int64_t count);
/// A permutation of 0 .. count-1; std::shuffle's result depends on the library, this one does not.
Indices permutation(std::int64_t count, std::mt19937_64& choices);

Tensor<float> gather_rows(const Tensor<float>& tensor, const Indices& rows);
Tensor<float> gather_columns(const Tensor<float>& tensor, const Indices& columns);
Tensor<float> gather_batch_heads(const Tensor<float>& tensor, const Indices& batch_heads);
Tensor<float> append_column(const Tensor<float>& tensor, float value);
/// rounded where the product is no float
Tensor<float> times(const Tensor<float>& tensor, float factor);

Problem with_keys(const Problem& problem, const Indices& keys);
Problem with_queries(const Problem& problem, const Indices& rows);
Problem with_value_columns(const Problem& problem, const Indices& columns);
Problem with_batch_heads(const Problem& problem, const Indices& batch_heads);
Problem with_values(const Problem& problem, Tensor<float> V);

/// The rows (or columns, or batch-heads) of a result in the order of the list.
State rows_of(const State& state, const Indices& rows);
State columns_of(const State& state, const Indices& columns);
State batch_heads_of(const State& state, const Indices& batch_heads);

} // namespace fa1::properties
