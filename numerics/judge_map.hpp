/// Judging files (judge.hpp) with every judged element of O and every judged row told to whoever draws them.
#pragma once

#include "numerics/judge.hpp"

#include <functional>

namespace fa1::numerics {

/// A judged row whose scores are finite; the quantities of RowStatistics.
struct JudgedRow {
  std::int64_t batch = 0, head = 0, row = 0;
  double max_score = 0.0, entropy = 0.0, condition = 0.0;
};

/// Each may be empty. `begin` comes first, with the record as far as it is known: shapes, scale, arithmetic; the others
/// come one after the other, in no order of rows.
struct JudgeWatch {
  std::function<void(const JudgeRecord& record, std::size_t outputs)> begin;
  std::function<void(std::size_t output, const Judged& element)> element;
  std::function<void(const JudgedRow& row)> row;
};

JudgeRecord judge_files(const JudgeInput& input, const JudgeOptions& options,
                        const JudgeWatch& watch);

} // namespace fa1::numerics
