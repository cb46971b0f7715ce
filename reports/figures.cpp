#include "reports/figures.hpp"

#include "numerics/error.hpp"
#include "reference/recipe.hpp"
#include "reports/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace fa1::reports {

std::string edge_of_bin(std::size_t bin) {
  return bin == 0   ? "0"
         : bin == 1 ? "1/2"
                    : fmt::format("{:.0f}", std::ldexp(0.5, static_cast<int>(bin) - 1));
}

std::vector<Json> records_of(const Json& records, std::string_view what) {
  std::vector<Json> chosen;
  std::ranges::copy_if(records, std::back_inserter(chosen),
                       [&](const Json& record) { return record["what"] == what; });
  return chosen;
}

namespace {

/// Points where nothing is promised have no place among errors and bounds; the tables tell of them.
std::vector<std::pair<double, double>> along(const Json& points, const char* quantity) {
  std::vector<std::pair<double, double>> line;
  for (const Json& point : points)
    if (point["verdict"] != "undecided")
      line.emplace_back(number_of(point["x"]), number_of(point[quantity]));
  return line;
}

Plot plot_of(const Json& figure) {
  const Json& points = figure["points"];
  Plot plot{figure["id"],
            figure["title"],
            figure["x_title"],
            "error in 2^{-24} Σ p|v|",
            figure["x_base"],
            true,
            {{"bound", Mark::line, 3, along(points, "bound")},
             {"expected", Mark::dashes, 4, along(points, "expected")},
             {"max error", Mark::points, 2, along(points, "max_error")},
             {"RMS error", Mark::points, 1, along(points, "rms_error")}},
            {}};
  if (figure["shows_l"].get<bool>())
    plot.series.push_back(
        {"max error of l, in 2^{-24} l", Mark::points, 5, along(points, "max_l_error")});
  return plot;
}

Plot histogram_of(const Json& histogram) {
  Plot plot{"histogram",
            "Histogram of the errors in ulp",
            "|error| up to, in ulp of the exact answer",
            "share of outputs, %",
            0,
            false,
            {},
            {}};
  std::size_t last = 1;
  for (const Json& group : histogram)
    for (std::size_t bin = 0; bin < group["bins"].size(); ++bin)
      if (group["bins"][bin].get<std::int64_t>() > 0)
        last = std::max(last, bin);
  plot.bar_width = 0.8 / static_cast<double>(histogram.size());
  for (std::size_t g = 0; g < histogram.size(); ++g) {
    double total = 0.0;
    for (const Json& count : histogram[g]["bins"])
      total += count.get<double>();
    Series bars{histogram[g]["name"], Mark::bars, static_cast<int>(g) + 1, {}};
    const double shift =
        (static_cast<double>(g) - 0.5 * static_cast<double>(histogram.size() - 1)) * plot.bar_width;
    for (std::size_t bin = 0; bin <= last; ++bin)
      bars.points.emplace_back(static_cast<double>(bin) + shift,
                               100.0 * histogram[g]["bins"][bin].get<double>() / total);
    plot.series.push_back(std::move(bars));
  }
  for (std::size_t bin = 0; bin <= last; ++bin)
    plot.x_ticks.emplace_back(static_cast<double>(bin),
                              bin + 1 == numerics::kUlpBins ? "more" : edge_of_bin(bin));
  return plot;
}

/// The references, the kernel and its mirror, one bar each; certify in a colour of its own.
Plot plot_of_costs(const Json& costs) {
  Plot plot{"costs",
            "Time of one multiply-add in each reference",
            "",
            "ns for one multiply-add",
            0,
            true,
            {{"certified truth", Mark::bars, 1, {}}, {"others", Mark::bars, 2, {}}},
            {}};
  double at = 0.0;
  for (const Json& subject : costs["subjects"]) {
    const std::string id = subject["subject"];
    const bool certify = id.starts_with("certify");
    if (subject["unit"] != "multiply-add" || (certify && id != "certify"))
      continue;
    plot.series[certify ? 0 : 1].points.emplace_back(at, number_of(subject["ns"]));
    plot.x_ticks.emplace_back(at, id);
    at += 1.0;
  }
  return plot;
}

/// The kill matrix: a column for each kernel, grouped by fault, a row for each law and each gate.
Plot plot_of_zoo(const Json& zoo) {
  Plot plot{"zoo",
            "Which law and which gate catches which wrong kernel",
            "",
            "",
            0,
            false,
            {{"caught by a law", Mark::cells, 1, {}},
             {"by this law alone", Mark::cells, 5, {}},
             {"rejected by a gate", Mark::cells, 2, {}}},
            {}};
  double y = 0.0;
  std::map<std::string, double> row_of;
  for (const auto& [what, name] : {std::pair{"zoo-law", "law"}, std::pair{"zoo-gate", "gate"}}) {
    for (const Json& record : records_of(zoo, what)) {
      row_of[record[name]] = y;
      plot.y_ticks.emplace_back(y, record[name]);
      y -= 1.0;
    }
    y -= 1.0; // a gap
  }
  double x = 0.0, group_begin = 0.0;
  std::string group;
  const auto close_group = [&] {
    if (!group.empty())
      plot.top_ticks.emplace_back(0.5 * (group_begin + x - 1.0), group);
  };
  for (const Json& kernel : records_of(zoo, "zoo")) {
    const std::string its_group = kernel["wrong"].get<bool>() ? kernel["fault"] : Json("right");
    if (its_group != group) {
      close_group();
      x += group.empty() ? 0.0 : 1.0; // a gap
      group = its_group;
      group_begin = x;
    }
    const std::string id = kernel["kernel"];
    plot.x_ticks.emplace_back(x, id.substr(id.find('.') + 1));
    for (const auto& [law, answer] : kernel["laws"].items())
      if (answer["answer"] == "violated")
        plot.series[kernel["kills"] == 1 ? 1 : 0].points.emplace_back(x, row_of.at(law));
    for (const auto& [gate, answer] : kernel["gates"].items())
      if (answer == "rejected")
        plot.series[2].points.emplace_back(x, row_of.at(gate));
    x += 1.0;
  }
  close_group();
  return plot;
}

Series series_of(const std::string& name, Mark mark, int colour, const Json& records, const char* x,
                 const char* y) {
  Series series{"", mark, colour, {}};
  for (const char c : name) // an underscore would lower what follows it
    series.name += c == '_' ? std::string("\\_") : std::string(1, c);
  for (const Json& record : records)
    series.points.emplace_back(number_of(record[x]), number_of(record[y]));
  return series;
}

Json of_variant(const Json& records, std::string_view variant) {
  Json chosen = Json::array();
  std::ranges::copy_if(records, std::back_inserter(chosen),
                       [&](const Json& record) { return record["variant"] == variant; });
  return chosen;
}

/// The variants that the plots of the family name, each with its colour; the tables name all.
constexpr std::array<std::pair<const char*, int>, 4> kPlottedVariants{
    {{"fa1_element", 4}, {"fa1", 1}, {"fa1_deferred", 2}, {"standard", 5}}};

Plot plot_of_growth(const Json& family) {
  Plot plot{"family", "Error of the kernels of the family against the number of keys",
            "keys N", "RMS error in 2^{-24} Σ p|v|",
            2,        true,
            {},       {}};
  for (const auto& [variant, colour] : kPlottedVariants)
    for (const Json& kernel : of_variant(family["growth"], variant))
      if (!kernel["contracted"].get<bool>())
        plot.series.push_back(
            series_of(variant, Mark::points, colour, kernel["points"], "keys", "rms_error"));
  return plot;
}

/// Counted, with the paper's law: square tiles of D (2 Bc + Br) floats move 9 N^2 d^2 / M.
Plot plot_of_traffic(const Json& family) {
  Plot plot{"traffic",
            "Global memory traffic against shared memory",
            "shared memory M, floats",
            "floats moved",
            2,
            true,
            {},
            {}};
  Series law{"9 N^2 d^2 / M", Mark::line, 0, {}};
  for (const Json& record : of_variant(family["traffic"], "fa1")) {
    const auto recipe = reference::parse_recipe(record["recipe"].get<std::string>());
    const double M = number_of(record["shared_floats"]);
    law.points.emplace_back(M, 9.0 * static_cast<double>(recipe.n_q) *
                                   static_cast<double>(recipe.n_kv) *
                                   static_cast<double>(recipe.d * recipe.d) / M);
  }
  std::ranges::sort(law.points);
  plot.series.push_back(std::move(law));
  for (const auto& [variant, colour] :
       {std::pair{"fa1", 1}, std::pair{"fa2", 2}, std::pair{"standard", 5}})
    plot.series.push_back(series_of(variant, Mark::points, colour,
                                    of_variant(family["traffic"], variant), "shared_floats",
                                    "floats"));
  return plot;
}

Plot plot_of_memory(const Json& family) {
  Plot plot{
      "memory", "Global memory besides Q, K, V and O", "keys N = queries", "floats", 2, true, {},
      {}};
  for (const auto& [variant, colour] :
       {std::pair{"standard", 5}, std::pair{"split_kv", 4}, std::pair{"fa1", 1}})
    plot.series.push_back(series_of(variant, Mark::points, colour,
                                    of_variant(family["memory"], variant), "keys", "floats"));
  return plot;
}

} // namespace

std::map<std::string, std::string> draw_figures(const Json& report, const Json& costs) {
  std::map<std::string, std::string> svgs;
  for (const Json& figure : report["figures"])
    svgs[figure["id"]] = draw(plot_of(figure));
  svgs["histogram"] = draw(histogram_of(report["histogram"]));
  svgs["family"] = draw(plot_of_growth(report["family"]));
  svgs["traffic"] = draw(plot_of_traffic(report["family"]));
  svgs["memory"] = draw(plot_of_memory(report["family"]));
  if (!report["zoo"].empty())
    svgs["zoo"] = draw(plot_of_zoo(report["zoo"]));
  svgs["costs"] = draw(plot_of_costs(costs));
  return svgs;
}

} // namespace fa1::reports
