/// Results in a file as things that can be compared: laws, edge cases, errors, ratchet rows.
///
/// things_in   records one a line, a report.json, or a ratchet file; what else stands in a record is left alone, and a
///             number that is none counts as NaN
/// Errors      UsageError naming `path` and the line
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fa1::reports {

struct Number {
  std::string name;
  double value = 0.0; ///< a larger one is worse, NaN is the worst
};

struct Thing {
  std::string answer; ///< empty where there is none
  int rank = 0;       ///< of the answer; a larger one is worse
  std::vector<Number> numbers;
  std::string conditions; ///< numbers are compared where these are the same
};

/// By kind and name, in their order.
using Things = std::map<std::pair<std::string, std::string>, Thing>;

inline constexpr int kRankOfProvedWrong = 3;

Things things_in(const std::string& text, const std::string& path);
Things things_in_file(const std::string& path);

} // namespace fa1::reports
