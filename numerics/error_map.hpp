/// Where in a whole output the error is.
///
/// ErrorMap   rows x columns of elements, batch-heads below each other, reduced to at most so many cells: each is the
///            largest |error| among block_rows x block_columns elements, or what is graver than a number. Memory does
///            not grow with the output
/// Units      those of whoever adds: |error| / (u sum p|v|), |error| in ulp, |error| / bound
/// Special    decided before any metric: NaN or Inf where the truth has none, a number where the truth has none; an
///            error of exactly 0; a number that is NaN has no unit and counts as unjudged
/// sample     sweep.hpp's, with the truth of all rows from `source` and the errors of O as a map. The unit is
///            u sum p|v|; ulp where no bound holds
/// Requires   of sample: a problem that fits into memory with all its keys (RecipeError where it does not)
#pragma once

#include "numerics/sweep.hpp"
#include "reference/truth_source.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace fa1::numerics {

/// In the order of their gravity. `number_for_nan`: finite where the truth is NaN or Inf.
enum class CellKind { unjudged, exact, number, number_for_nan, infinite, nan };
std::string_view name_of(CellKind kind);

struct Cell {
  CellKind kind = CellKind::unjudged;
  double error = 0.0; ///< of `number`
};

/// `error` in the map's unit, its sign is left out.
Cell cell_of(double got, double truth, double error);

class ErrorMap {
public:
  ErrorMap() = default;
  ErrorMap(std::int64_t all_rows, std::int64_t all_columns, std::int64_t most_rows,
           std::int64_t most_columns);

  void add(std::int64_t row, std::int64_t column, const Cell& element);

  std::int64_t all_rows() const { return all_rows_; } ///< of elements
  std::int64_t all_columns() const { return all_columns_; }
  std::int64_t block_rows() const { return block_rows_; }
  std::int64_t block_columns() const { return block_columns_; }
  std::int64_t rows() const { return rows_; } ///< of cells
  std::int64_t columns() const { return columns_; }
  const Cell& operator()(std::int64_t row, std::int64_t column) const {
    return cells_[static_cast<std::size_t>(row * columns_ + column)];
  }
  std::int64_t count(CellKind kind) const;

private:
  std::int64_t all_rows_ = 0, all_columns_ = 0, block_rows_ = 1, block_columns_ = 1;
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<Cell> cells_;
};

struct MappedSample {
  Sample sample;
  ErrorMap map;
  bool in_ulp = false; ///< else in u sum p|v|
};

/// At most so many cells.
MappedSample sample(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                    unsigned threads, reference::TruthSource source, std::int64_t most_rows,
                    std::int64_t most_columns);

} // namespace fa1::numerics
