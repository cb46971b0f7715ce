#include "reports/topic_pages.hpp"

#include "reports/command.hpp"
#include "reports/filling.hpp"
#include "reports/plot.hpp"
#include "reports/topics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace fa1::reports {
namespace {

std::string file_of(const Json& topic, const Json& part) {
  return topic["id"].get<std::string>() + "-" + part["id"].get<std::string>();
}

Mark mark_of(const std::string& name) {
  static const std::map<std::string, Mark> marks{{"points", Mark::points},
                                                 {"line", Mark::line},
                                                 {"dashes", Mark::dashes},
                                                 {"bars", Mark::bars},
                                                 {"stack", Mark::stack}};
  const auto found = marks.find(name);
  if (found == marks.end())
    throw std::logic_error(fmt::format("a plot has no mark '{}'", name));
  return found->second;
}

std::vector<std::pair<double, std::string>> ticks_of(const Json& plot) {
  std::vector<std::pair<double, std::string>> ticks;
  for (const Json& tick : plot["x_ticks"])
    ticks.emplace_back(number_of(tick[0]), tick[1]);
  return ticks;
}

Plot plot_of(const Json& topic, const Json& json) {
  Plot plot{file_of(topic, json),
            json["title"],
            json["x_title"],
            json["y_title"],
            json["x_base"],
            json["y_log"],
            {},
            ticks_of(json)};
  for (const Json& one : json["series"]) {
    Series series{one["name"], mark_of(one["mark"]), one["colour"], {}};
    for (const Json& point : one["points"])
      series.points.emplace_back(number_of(point[0]), number_of(point[1]));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string cell(const Json& value) {
  if (value.is_number_float()) {
    const double x = value.get<double>();
    return x == std::floor(x) && std::fabs(x) < 1e7 ? fmt::format("{:.0f}", x)
                                                    : fmt::format("{:.3g}", x);
  }
  if (value.is_boolean())
    return value.get<bool>() ? "yes" : "no";
  if (value.is_null() || value == "NaN")
    return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_text(const Json& value) {
  return value.is_boolean() ||
         (value.is_string() && value != "NaN" && value != "Infinity" && value != "-Infinity");
}

Json view_of_table(const Json& topic, const Json& table) {
  Json columns = Json::array(), rows = Json::array();
  for (const Json& column : table["columns"])
    columns.push_back({{"name", column["name"]},
                       {"n", std::ranges::none_of(table["records"], [&](const Json& record) {
                          return is_text(record[column["key"].get<std::string>()]);
                        })}});
  for (const Json& record : table["records"]) {
    Json cells = Json::array();
    for (std::size_t i = 0; i < columns.size(); ++i)
      cells.push_back({{"text", cell(record[table["columns"][i]["key"].get<std::string>()])},
                       {"n", columns[i]["n"]}});
    rows.push_back({{"cells", cells}});
  }
  return {{"id", table["id"]},     {"title", table["title"]},
          {"says", table["says"]}, {"columns", columns},
          {"rows", rows},          {"file", file_of(topic, table)}};
}

Json lines_of(const Json& texts) {
  Json lines = Json::array();
  for (const Json& text : texts)
    lines.push_back({{"text", text}});
  return lines;
}

/// Without the plots' drawings, which only the page itself shows.
Json view_of(const Json& topic) {
  Json plots = Json::array(), tables = Json::array();
  for (const Json& plot : topic["plots"])
    plots.push_back({{"id", plot["id"]},
                     {"title", plot["title"]},
                     {"says", plot["says"]},
                     {"file", file_of(topic, plot)}});
  for (const Json& table : topic["tables"])
    tables.push_back(view_of_table(topic, table));
  return {{"id", topic["id"]},
          {"title", topic["title"]},
          {"question", topic["question"]},
          {"answer", topic["sentences"].empty() ? Json("") : topic["sentences"][0]},
          {"sentences", lines_of(topic["sentences"])},
          {"plots", plots},
          {"tables", tables},
          {"reproduce", lines_of(topic["reproduce"])}};
}

} // namespace

std::vector<std::string> topic_file_patterns() {
  std::vector<std::string> patterns;
  for (const Topic& topic : all_topics())
    for (const char* ending : {".html", "-*.svg", "-*.csv"})
      patterns.push_back(fmt::format("pages/{}{}", topic.id, ending));
  return patterns;
}

std::vector<ReportFile> topic_files(const Json& topic) {
  std::vector<ReportFile> files;
  Json view = view_of(topic);
  for (std::size_t i = 0; i < topic["plots"].size(); ++i) {
    const std::string svg = draw(plot_of(topic, topic["plots"][i]));
    view["plots"][i]["svg"] = svg;
    files.push_back({"pages/" + file_of(topic, topic["plots"][i]) + ".svg", stand_alone(svg)});
  }
  for (const Json& table : topic["tables"])
    files.push_back({"pages/" + file_of(topic, table) + ".csv", csv_of_records(table["records"])});
  files.push_back(
      {"pages/" + topic["id"].get<std::string>() + ".html", filled(Template::topic_html, view)});
  return files;
}

Json views_of_topics(const Json& topics) {
  Json views = Json::array();
  for (const Json& topic : topics)
    views.push_back(view_of(topic));
  return views;
}

} // namespace fa1::reports
