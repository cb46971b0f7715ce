/// What the truth costs: the certified reference, other references, the kernel and its mirror,
/// timed by Google Benchmark in one run on one problem.
///
/// Document  keys, d, repetitions, unit (the vector unit), seconds (the least of one repetition),
///           load (how many processes ran in the minute before: others spoil the times);
///           subjects: one record for each thing timed, {what: "bench", subject, says, rows, keys,
///           d, threads, unit, ns, median_ns, ratio, radius, error, note}; goals: what is asked of
///           the ratios, {what: "bench-goal", goal, says, sense, asked, measured, reached, factor}
/// Time      ns is the least wall clock of all repetitions for one `unit`: a multiply-add, of which
///           one row has keys (d + dv), dv = d; a vector operation; or a case. Repetitions of all
///           subjects are shuffled, so that a disturbance meets none alone. ratio is ns over that
///           of certify
/// Rows      as many as a subject affords: the cost is linear in them
/// Accuracy  radius (what the subject itself proves) and error (measured against Arb at 300 bits)
///           are the largest over the first two rows, in units of sum_j p_j |v_j|; null where a
///           subject gives none
/// Goals     stand only where all they need was timed; they are asked for 4096 keys and d = 64.
///           factor >= 1 where reached: how many times better than asked
/// Requires  keys * d at most kMostEntries, because a ball takes 48 bytes
/// Errors    UsageError where the filter is no expression or matches no subject
#pragma once

#include "reports/records.hpp"

#include <cstdint>
#include <string>

namespace fa1::reports {

inline constexpr std::int64_t kMostEntries = std::int64_t{1} << 23;

struct CostSettings {
  std::int64_t keys = 4096;
  std::int64_t d = 64;
  double min_seconds = 0.1; ///< of one repetition
  int repetitions = 5;
  std::string filter; ///< as Google Benchmark's: an extended regular expression found anywhere in
                      ///< the name, or with '-' before it in none; empty: all
};

Json measure_costs(const CostSettings& settings);

/// One line that names the subjects whose answer is beyond the radius it came with; empty where
/// there is none.
std::string beyond_radius(const Json& costs);

} // namespace fa1::reports
