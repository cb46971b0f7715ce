#include "reports/topics/precision.hpp"

#include "numerics/precision.hpp"
#include "numerics/sweep.hpp"
#include "reference/recipe.hpp"
#include "reports/parallel.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {
namespace {

constexpr std::int64_t kBc = 64;

/// One of each kind, for a plot that can be read.
constexpr std::array kGrowing{"fp32",     "tf32",          "fa2-fp16",
                              "fa2-bf16", "standard-bf16", "bf16-intermediates"};

struct Amount {
  std::int64_t keys, most_keys; ///< of the table; of the growth
  int rows;
};

Amount amount_of(Level level) {
  switch (level) {
  case Level::quick:
    return {1024, 4096, 16};
  case Level::standard:
    return {4096, 16384, 16};
  case Level::full:
    break;
  }
  return {8192, 65536, 32};
}

} // namespace

Json measure_precision(const TopicAmount& amount) {
  const Amount how_much = amount_of(amount.level);
  const auto recipe_of = [&](std::int64_t keys) {
    return fmt::format("n_q={} n_kv={} d=64", how_much.rows, keys);
  };
  const auto problem_of = [&](std::int64_t keys) {
    return reference::make_problem(reference::parse_recipe(recipe_of(keys)));
  };
  const auto configurations = numerics::all_configurations();
  const auto records =
      numerics::measure_precision(problem_of(how_much.keys), configurations, kBc, cores());
  Json rows = Json::array(), inputs = Json::array(), arithmetic = Json::array(),
       ticks = Json::array();
  const numerics::PrecisionRecord *fp32 = nullptr, *least = nullptr, *most = nullptr;
  std::string not_finite;
  for (const numerics::PrecisionRecord& record : records) {
    const auto x = static_cast<double>(rows.size());
    inputs.push_back({x, number(record.inputs.rms)});
    arithmetic.push_back({x, number(record.arithmetic.rms)});
    ticks.push_back({x, fmt::format("{}", rows.size() + 1)});
    rows.push_back({{"number", rows.size() + 1},
                    {"configuration", record.configuration.id},
                    {"says", record.configuration.says},
                    {"stages", numerics::stages_of(record.configuration)},
                    {"inputs", number(record.inputs.rms)},
                    {"arithmetic", number(record.arithmetic.rms)},
                    {"mean", number(record.arithmetic.mean)},
                    {"total", number(record.total.rms)},
                    {"largest", number(record.total.max)},
                    {"relative", number(record.total.relative)},
                    {"not_finite", record.not_finite},
                    {"Bc", record.Bc},
                    {"recipe", recipe_of(how_much.keys)}});
    if (record.configuration.id == "fp32")
      fp32 = &record;
    else if (record.not_finite == 0) {
      if (least == nullptr || record.total.rms < least->total.rms)
        least = &record;
      if (most == nullptr || record.total.rms > most->total.rms)
        most = &record;
    }
    if (record.not_finite > 0)
      not_finite += (not_finite.empty() ? "" : ", ") + record.configuration.id;
  }
  for (Json* bars : {&inputs, &arithmetic}) // fp32 rounds no input: 0 has no place on a log axis
    std::erase_if(*bars->get_ptr<Json::array_t*>(),
                  [](const Json& point) { return !(number_of(point[1]) > 0.0); });

  std::vector<numerics::Configuration> growing;
  for (const char* id : kGrowing)
    growing.push_back(numerics::parse_configuration(id));
  std::vector<std::vector<double>> x(growing.size()), y(growing.size());
  std::vector<Json> curves(growing.size(), Json::array());
  for (std::int64_t keys = 128; keys <= how_much.most_keys; keys *= 2) {
    const auto at = numerics::measure_precision(problem_of(keys), growing, kBc, cores());
    for (std::size_t i = 0; i < at.size(); ++i) {
      x[i].push_back(static_cast<double>(keys));
      y[i].push_back(at[i].arithmetic.rms);
      curves[i].push_back({keys, number(at[i].arithmetic.rms)});
    }
  }
  Json grows = Json::array(), slopes = Json::array();
  std::map<std::string_view, double> slope_of;
  for (std::size_t i = 0; i < growing.size(); ++i) {
    const numerics::Slope slope = numerics::log_log_slope(x[i], y[i]);
    slope_of[kGrowing[i]] = slope.slope;
    grows.push_back(series(growing[i].id, "line", static_cast<int>(i), curves[i]));
    slopes.push_back({{"configuration", growing[i].id},
                      {"slope", number(slope.slope)},
                      {"low", number(slope.low)},
                      {"high", number(slope.high)},
                      {"points", slope.points},
                      {"from", 128},
                      {"to", how_much.most_keys}});
  }

  Json sentences = Json::array();
  sentences.push_back(fmt::format("Against {:.2g} u sum p|v| in fp32, lower precision costs from "
                                  "{:.2g} u ({}) to {:.2g} u ({}), RMS, u = 2^-24.",
                                  fp32->total.rms, least->total.rms, least->configuration.id,
                                  most->total.rms, most->configuration.id));
  sentences.push_back(fmt::format("With every intermediate in bf16 the error of the arithmetic "
                                  "grows as N^{:.2f}, with scores, l and O in fp32 "
                                  "as N^{:.2f}: the carries are what must not be rounded.",
                                  slope_of["bf16-intermediates"], slope_of["fa2-bf16"]));
  if (!not_finite.empty())
    sentences.push_back(fmt::format("NaN or Inf came out of {}.", not_finite));
  return {
      {"sentences", sentences},
      {"plots",
       {plot("configurations", "What each configuration costs",
             {"row of the table", "RMS error, u sum p|v|", 0},
             "What is lost by rounding the inputs, and what by the arithmetic after that.",
             {series("arithmetic", "points", 1, arithmetic), series("inputs", "points", 2, inputs)},
             ticks),
        plot("keys", "Error of the arithmetic against the number of keys",
             {"keys N", "RMS error, u sum p|v|"}, "Against the truth of the rounded inputs.",
             grows)}},
      {"tables",
       {table("configurations", "Configurations",
              "RMS errors in u sum p|v|, u = 2^-24; relative: RMS error over the RMS of O. "
              "Emulated: fp32 with each value of a stage rounded where it ends.",
              {{"number", "row"},
               {"configuration", "configuration"},
               {"stages", "rounded stages"},
               {"inputs", "inputs"},
               {"arithmetic", "arithmetic"},
               {"mean", "mean of it"},
               {"total", "both"},
               {"largest", "largest"},
               {"relative", "relative"},
               {"not_finite", "NaN or Inf"}},
              rows),
        table("slopes", "Growth with the keys",
              "Log-log slope of the RMS error of the arithmetic, 95 % interval.",
              {{"configuration", "configuration"},
               {"slope", "slope"},
               {"low", "low"},
               {"high", "high"},
               {"points", "points"}},
              slopes)}},
      {"reproduce",
       {fmt::format("./fa1lab precision '{}' --tile {}", recipe_of(how_much.keys), kBc),
        fmt::format("./fa1lab precision '{}' --tile {} --config bf16-intermediates",
                    recipe_of(how_much.most_keys), kBc)}},
      {"held", true}};
}

} // namespace fa1::reports
