#include "reports/topics/papers.hpp"

#include "reports/papers.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace fa1::reports {

Json measure_papers(const TopicAmount& amount) {
  const bool full = amount.level == Level::full;
  const auto rows = measure_papers(full ? numerics::PaperSet::full : numerics::PaperSet::few);
  Json records = Json::array(), ratios = Json::array(), ticks = Json::array();
  std::string source;
  int sources = 0, compared = 0, within = 0;
  for (const numerics::PaperRow& row : rows) {
    Json record = to_json(row);
    record["number"] = records.size() + 1;
    record["theirs_or_says"] = std::isnan(row.theirs) ? Json(row.says) : number(row.theirs);
    if (std::isfinite(row.ratio()) && row.ratio() > 0.0) {
      ratios.push_back({static_cast<double>(compared), row.ratio()});
      ticks.push_back({static_cast<double>(compared), record["number"].dump()});
      ++compared;
      within += row.ratio() <= 2.0 && row.ratio() >= 0.5;
    }
    sources += row.source != source;
    source = row.source;
    records.push_back(std::move(record));
  }
  Json one = Json::array({{-0.5, 1.0}, {compared - 0.5, 1.0}});
  return {
      {"sentences",
       {fmt::format("{} published results of {} papers, each measured here again. Where there is a "
                    "number to divide by, {} of {} of ours are within a factor of 2.",
                    rows.size(), sources, within, compared),
        "Where a source gives no number, the table has what it says; shapes and inputs are stated "
        "by "
        "few, so the column on what differs belongs to each ratio."}},
      {"plots",
       {plot("ratios", "Ours over theirs", {"row of the table", "ours / theirs", 0},
             "1: the same number. Only the rows whose source gives a number.",
             {series("ours / theirs", "points", 1, ratios), series("the same", "dashes", 0, one)},
             ticks)}},
      {"tables",
       {table(
           "rows", "Published results beside ours",
           "Ours is a mean over the stated shapes, with its smallest and largest, or the largest.",
           {{"number", "row"},
            {"source", "source"},
            {"quantity", "what"},
            {"theirs_or_says", "theirs"},
            {"ours", "ours"},
            {"low", "smallest"},
            {"high", "largest"},
            {"ratio", "ours / theirs"},
            {"unit", "unit"},
            {"differs", "what differs"}},
           records)}},
      {"reproduce", {fmt::format("./fa1lab report --papers{}", full ? "" : " --quick")}},
      {"held", true}};
}

} // namespace fa1::reports
