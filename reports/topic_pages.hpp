/// The pages of topics (topics.hpp): what a folder holds of them, and what the report says of them.
///
/// Files  pages/ID.html, pages/ID-PLOT.svg for each plot, pages/ID-TABLE.csv for each table
#pragma once

#include "reports/records.hpp"
#include "reports/writers.hpp"

#include <string>
#include <vector>

namespace fa1::reports {

/// Of every topic, as patterns (fnmatch), since a page decides by itself which plots and tables it has.
std::vector<std::string> topic_file_patterns();

/// The files of one page of measure_topics().
std::vector<ReportFile> topic_files(const Json& topic);

/// What the templates of the report are filled with, for all pages.
Json views_of_topics(const Json& topics);

} // namespace fa1::reports
