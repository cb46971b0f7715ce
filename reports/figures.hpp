/// The plots of a report, and what its tables and plots name alike.
///
/// draw_figures  one SVG for each figure of the report, by its id: those of `figures`, then histogram,
///               family, traffic, memory, zoo (where it was visited) and costs
/// edge_of_bin   the upper end of a bin of numerics::ErrorSummary::ulp_histogram, in ulp
/// records_of    the records whose "what" is this, in their order
/// Errors        EnvironmentError where gnuplot is missing, see plot.hpp
#pragma once

#include "reports/records.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

std::map<std::string, std::string> draw_figures(const Json& report, const Json& costs);

std::string edge_of_bin(std::size_t bin);

std::vector<Json> records_of(const Json& records, std::string_view what);

} // namespace fa1::reports
