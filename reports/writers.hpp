/// Records as text for people and for other programs.
#pragma once

#include "reports/records.hpp"

#include <string>
#include <vector>

namespace fa1::reports {

/// One object a line.
std::string json_lines(const Json& records);

/// Fields with separators, quotes or line breaks are quoted, as RFC 4180 has it. A header, then one line for each
/// record; nested values and histograms are left to JSON.
std::string csv_of_records(const Json& records);

/// One subject of the costs (costs.hpp) as the cells of a table.
struct CostRow {
  std::string subject, rows, ns, ratio, radius, error, says;
};
CostRow cost_row(const Json& subject);

/// One goal of the costs, answered.
struct GoalRow {
  std::string says, asked, measured, answer;
};
GoalRow goal_row(const Json& goal);

struct ReportFile {
  std::string name;
  std::string text;
};

/// What a report's folder may hold: the names of all files that report_files makes, those of pages as patterns
/// (fnmatch).
std::vector<std::string> report_file_names();

/// index.html, report.md, report.json, the CSV files and the plots, all made of one report
/// (collect.hpp) and of what the truth cost (costs.hpp). Times differ from run to run: they are in
/// costs.csv, plots/costs.svg and the section "What the truth costs" of the two pages only.
std::vector<ReportFile> report_files(const Json& report, const Json& costs);

/// The page of `fa1lab trace`: the records of trace_records.hpp, and what draws them.
std::string trace_page(const Json& records);

} // namespace fa1::reports
