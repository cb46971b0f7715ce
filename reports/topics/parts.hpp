/// Parts of the JSON object of a page (topics.hpp).
#pragma once

#include "reports/records.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace fa1::reports {

inline Json series(std::string name, std::string_view mark, int colour, Json points) {
  return {
      {"name", std::move(name)}, {"mark", mark}, {"colour", colour}, {"points", std::move(points)}};
}

struct Axes {
  std::string x_title, y_title;
  int x_base = 2; ///< 0: even
  bool y_log = true;
};

/// Ticks as [[x, text]]; plain numbers where there are none.
inline Json plot(std::string_view id, std::string title, const Axes& axes, std::string says,
                 Json all_series, Json x_ticks = Json::array()) {
  return {{"id", id},
          {"title", std::move(title)},
          {"x_title", axes.x_title},
          {"y_title", axes.y_title},
          {"x_base", axes.x_base},
          {"y_log", axes.y_log},
          {"says", std::move(says)},
          {"series", std::move(all_series)},
          {"x_ticks", std::move(x_ticks)}};
}

/// Columns as {key, name}.
inline Json table(std::string_view id, std::string_view title, std::string says,
                  std::initializer_list<std::pair<const char*, const char*>> columns,
                  Json records) {
  Json of_table = Json::array();
  for (const auto& [key, name] : columns)
    of_table.push_back({{"key", key}, {"name", name}});
  return {{"id", id},
          {"title", title},
          {"says", std::move(says)},
          {"columns", std::move(of_table)},
          {"records", std::move(records)}};
}

} // namespace fa1::reports
