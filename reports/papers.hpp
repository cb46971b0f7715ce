/// The table of published results beside ours (numerics/papers.hpp), for the commands `papers` and
/// `report --papers` and for the page of the report.
#pragma once

#include "numerics/papers.hpp"
#include "reports/records.hpp"

#include <iosfwd>
#include <span>
#include <vector>

namespace fa1::reports {

Json to_json(const numerics::PaperRow& row);

/// All papers in the order of numerics::kPapers, on all cores.
std::vector<numerics::PaperRow> measure_papers(numerics::PaperSet set);

/// One record a line with `json`, else a table: source, their number, ours, range, ratio, what differs.
void print_papers(std::ostream& out, std::span<const numerics::PaperRow> rows, bool json);

} // namespace fa1::reports
