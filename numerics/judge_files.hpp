/// Arrays of files as heads of attention: which bytes are row i of head h.
///
/// heads_of   an array of rank 2, 3 or 4 as [batch][head][row][column]
/// read_rows  some rows of a head as floats
/// scan       every NaN and Inf of an array
/// Errors     reference::FileError
#pragma once

#include "numerics/formats.hpp"
#include "numerics/judge.hpp"
#include "reference/files/array.hpp"
#include "reference/problem.hpp"
#include "reference/tensor.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fa1::numerics {

/// Of f64 the arithmetic is fp32.
FormatId format_of(reference::Dtype dtype);

struct Heads {
  reference::Array array;
  std::int64_t batches = 1, heads = 1, rows = 0, columns = 1;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0; ///< bytes
};

Heads heads_of(const reference::Array& array, Layout layout);

/// LSE has one column. `shape` is O.
Heads heads_of_LSE(const reference::Array& array, const Heads& O, Layout layout);

/// What the arrays are to each other; throws where their shapes do not fit.
struct Quartet {
  Heads Q, K, V;
  std::vector<Heads> O;
  std::optional<Heads> LSE;

  /// Query heads of a KV head; 1 where there is no head.
  std::int64_t group() const { return K.heads == 0 ? 1 : Q.heads / K.heads; }
};
Quartet quartet_of(const JudgeInput& input, Layout layout);

/// As doubles, row by row.
void read_rows(const Heads& heads, std::int64_t batch, std::int64_t head,
               std::span<const std::int64_t> rows, std::span<double> out);

/// Doubles as floats; counts those that were none. Throws where one is beyond the range of fp32.
void to_floats(const std::string& name, std::span<const double> values, std::span<float> out,
               std::int64_t& rounded);

reference::Tensor<float> read_floats(const Heads& heads, std::int64_t batch, std::int64_t head,
                                     std::span<const std::int64_t> rows, std::int64_t& rounded);

/// fp32(1/sqrt d), 1 for d = 0, as in a recipe.
float automatic_scale(std::int64_t d);

/// Q, K and V whole, each query head with the K and V of its group; f64 entries are rounded to nearest. Without a scale
/// automatic_scale. Throws where it is too large to be run and judged.
reference::Problem problem_of(const JudgeInput& input, Layout layout, std::optional<float> scale);

struct NotFinite {
  std::int64_t count = 0;
  std::optional<Place> first;
  double value = 0.0;      ///< the first
  std::vector<Place> rows; ///< the first kBadRows rows that hold one; column is that of the first
};
NotFinite scan(const Heads& heads);

std::vector<std::int64_t> all_rows(std::int64_t count);

} // namespace fa1::numerics
