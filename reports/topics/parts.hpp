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
