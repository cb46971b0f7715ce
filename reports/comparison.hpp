/// Two results, thing by thing: what got worse, better, new or lost.
///
/// Results   records one a line (a sweep's file, `check --json`, `run --json`), a report.json, or a
///           ratchet file; the two need not be of one kind, things that only one has are new or lost
/// Things    a law on a kernel; an edge case; an error, which is a recipe on a kernel; a ratchet row
/// Worse     a worse answer (held, not-applicable, violated; proved right, suspicious, undecided,
///           proved wrong), or a larger number. Numbers of laws are compared where cases and seed
///           are the same
/// Fails     what a gate stops at: a law or a ratchet row that got worse, an edge case that is no
///           longer as catalogued, an error that became proved wrong
/// Errors    UsageError naming the file and the line
#pragma once

#include "reports/records.hpp"

#include <string>
#include <vector>

namespace fa1::reports {

enum class Change { worse, better, added, lost };
std::string_view name_of(Change change);

struct Difference {
  Change change = Change::worse;
  std::string kind; ///< law, edge-case, error, ratchet
  std::string name;
  std::string says; ///< from what to what
  bool fails = false;
};

struct Comparison {
  std::vector<Difference> differences; ///< the failing ones first, then in the order of Change
  std::size_t same = 0;
  std::size_t count(Change change) const;
  bool fails() const;
};

Comparison compare_results(const std::string& old_file, const std::string& new_file);

} // namespace fa1::reports
