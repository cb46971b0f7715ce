/// The page of `fa1lab judge --html`: what the records of the outputs say, the map of each output's errors, and the
/// judged rows.
///
/// watch      given to judge_files, which then fills the maps; lasts as long as the page
/// html       one offline file; `records` are those that `--json` prints. Names that others gave are escaped
/// Map        |error| / bound over the whole output, at most kMostPageRows x kMostPageColumns cells; its numbers stand in
///            the page, too, as JSON (map_picture.hpp) in a script element `map-1`, `map-2`, ... that nothing runs
/// Errors     EnvironmentError where gnuplot is missing
#pragma once

#include "numerics/error_map.hpp"
#include "numerics/judge_map.hpp"
#include "reports/records.hpp"

#include <string>
#include <vector>

namespace fa1::reports {

inline constexpr std::int64_t kMostPageRows = 256, kMostPageColumns = 64;
inline constexpr std::size_t kMostRowPoints = 400;

class JudgePage {
public:
  numerics::JudgeWatch watch();
  std::string html(const std::vector<Json>& records) const;

private:
  Json row_plots() const;

  std::int64_t heads_ = 1, n_q_ = 1;
  std::vector<numerics::ErrorMap> maps_;
  std::vector<numerics::JudgedRow> rows_;
};

} // namespace fa1::reports
