#include "reports/writers.hpp"

#include "numerics/error.hpp"
#include "reports/command.hpp"
#include "reports/figures.hpp"
#include "reports/filling.hpp"
#include "reports/plot.hpp"
#include "reports/topic_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace fa1::reports {
namespace {

// ---------------------------------------------------------------------------------------------------
// Numbers and fields
// ---------------------------------------------------------------------------------------------------

std::string shown(const Json& json, const char* format = "{:.3g}") {
  const double x = number_of(json);
  return std::isnan(x) ? "-" : fmt::format(fmt::runtime(format), x);
}

/// A value of a horizontal axis: whole where it is whole.
std::string shown_x(double x) {
  return x == std::floor(x) && x < 1e7 ? fmt::format("{:.0f}", x) : fmt::format("{:g}", x);
}

std::string csv_field(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                     : value.is_null() ? ""
                                       : value.dump();
  if (text.find_first_of(",\"\n\r") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// ---------------------------------------------------------------------------------------------------
// What the templates show
// ---------------------------------------------------------------------------------------------------

Json view_of_summary(const Json& rows) {
  Json view = Json::array();
  for (const Json& row : rows)
    view.push_back({{"what", row["what"]},
                    {"note", row["note"]},
                    {"held", row["held"].dump()},
                    {"asked", row["asked"].dump()},
                    {"undecided", row["undecided"] == 0 ? "" : row["undecided"].dump()},
                    {"wrong", row["wrong"].dump()},
                    {"worst", row["worst_fraction"] == "NaN" ? "" : shown(row["worst_fraction"])},
                    {"class", row["wrong"] == 0 ? "good" : "bad"}});
  return view;
}

Json view_of_figure(const Json& figure, const std::string& svg) {
  Json slopes = Json::array(), points = Json::array();
  for (const Json& fit : figure["slopes"])
    slopes.push_back(
        {{"text", fmt::format("{} ~ {}^{} (95 %: {} to {}) for {} = {} to {}",
                              fit["quantity"].get<std::string>(), figure["key"].get<std::string>(),
                              shown(fit["slope"], "{:.3f}"), shown(fit["low"], "{:.3f}"),
                              shown(fit["high"], "{:.3f}"), figure["key"].get<std::string>(),
                              shown_x(number_of(fit["from"])), shown_x(number_of(fit["to"])))}});
  for (const Json& point : figure["points"]) {
    std::string verdict = point["verdict"];
    if (const std::string why = point["why"]; !why.empty())
      verdict += ": " + why;
    if (point["not_finite"] != 0)
      verdict += fmt::format(" ({} of {:.0f} outputs NaN or Inf)",
                             point["not_finite"].get<std::int64_t>(), number_of(point["elements"]));
    points.push_back({{"x", shown_x(number_of(point["x"]))},
                      {"max_error", shown(point["max_error"])},
                      {"rms_error", shown(point["rms_error"])},
                      {"bound", shown(point["bound"])},
                      {"expected", shown(point["expected"])},
                      {"max_fraction", shown(point["max_fraction"])},
                      {"verdict", verdict},
                      {"reproduce", point["reproduce"]}});
  }
  return {{"id", figure["id"]},   {"title", figure["title"]},         {"says", figure["says"]},
          {"key", figure["key"]}, {"reproduce", figure["reproduce"]}, {"svg", svg},
          {"slopes", slopes},     {"has_slopes", !slopes.empty()},    {"points", points}};
}

Json view_of_costs(const Json& costs, const std::string& svg) {
  Json rows = Json::array(), goals = Json::array();
  for (const Json& subject : costs["subjects"]) {
    const CostRow row = cost_row(subject);
    rows.push_back({{"subject", row.subject},
                    {"rows", row.rows},
                    {"ns", row.ns},
                    {"ratio", row.ratio},
                    {"radius", row.radius},
                    {"error", row.error},
                    {"says", row.says}});
  }
  for (const Json& goal : costs["goals"]) {
    const GoalRow row = goal_row(goal);
    goals.push_back({{"says", row.says},
                     {"asked", row.asked},
                     {"measured", row.measured},
                     {"answer", row.answer},
                     {"class", goal["reached"].get<bool>() ? "good" : ""}});
  }
  return {{"load", shown(costs["load"], "{:.1f}")},
          {"keys", costs["keys"].dump()},
          {"d", costs["d"].dump()},
          {"repetitions", costs["repetitions"].dump()},
          {"rows", rows},
          {"goals", goals},
          {"svg", svg}};
}

std::string_view class_of(const Json& answer) {
  return answer == "held" ? "good" : answer == "violated" ? "bad" : "soft";
}

Json view_of_laws(const Json& laws) {
  Json view = Json::array();
  for (const Json& law : laws)
    view.push_back(
        {{"id", law["id"]},
         {"kind", law["kind"]},
         {"says", law["says"]},
         {"answer",
          law["answer"] == "not-applicable" ? "not applicable" : law["answer"].get<std::string>()},
         {"class", class_of(law["answer"])},
         {"held", law["held"].dump()},
         {"worst", law["kind"] == "exact" ? "bitwise" : shown(law["worst_fraction"])},
         {"violation", law["violation"]},
         {"reproduce", law["reproduce"]}});
  return view;
}

/// Variant and where it runs, with the contraction: `fa1 on cpu-fma`, as the end of its id has it.
std::string group_of(const Json& result) {
  const std::string id = result["kernel"];
  return result["variant"].get<std::string>() + " on " + id.substr(id.rfind('.') + 1);
}

Json cell_of(const Json& law, const Json& result, bool first) {
  const std::string border = first ? " first" : "";
  if (result["answer"] == "violated")
    return {{"class", "v" + border}, {"text", "✗"}};
  if (result["answer"] == "not-applicable")
    return {{"class", border}, {"text", "·"}};
  if (law["kind"] == "exact")
    return {{"class", border}, {"text", "="}};
  const double fraction = number_of(result["worst_fraction"]);
  return {{"class", "h" + border},
          {"heat",
           fmt::format("{:.2f}", 0.8 * std::sqrt(std::clamp(fraction, 0.0,
                                                            1.0)))}, // small fractions still differ
          {"text", fraction == 0.0   ? "0"
                   : fraction < 0.01 ? "<1"
                                     : fmt::format("{:.0f}", 100.0 * fraction)}};
}

/// One table for each variant and back end; its columns are that group's kernels.
Json view_of_matrices(const Json& laws) {
  Json view = Json::array();
  if (laws.empty())
    return view;
  std::map<std::string, std::vector<std::size_t>> groups;
  const Json& kernels = laws.front()["kernels"];
  for (std::size_t k = 0; k < kernels.size(); ++k)
    groups[group_of(kernels[k])].push_back(k);
  for (const auto& [name, members] : groups) {
    Json columns = Json::array(), spans = Json::array(), rows = Json::array();
    std::vector<bool> first;
    int D = -1;
    for (const std::size_t k : members) {
      const Json& kernel = kernels[k];
      first.push_back(kernel["D"] != D);
      if (first.back())
        spans.push_back({{"D", kernel["D"].dump()}, {"span", 0}});
      spans.back()["span"] = spans.back()["span"].get<int>() + 1;
      D = kernel["D"];
      columns.push_back({{"tile", kernel["Br"].dump() + "x" + kernel["Bc"].dump()},
                         {"first", first.back() ? "first" : ""}});
    }
    for (const Json& law : laws) {
      Json cells = Json::array();
      for (std::size_t i = 0; i < members.size(); ++i)
        cells.push_back(cell_of(law, law["kernels"][members[i]], first[i]));
      rows.push_back({{"id", law["id"]}, {"cells", std::move(cells)}});
    }
    view.push_back({{"name", fmt::format("{} ({} instances)", name, members.size())},
                    {"open", view.empty()},
                    {"groups", spans},
                    {"columns", columns},
                    {"rows", rows}});
  }
  return view;
}

Json view_of_edge_cases(const Json& edge_cases) {
  Json view = Json::array();
  for (const Json& e : edge_cases) {
    const bool fine = e["as_catalogued"].get<bool>();
    std::string bad_tile;
    if (!e["first_bad_tile"].is_null())
      bad_tile =
          fmt::format("parts from the truth in tile {}: {}",
                      e["first_bad_tile"].get<std::int64_t>(), e["why_bad"].get<std::string>());
    view.push_back({{"id", e["id"]},
                    {"kind", e["kind"]},
                    {"truth", e["truth"]},
                    {"gives", e["gives"]},
                    {"answer", fine ? "yes" : "no"},
                    {"class", fine ? "good" : "bad"},
                    {"why", e["why"]},
                    {"bad_tile", bad_tile},
                    {"detail", fine ? "" : e["detail"].get<std::string>()}});
  }
  return view;
}

Json view_of_family(const Json& family, const std::map<std::string, std::string>& svgs) {
  Json ratios = Json::array(), kernels = Json::array(), traffic = Json::array();
  for (const Json& ratio : family["ratios"])
    ratios.push_back(
        {{"text", fmt::format("{} over {}, {}: {} (95 %: {} to {}; {} problems), predicted {}",
                              ratio["over"].get<std::string>(), ratio["under"].get<std::string>(),
                              ratio["contracted"].get<bool>() ? "a*b+c fused" : "every rounding",
                              shown(ratio["measured"]), shown(ratio["low"]), shown(ratio["high"]),
                              ratio["problems"].dump(), shown(ratio["predicted"]))}});
  for (const Json& kernel : family["growth"]) {
    const Json& last = kernel["points"].back();
    kernels.push_back({{"kernel", kernel["kernel"]},
                       {"keys", last["keys"].dump()},
                       {"rms", shown(last["rms_error"])},
                       {"max", shown(last["max_error"])},
                       {"fraction", shown(last["max_fraction"])},
                       {"reproduce", kernel["reproduce"]}});
  }
  for (const Json& record : family["traffic"])
    traffic.push_back({{"kernel", record["kernel"]},
                       {"shared", record["shared_floats"].dump()},
                       {"floats", record["floats"].dump()},
                       {"predicted", record["predicted"].dump()},
                       {"class", record["floats"] == record["predicted"] ? "good" : "bad"}});
  return {{"recipe", family["recipe"]},
          {"growth_svg", svgs.at("family")},
          {"traffic_svg", svgs.at("traffic")},
          {"memory_svg", svgs.at("memory")},
          {"ratios", std::move(ratios)},
          {"kernels", std::move(kernels)},
          {"traffic_recipe", family["traffic"].empty() ? Json("") : family["traffic"][0]["recipe"]},
          {"traffic", std::move(traffic)}};
}

/// Null where the zoo stayed shut.
Json view_of_zoo(const Json& zoo, const std::map<std::string, std::string>& svgs) {
  const std::vector<Json> kernels = records_of(zoo, "zoo");
  if (kernels.empty())
    return nullptr;
  int wrong = 0, caught = 0, right = 0, let_pass = 0;
  Json survivors = Json::array(), laws = Json::array(), gates = Json::array();
  for (const Json& kernel : kernels) {
    const std::string id = kernel["kernel"], because = kernel["survives_because"];
    const int kills = kernel["kills"];
    if (!kernel["wrong"].get<bool>()) {
      ++right;
      let_pass += kills == 0;
      continue;
    }
    if (because.empty()) {
      ++wrong;
      caught += kills > 0;
    }
    if (kills == 0)
      survivors.push_back(
          {{"name", id},
           {"says", kernel["says"]},
           {"why", !because.empty()
                       ? because
                       : fmt::format("not seen in so few cases; law {} sees it in more",
                                     kernel["named_law"].get<std::string>())}});
  }
  for (const Json& law : records_of(zoo, "zoo-law")) {
    std::string alone;
    for (const Json& name : law["alone"])
      alone += (alone.empty() ? "" : ", ") + name.get<std::string>();
    laws.push_back({{"id", law["law"]}, {"caught", law["caught"].dump()}, {"alone", alone}});
  }
  for (const Json& gate : records_of(zoo, "zoo-gate"))
    gates.push_back({{"id", gate["gate"]},
                     {"says", gate["says"]},
                     {"caught", gate["caught"].dump()},
                     {"rejected", gate["right_ones_rejected"].dump()}});
  return {{"sentence",
           fmt::format("{} of {} wrong kernels caught, {} of {} right ones let pass, with {} cases "
                       "of each law on each tile.",
                       caught, wrong, let_pass, right, kernels.front()["cases"].get<int>())},
          {"svg", svgs.at("zoo")},
          {"wrong", std::to_string(wrong)},
          {"right", std::to_string(right)},
          {"has_survivors", !survivors.empty()},
          {"survivors", std::move(survivors)},
          {"laws", std::move(laws)},
          {"gates", std::move(gates)},
          {"reproduce", fmt::format("./fa1lab check --zoo --cases {} --seed {}",
                                    kernels.front()["cases"].get<int>(),
                                    kernels.front()["seed"].get<std::uint64_t>())}};
}

Json view_of_environment(const Json& report) {
  const Json& e = report["environment"];
  Json view = Json::array();
  const auto add = [&view](const char* name, const std::string& value) {
    view.push_back({{"name", name}, {"value", value.empty() ? "unknown" : value}});
  };
  add("revision", e["revision"]);
  add("compiler", e["compiler"]);
  add("flags", e["flags"]);
  add("build", e["build_type"]);
  add("expf of", e["libc"]);
  add("system", e["system"]);
  add("processor",
      fmt::format("{}, {} cores", e["cpu"].get<std::string>(), e["cores"].get<unsigned>()));
  add("CUDA", e["cuda"]);
  add("truth", report["figures"].empty()
                   ? ""
                   : report["figures"][0]["records"][0]["truth"].get<std::string>());
  add("threads of a block",
      report["figures"].empty()
          ? ""
          : report["figures"][0]["records"][0]["schedule"].get<std::string>());
  add("seed of the laws", report["seed"].dump());
  return view;
}

std::string command_of(const Json& report) {
  const std::string level = report["level"];
  return "./fa1lab report" + (level == "standard" ? "" : " --" + level) +
         (report["seed"] == 1 ? "" : " --seed " + report["seed"].dump());
}

Json view_of(const Json& report, const Json& costs,
             const std::map<std::string, std::string>& svgs) {
  Json figures = Json::array();
  for (const Json& figure : report["figures"])
    figures.push_back(view_of_figure(figure, svgs.at(figure["id"])));
  const Json& laws = report["laws"];
  const std::string level = report["level"];
  return {{"sentence", report["summary"]["sentence"]},
          {"sentence_class", report["summary"]["held"].get<bool>() ? "" : "bad"},
          {"summary", view_of_summary(report["summary"]["rows"])},
          {"level_note", level == "quick"
                             ? "This is the quick report: a selection of kernels and few cases."
                         : level == "standard" ? "More cases: ./fa1lab report --full."
                                               : "This is the full report."},
          {"figures", figures},
          {"histogram_svg", svgs.at("histogram")},
          {"costs", view_of_costs(costs, svgs.at("costs"))},
          {"cases", laws.empty() ? "0" : laws[0]["cases"].dump()},
          {"kernel_count", laws.empty() ? "0" : std::to_string(laws[0]["kernels"].size())},
          {"seed", report["seed"].dump()},
          {"laws", view_of_laws(laws)},
          {"matrices", view_of_matrices(laws)},
          {"edge_cases", view_of_edge_cases(report["edge_cases"])},
          {"family", view_of_family(report["family"], svgs)},
          {"topics", views_of_topics(report["topics"])},
          {"has_topics", !report["topics"].empty()},
          {"zoo", view_of_zoo(report["zoo"], svgs)},
          {"environment", view_of_environment(report)},
          {"command", command_of(report)}};
}

/// The tables of a report, each as flat records.
std::map<std::string, Json> tables_of(const Json& report, const Json& costs) {
  Json errors = Json::array(), laws = Json::array(), bins = Json::array();
  for (const Json& figure : report["figures"])
    for (const Json& record : figure["records"]) {
      Json row{{"figure", figure["id"]}};
      row.update(record);
      errors.push_back(std::move(row));
    }
  for (const Json& law : report["laws"])
    for (const Json& result : law["kernels"]) {
      Json row{{"law", law["id"]},
               {"kind", law["kind"]},
               {"cases", law["cases"]},
               {"seed", report["seed"]}};
      row.update(result);
      laws.push_back(std::move(row));
    }
  for (const Json& group : report["histogram"])
    for (std::size_t bin = 0; bin < group["bins"].size(); ++bin)
      bins.push_back({{"figure", group["figure"]},
                      {"up_to_ulp", bin + 1 == group["bins"].size() ? "more" : edge_of_bin(bin)},
                      {"outputs", group["bins"][bin]}});
  Json growth = Json::array();
  for (const Json& kernel : report["family"]["growth"])
    for (const Json& point : kernel["points"]) {
      Json row{{"kernel", kernel["kernel"]}, {"recipe", report["family"]["recipe"]}};
      row.update(point);
      growth.push_back(std::move(row));
    }
  Json zoo = Json::array();
  for (const Json& kernel : records_of(report["zoo"], "zoo")) {
    Json row = kernel;
    for (const auto& [law, answer] : kernel["laws"].items())
      row[law] = answer["answer"];
    row.update(kernel["gates"]);
    zoo.push_back(std::move(row));
  }
  return {{"errors.csv", errors},
          {"laws.csv", laws},
          {"edge_cases.csv", report["edge_cases"]},
          {"histogram.csv", bins},
          {"family.csv", growth},
          {"traffic.csv", report["family"]["traffic"]},
          {"zoo.csv", zoo},
          {"costs.csv", costs["subjects"]}};
}

} // namespace

std::string json_lines(const Json& records) {
  std::string text;
  for (const Json& record : records)
    text += record.dump() + "\n";
  return text;
}

std::string csv_of_records(const Json& records) {
  if (records.empty())
    return {};
  std::string text, header;
  for (const Json& record : records) {
    std::string names, line;
    for (const auto& [key, value] : record.items()) {
      if (value.is_structured())
        continue;
      names += (names.empty() ? "" : ",") + key;
      line += (line.empty() && names == key ? "" : ",") + csv_field(value);
    }
    if (header.empty())
      header = names;
    text += line + "\n";
  }
  return header + "\n" + text;
}

std::vector<std::string> report_file_names() {
  std::vector<std::string> names{"index.html",
                                 "report.md",
                                 "report.json",
                                 "errors.csv",
                                 "laws.csv",
                                 "edge_cases.csv",
                                 "histogram.csv",
                                 "family.csv",
                                 "traffic.csv",
                                 "zoo.csv",
                                 "costs.csv",
                                 "plots/keys-positive.svg",
                                 "plots/keys-normal.svg",
                                 "plots/keys-narrow.svg",
                                 "plots/stagnation.svg",
                                 "plots/head.svg",
                                 "plots/range.svg",
                                 "plots/tile.svg",
                                 "plots/histogram.svg",
                                 "plots/family.svg",
                                 "plots/traffic.svg",
                                 "plots/memory.svg",
                                 "plots/zoo.svg",
                                 "plots/costs.svg"};
  std::ranges::move(topic_file_patterns(), std::back_inserter(names));
  return names;
}

CostRow cost_row(const Json& subject) {
  const auto power = [](const Json& json) {
    const double x = number_of(json);
    return std::isnan(x) ? std::string("-")
           : x == 0.0    ? std::string("0")
                         : fmt::format("2^{:.1f}", std::log2(x));
  };
  const double ns = subject["ns"];
  std::string says = subject["says"];
  if (subject["unit"] == "case")
    says += fmt::format(", {:.0f} a second", 1e9 / ns);
  else if (subject["unit"] != "multiply-add")
    says += fmt::format(", {:.2f} a nanosecond", 1.0 / ns);
  const std::string note = subject["note"];
  return {subject["subject"],
          subject["rows"].is_null() ? "-" : subject["rows"].dump(),
          fmt::format("{:.{}f}", ns,
                      ns < 10.0     ? 3
                      : ns < 1000.0 ? 1
                                    : 0),
          shown(subject["ratio"], "{:.2f}"),
          power(subject["radius"]),
          power(subject["error"]) +
              (subject["within_radius"].get<bool>() ? "" : " beyond the radius"),
          fmt::format("{} ({})", says, note)};
}

GoalRow goal_row(const Json& goal) {
  const auto shown_goal = [](const Json& json) {
    const double x = number_of(json);
    return x < 1e-6 ? fmt::format("2^{:.1f}", std::log2(x)) : fmt::format("{:.3g}", x);
  };
  const double factor = number_of(goal["factor"]);
  return {goal["says"],
          fmt::format("{} {}", goal["sense"].get<std::string>(), shown_goal(goal["asked"])),
          shown_goal(goal["measured"]),
          factor >= 1.0 ? fmt::format("yes, by a factor of {:.2f}", factor)
                        : fmt::format("no, short by a factor of {:.2f}", 1.0 / factor)};
}

std::vector<ReportFile> report_files(const Json& report, const Json& costs) {
  const std::map<std::string, std::string> svgs = draw_figures(report, costs);
  const Json view = view_of(report, costs, svgs);
  std::vector<ReportFile> files{{"report.json", report.dump(1) + "\n"},
                                {"report.md", filled(Template::report_md, view)},
                                {"index.html", filled(Template::index_html, view)}};
  for (const auto& [name, records] : tables_of(report, costs))
    files.push_back({name, csv_of_records(records)});
  for (const auto& [id, svg] : svgs)
    files.push_back({"plots/" + id + ".svg", stand_alone(svg)});
  for (const Json& topic : report["topics"])
    std::ranges::move(topic_files(topic), std::back_inserter(files));
  return files;
}

std::string trace_page(const Json& records) {
  // Nothing inside a string may end the element that holds the records.
  std::string lines;
  for (const char c : json_lines(records))
    lines += c == '<' ? std::string("\\u003c") : std::string(1, c);
  const Json& head = records.front();
  const bool named = !head["case"].is_null();
  const Json view{{"title", named ? head["case"]["id"] : head["recipe"]},
                  {"heading", named ? head["case"]["id"].get<std::string>()
                                    : head["algorithm"].get<std::string>() + ", step by step"},
                  {"records", lines}};
  return filled(Template::trace_html, view);
}

} // namespace fa1::reports
