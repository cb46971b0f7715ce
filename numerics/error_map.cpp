#include "numerics/error_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace fa1::numerics {
namespace {

std::int64_t block_of(std::int64_t all, std::int64_t most) {
  return std::max<std::int64_t>(1, (all + most - 1) / most);
}

} // namespace

std::string_view name_of(CellKind kind) {
  constexpr std::array<std::string_view, 6> kNames{
      "not judged", "exactly right", "error", "a number where the truth has none", "Inf", "NaN"};
  return kNames[static_cast<std::size_t>(kind)];
}

Cell cell_of(double got, double truth, double error) {
  const bool same = got == truth || (std::isnan(got) && std::isnan(truth));
  if (same && !std::isfinite(truth))
    return {CellKind::exact, 0.0};
  if (std::isnan(got))
    return {CellKind::nan, 0.0};
  if (std::isinf(got))
    return {CellKind::infinite, 0.0};
  if (!std::isfinite(truth))
    return {CellKind::number_for_nan, 0.0};
  if (error == 0.0)
    return {CellKind::exact, 0.0};
  if (std::isnan(error))
    return {};
  return {CellKind::number, std::fabs(error)};
}

ErrorMap::ErrorMap(std::int64_t all_rows, std::int64_t all_columns, std::int64_t most_rows,
                   std::int64_t most_columns)
    : all_rows_(all_rows), all_columns_(all_columns), block_rows_(block_of(all_rows, most_rows)),
      block_columns_(block_of(all_columns, most_columns)),
      rows_((all_rows + block_rows_ - 1) / block_rows_),
      columns_((all_columns + block_columns_ - 1) / block_columns_),
      cells_(static_cast<std::size_t>(rows_ * columns_)) {}

void ErrorMap::add(std::int64_t row, std::int64_t column, const Cell& element) {
  Cell& cell =
      cells_[static_cast<std::size_t>(row / block_rows_ * columns_ + column / block_columns_)];
  if (element.kind > cell.kind)
    cell = element;
  else if (element.kind == cell.kind)
    cell.error = std::max(cell.error, element.error);
}

std::int64_t ErrorMap::count(CellKind kind) const {
  return std::ranges::count(cells_, kind, &Cell::kind);
}

} // namespace fa1::numerics
