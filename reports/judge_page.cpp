#include "reports/judge_page.hpp"

#include "reports/filling.hpp"
#include "reports/map_picture.hpp"
#include "reports/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

namespace fa1::reports {
namespace {

Json lines_of(const Json& texts) {
  Json lines = Json::array();
  for (const Json& text : texts)
    lines.push_back({{"text", text}});
  return lines;
}

std::string digits(const Json& value, int count) {
  return value.is_number() ? fmt::format("{:.{}g}", value.get<double>(), count)
                           : value.get<std::string>();
}

std::string place_of(const Json& element) {
  return fmt::format("{}{}", element["output"].get<std::string>(), one_line(element["at"]));
}

Json view_of_element(const Json& e) {
  return {{"place", place_of(e)},
          {"got", digits(e["got"], 9)},
          {"got_hexadecimal", e["got_hexadecimal"]},
          {"truth", digits(e["truth"], 9)},
          {"truth_hexadecimal", e["truth_hexadecimal"]},
          {"ulp", digits(e["ulp"], 3)},
          {"fraction", digits(e["fraction"], 3)}};
}

std::string errors_in_words(const Json& e) {
  return fmt::format("max {}, RMS {}, mean {} in 2^-24 sum p|v|; max {} ulp, {} of the bound",
                     digits(e["max"], 3), digits(e["rms"], 3), digits(e["mean"], 3),
                     digits(e["max_ulp"], 3), digits(e["max_fraction"], 3));
}

Json view_of_output(const Json& record, const numerics::ErrorMap& map, std::size_t number) {
  Json ten = Json::array(), counts = Json::array();
  for (const Json& element : record["worst_ten"])
    ten.push_back(view_of_element(element));
  for (const auto& [name, count] : record["elements"].items())
    counts.push_back({{"name", name}, {"count", one_line(count)}});
  Json view{{"name", record["output"]},
            {"number", number},
            {"verdict", record["verdict"]},
            {"wrong", record["verdict"] == "proved wrong"},
            {"right", record["verdict"] == "proved right"},
            {"why", record["why"]},
            {"worst", record["worst"].is_null() ? Json(nullptr) : view_of_element(record["worst"])},
            {"counts", counts},
            {"error", errors_in_words(record["error"])},
            {"plain", record["plain"]["elements"] == 0 ? "" : errors_in_words(record["plain"])},
            {"ten", ten},
            {"has_ten", !ten.empty()},
            {"not_finite", lines_of(record["not_finite"])},
            {"has_not_finite", !record["not_finite"].empty()},
            {"looks_like", lines_of(record["looks_like"])},
            {"has_looks_like", !record["looks_like"].empty()},
            {"map", nullptr}};
  if (map.rows() * map.columns() > 0) {
    const std::string id = fmt::format("map-{}", number);
    // No name of others: it would go through gnuplot.
    view["map"] = {{"id", id},
                   {"svg", draw_svg({id + "-drawing", "Error map of O", "|error| / bound", &map})},
                   {"json", one_line(to_json(map))},
                   {"says", reduction_of(map)}};
  }
  return view;
}

std::string shape_in_words(const Json& s) {
  return fmt::format("{} batches, {} query heads, {} KV heads, n_q {}, n_kv {}, d {}, dv {}",
                     one_line(s["batches"]), one_line(s["query_heads"]), one_line(s["kv_heads"]),
                     one_line(s["n_q"]), one_line(s["n_kv"]), one_line(s["d"]), one_line(s["dv"]));
}

} // namespace

numerics::JudgeWatch JudgePage::watch() {
  numerics::JudgeWatch watch;
  watch.begin = [this](const numerics::JudgeRecord& r, std::size_t outputs) {
    heads_ = r.query_heads;
    n_q_ = r.n_q;
    maps_.assign(outputs, numerics::ErrorMap(r.batches * r.query_heads * r.n_q, r.dv, kMostPageRows,
                                             kMostPageColumns));
  };
  watch.element = [this](std::size_t output, const numerics::Judged& e) {
    const bool bounded = e.error == 0.0 || std::isfinite(e.bound);
    maps_[output].add((e.at.batch * heads_ + e.at.head) * n_q_ + e.at.row, e.at.column,
                      numerics::cell_of(e.got, e.truth.hi, bounded ? e.fraction : std::nan("")));
  };
  watch.row = [this](const numerics::JudgedRow& row) { rows_.push_back(row); };
  return watch;
}

Json JudgePage::row_plots() const {
  std::vector<numerics::JudgedRow> rows = rows_;
  std::ranges::sort(
      rows, {}, [](const numerics::JudgedRow& r) { return std::tuple(r.batch, r.head, r.row); });
  const std::size_t step = (rows.size() + kMostRowPoints - 1) / kMostRowPoints;
  Json plots = Json::array();
  const auto add = [&](const char* id, const char* title, const char* unit, bool log, auto value) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < rows.size(); i += step) {
      const double y = value(rows[i]);
      if (std::isfinite(y) && (!log || y > 0.0))
        points.emplace_back((rows[i].batch * heads_ + rows[i].head) * n_q_ + rows[i].row, y);
    }
    if (points.empty())
      return;
    const Plot plot{id, title, "row of O, batch-heads below each other",      unit,
                    0,  log,   {{title, Mark::points, 1, std::move(points)}}, {}};
    plots.push_back({{"title", title}, {"svg", draw(plot)}});
  };
  if (rows.empty())
    return plots;
  add("row-score", "Largest score of each row", "score", false,
      [](const numerics::JudgedRow& r) { return r.max_score; });
  add("row-entropy", "Entropy of each row", "nats", false,
      [](const numerics::JudgedRow& r) { return r.entropy; });
  add("row-condition", "Condition of each row", "max sum p|v| / |o|", true,
      [](const numerics::JudgedRow& r) { return r.condition; });
  return plots;
}

std::string JudgePage::html(const std::vector<Json>& records) const {
  Json outputs = Json::array();
  for (std::size_t o = 0; o < records.size(); ++o)
    outputs.push_back(view_of_output(records[o], maps_[o], o + 1));
  const Json& first = records.front();
  const Json plots = row_plots();
  return filled(Template::judge_html, {{"shape", shape_in_words(first["shape"])},
                                       {"assumed", lines_of(first["assumed"])},
                                       {"truth", first["truth"]},
                                       {"outputs", outputs},
                                       {"plots", plots},
                                       {"has_plots", !plots.empty()}});
}

} // namespace fa1::reports
