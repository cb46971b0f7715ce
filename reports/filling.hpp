/// The templates of reports/templates/, filled.
///
/// A view is JSON: objects and lists open sections, strings and numbers fill tags; false, null, the empty string and
/// the empty list count as absent. Pages of the report share one style, {{>style}}, which knows the colours of plots.
/// Text is escaped for the kind of page; in Markdown a cell's `|` and line breaks are.
#pragma once

#include "reports/records.hpp"

#include <string>

namespace fa1::reports {

enum class Template {
  index_html,
  report_md,
  topic_html,
  judge_html,
  trace_html,
  case_c,
  case_cu,
  case_py
};

/// Throws std::logic_error where the template is no mustache.
std::string filled(Template which, const Json& view);

} // namespace fa1::reports
