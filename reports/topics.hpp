/// The questions that have a page of their own in the report, pages/ID.html.
///
/// To add one: a file reports/topics/ID.cpp with a function `Json measure_ID(const TopicAmount&)`, and a row in
/// topics.cpp. Page, Markdown, CSV files, SVG files, schema and tests iterate the rows.
///
/// What a page shows is one JSON object, and nothing else:
///   sentences  [text]: the answers, with their numbers, the most important first
///   plots      [{id, title, x_title, y_title, x_base, y_log, says, series, x_ticks}]: as in plot.hpp; x_base 0 is an
///              even axis; series [{name, mark, colour, points [[x, y]]}] with mark points, line, dashes, bars or
///              stack (bars on top of each other, in the order of the series); x_ticks [[x, text]], empty for plain
///              numbers
///   tables     [{id, title, says, columns [{key, name}], records [{}]}]: a record is flat; a column shows its value under
///              `key`; a record may hold more than is shown, for the CSV file
///   reproduce  [line]: the commands that give these numbers again
///   held       false where something was proved wrong; then the report's status is 1
///
/// Same         numbers on the same machine and build, however many cores it has; no times are in it
/// Errors       EnvironmentError and UsageError as in command.hpp
#pragma once

#include "reports/collect.hpp"
#include "reports/records.hpp"

#include <cstdint>
#include <span>

namespace fa1::reports {

/// How much a page may cost on two cores: quick 5 s, standard 25 s, full 5 minutes.
struct TopicAmount {
  Level level;
  std::uint64_t seed;
};

struct Topic {
  const char* id; ///< the names of its page, plots and tables begin with it
  const char* title;
  const char* question; ///< what the page answers, one sentence
  Json (*measure)(const TopicAmount&);
};

std::span<const Topic> all_topics();

/// All pages: [{id, title, question, sentences, plots, tables, reproduce, held}].
Json measure_topics(const TopicAmount& amount);

} // namespace fa1::reports
