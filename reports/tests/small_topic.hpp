/// A page of the report with one of everything, for tests.
#pragma once

#include "reports/records.hpp"

namespace fa1::reports {

inline Json small_topic() {
  const auto series = [](const char* name, int colour, Json points) {
    return Json{
        {"name", name}, {"mark", "stack"}, {"colour", colour}, {"points", std::move(points)}};
  };
  return {{"id", "parts"},
          {"title", "Parts <and> whole"},
          {"question", "Which part is how large?"},
          {"sentences", {"The exp makes 70 % of it.", "The rest | is l."}},
          {"plots",
           {{{"id", "shares"},
             {"title", "Shares"},
             {"x_title", "keys"},
             {"y_title", "share, %"},
             {"x_base", 0},
             {"y_log", false},
             {"says", "stacked"},
             {"x_ticks", {{0.0, "64"}, {1.0, "128"}}},
             {"series",
              {series("exp", 1, {{0.0, 70.0}, {1.0, 90.0}}),
               series("l", 10, {{0.0, 30.0}, {1.0, 20.0}}), series("O", 6, {{1.0, -10.0}})}}}}},
          {"tables",
           {{{"id", "shares"},
             {"title", "Shares in numbers"},
             {"says", "of the variance"},
             {"columns",
              {{{"key", "stage"}, {"name", "stage"}}, {{"key", "share"}, {"name", "share"}}}},
             {"records",
              {{{"stage", "exp"}, {"share", 0.70001}, {"keys", 64}},
               {{"stage", "a,b"}, {"share", "NaN"}, {"keys", 64}}}}}}},
          {"reproduce", {"fa1lab budget 'n_kv=64'"}},
          {"held", true}};
}

} // namespace fa1::reports
