#include "properties/transform.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fa1::properties {
namespace {

std::int64_t size_of(const Indices& indices) { return static_cast<std::int64_t>(indices.size()); }

/// l and m as [batch_heads][n_q], picked like rows of a tensor.
std::vector<float> pick(const std::vector<float>& values, std::int64_t batch_heads,
                        std::int64_t n_q, const Indices& rows) {
  std::vector<float> picked;
  for (std::int64_t bh = 0; bh < batch_heads; ++bh)
    for (const std::int64_t row : rows)
      picked.push_back(values[static_cast<std::size_t>(bh * n_q + row)]);
  return picked;
}

} // namespace

Indices range(std::int64_t first, std::int64_t count) {
  Indices indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

Indices permutation(std::int64_t count, std::mt19937_64& choices) {
  Indices indices = range(0, count);
  for (std::size_t i = indices.size(); i > 1; --i)
    std::swap(indices[i - 1], indices[choices() % i]);
  return indices;
}

Tensor<float> gather_rows(const Tensor<float>& tensor, const Indices& rows) {
  Tensor<float> result(tensor.batch_heads(), size_of(rows), tensor.columns());
  for (std::int64_t bh = 0; bh < tensor.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < size_of(rows); ++row)
      std::ranges::copy(tensor.row(bh, rows[static_cast<std::size_t>(row)]),
                        result.row(bh, row).begin());
  return result;
}

Tensor<float> gather_columns(const Tensor<float>& tensor, const Indices& columns) {
  Tensor<float> result(tensor.batch_heads(), tensor.rows(), size_of(columns));
  for (std::int64_t bh = 0; bh < tensor.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < tensor.rows(); ++row)
      for (std::int64_t column = 0; column < size_of(columns); ++column)
        result(bh, row, column) = tensor(bh, row, columns[static_cast<std::size_t>(column)]);
  return result;
}

Tensor<float> gather_batch_heads(const Tensor<float>& tensor, const Indices& batch_heads) {
  Tensor<float> result(size_of(batch_heads), tensor.rows(), tensor.columns());
  for (std::int64_t bh = 0; bh < size_of(batch_heads); ++bh)
    for (std::int64_t row = 0; row < tensor.rows(); ++row)
      std::ranges::copy(tensor.row(batch_heads[static_cast<std::size_t>(bh)], row),
                        result.row(bh, row).begin());
  return result;
}

Tensor<float> append_column(const Tensor<float>& tensor, float value) {
  Tensor<float> result(tensor.batch_heads(), tensor.rows(), tensor.columns() + 1);
  for (std::int64_t bh = 0; bh < tensor.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < tensor.rows(); ++row) {
      std::ranges::copy(tensor.row(bh, row), result.row(bh, row).begin());
      result(bh, row, tensor.columns()) = value;
    }
  return result;
}

Tensor<float> times(const Tensor<float>& tensor, float factor) {
  Tensor<float> result = tensor;
  for (float& x : result.elements())
    x *= factor;
  return result;
}

Problem with_keys(const Problem& problem, const Indices& keys) {
  Problem result{problem.shape, problem.scale, problem.Q, gather_rows(problem.K, keys),
                 gather_rows(problem.V, keys)};
  result.shape.n_kv = size_of(keys);
  return result;
}

Problem with_queries(const Problem& problem, const Indices& rows) {
  Problem result{problem.shape, problem.scale, gather_rows(problem.Q, rows), problem.K, problem.V};
  result.shape.n_q = size_of(rows);
  return result;
}

Problem with_value_columns(const Problem& problem, const Indices& columns) {
  return with_values(problem, gather_columns(problem.V, columns));
}

Problem with_batch_heads(const Problem& problem, const Indices& batch_heads) {
  Problem result{problem.shape, problem.scale, gather_batch_heads(problem.Q, batch_heads),
                 gather_batch_heads(problem.K, batch_heads),
                 gather_batch_heads(problem.V, batch_heads)};
  result.shape.batch_heads = size_of(batch_heads);
  return result;
}

Problem with_values(const Problem& problem, Tensor<float> V) {
  Problem result{problem.shape, problem.scale, problem.Q, problem.K, std::move(V)};
  result.shape.dv = result.V.columns();
  return result;
}

State rows_of(const State& state, const Indices& rows) {
  const std::int64_t batch_heads = state.O.batch_heads(), n_q = state.O.rows();
  return {gather_rows(state.O, rows), pick(state.l, batch_heads, n_q, rows),
          pick(state.m, batch_heads, n_q, rows)};
}

State columns_of(const State& state, const Indices& columns) {
  return {gather_columns(state.O, columns), state.l, state.m};
}

State batch_heads_of(const State& state, const Indices& batch_heads) {
  const std::int64_t n_q = state.O.rows();
  State result{gather_batch_heads(state.O, batch_heads), {}, {}};
  for (const std::int64_t bh : batch_heads)
    for (std::int64_t row = 0; row < n_q; ++row) {
      result.l.push_back(state.l[static_cast<std::size_t>(bh * n_q + row)]);
      result.m.push_back(state.m[static_cast<std::size_t>(bh * n_q + row)]);
    }
  return result;
}

} // namespace fa1::properties
