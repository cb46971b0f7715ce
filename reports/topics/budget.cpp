#include "reports/topics/budget.hpp"

#include "kernels/kernel.hpp"
#include "reports/budget_runs.hpp"
#include "reports/family.hpp"
#include "reports/parallel.hpp"
#include "reports/terminal.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fa1::reports {
namespace {

struct Family {
  const char* id;
  const char* says;
  const char* recipe;
};

constexpr auto kFamilies = std::to_array<Family>({
    {"normal", "Q, K and V normal", "d=64"},
    {"positive", "V of one sign", "d=64 v=positive"},
    {"first", "V of one sign, heavy keys first", "d=64 v=positive order=descending"},
    {"last", "V of one sign, heavy keys last", "d=64 v=positive order=ascending"},
    {"wide", "scores of standard deviation 8", "d=64 sigma=8"},
    {"large-d", "d = 256", "d=256 dv=64"},
});
constexpr std::int64_t kTile = 64;
constexpr std::int64_t kKeys = 1024; ///< where families and kernels are held against each other

struct Amount {
  int heads, queries;
  std::int64_t most_keys;
};

Amount amount_of(Level level) {
  switch (level) {
  case Level::quick:
    return {1, 8, 4096};
  case Level::standard:
    return {4, 16, 4096};
  default:
    return {8, 32, 16384};
  }
}

/// A record of budget_runs.hpp beside where it stands on the page.
struct Run {
  const Family* family;
  std::int64_t keys;
  const kernels::Kernel* kernel;
  reference::Recipe recipe;
  Json record;
};

std::string percent(const Json& share) { return fmt::format("{:.0f} %", 100.0 * number_of(share)); }

/// The two largest stages, in words.
std::string largest_of(const Json& record) {
  std::vector<std::pair<double, std::string>> stages;
  for (const Json& stage : record["stages"])
    stages.emplace_back(number_of(stage["share"]), stage["stage"].get<std::string>());
  std::ranges::stable_sort(stages, std::greater{}, &std::pair<double, std::string>::first);
  return fmt::format("{} of the error from {}, {} from {}", percent(number(stages[0].first)),
                     stages[0].second, percent(number(stages[1].first)), stages[1].second);
}

/// Bars over the given runs, one stage on the other, each as high as its share of `height(record)`. Stages that
/// stay below kSmall in every bar are put together.
template <class Height>
Json stacked(const char* id, std::string title, std::string x_title, std::string y_title,
             std::string says, const std::vector<std::pair<std::string, const Run*>>& bars,
             const Height& height) {
  constexpr double kSmall = 0.02;
  const auto share = [&](std::size_t bar, std::size_t stage) {
    return number_of(bars[bar].second->record["stages"][stage]["share"]);
  };
  Json stack = Json::array(), ticks = Json::array();
  for (std::size_t bar = 0; bar < bars.size(); ++bar)
    ticks.push_back({static_cast<double>(bar), bars[bar].first});
  std::vector<double> others(bars.size());
  const auto add = [&](std::string_view name, std::size_t colour, const auto& share_of) {
    Json points = Json::array();
    for (std::size_t bar = 0; bar < bars.size(); ++bar)
      points.push_back(
          {static_cast<double>(bar), number(height(bars[bar].second->record) * share_of(bar))});
    stack.push_back(
        series(std::string(name), "stack", static_cast<int>(colour), std::move(points)));
  };
  for (std::size_t stage = 0; stage < numerics::kBudgetStages; ++stage) {
    bool is_small = true;
    for (std::size_t bar = 0; bar < bars.size(); ++bar)
      is_small = is_small && std::fabs(share(bar, stage)) < kSmall;
    for (std::size_t bar = 0; is_small && bar < bars.size(); ++bar)
      others[bar] += share(bar, stage);
    if (!is_small)
      add(numerics::name_of(static_cast<numerics::BudgetStage>(stage)), stage + 1,
          [&](std::size_t bar) { return share(bar, stage); });
  }
  add("others", 0, [&](std::size_t bar) { return others[bar]; });
  return plot(id, std::move(title), {std::move(x_title), std::move(y_title), 0, false},
              std::move(says), std::move(stack), std::move(ticks));
}

double whole_percent(const Json&) { return 100.0; }
double rms_of(const Json& record) { return number_of(record["rms"]); }

std::vector<Run> measure(const TopicAmount& amount) {
  const Amount sizes = amount_of(amount.level);
  std::vector<Run> runs;
  const auto add = [&](const Family& family, std::int64_t keys, const kernels::Kernel& kernel) {
    runs.push_back(
        {&family,
         keys,
         &kernel,
         reference::parse_recipe(fmt::format("bh={} n_q={} n_kv={} {} seed={}", sizes.heads,
                                             sizes.queries, keys, family.recipe, amount.seed)),
         {}});
  };
  const kernels::Kernel& fa1 = *representative("fa1", false);
  for (const Family& family : kFamilies)
    for (std::int64_t keys = 64; keys <= sizes.most_keys; keys *= 4)
      add(family, keys, fa1);
  for (const std::string& variant : variants())
    if (const kernels::Kernel* kernel = representative(variant, false);
        kernel != nullptr && variant != "fa1" && variant != "fa1_element")
      add(kFamilies[1], kKeys, *kernel);
  Progress progress("the budget", static_cast<double>(runs.size()));
  in_parallel(runs.size(), [&](std::size_t i) {
    Run& run = runs[runs.size() - 1 - i]; // the widest first
    run.record =
        budget_record(run.recipe, *run.kernel, {run.kernel->arithmetic.order, kTile, {}}, 1);
    progress.done(1.0);
  });
  return runs;
}

Json shares_table(const std::vector<Run>& runs) {
  Json columns = {{{"key", "family"}, {"name", "input"}},
                  {{"key", "variant"}, {"name", "kernel"}},
                  {{"key", "keys"}, {"name", "keys"}},
                  {{"key", "rms"}, {"name", "RMS error"}}};
  for (const Json& stage : runs.front().record["stages"])
    columns.push_back(
        {{"key", stage["stage"]}, {"name", stage["stage"].get<std::string>() + ", %"}});
  Json records = Json::array();
  for (const Run& run : runs) {
    Json row{{"family", run.family->says},
             {"variant", run.kernel->variant},
             {"keys", run.keys},
             {"rms", run.record["rms"]}};
    for (const Json& stage : run.record["stages"])
      row[stage["stage"].get<std::string>()] = number(100.0 * number_of(stage["share"]));
    for (const char* key : {"unaccounted", "largest_unaccounted", "second_order", "recipe", "Bc"})
      row[key] = run.record[key];
    records.push_back(std::move(row));
  }
  return {{"id", "shares"},
          {"title", "Shares of the mean square error of O"},
          {"says", "Tiles of 64 keys; RMS error in 2^-24 sum p|v|. A share is <part, whole> / "
                   "<whole, whole> over "
                   "all elements: negative where a stage takes error away."},
          {"columns", std::move(columns)},
          {"records", std::move(records)}};
}

Json parts_table(const std::vector<Run>& runs) {
  Json records = Json::array();
  for (const Run& run : runs)
    if (run.keys == kKeys && run.kernel->variant == "fa1")
      for (const Json& stage : run.record["stages"])
        records.push_back({{"family", run.family->says},
                           {"stage", stage["stage"]},
                           {"share", number(100.0 * number_of(stage["share"]))},
                           {"alone", stage["alone"]},
                           {"left", stage["left"]},
                           {"bias", stage["bias"]},
                           {"recipe", run.record["recipe"]}});
  return table("parts", fmt::format("Every stage by itself, fa1, {} keys", kKeys),
               "RMS in 2^-24 sum p|v|: with this stage alone inexact, and with this stage alone "
               "exact; the mean of "
               "the former, with its sign.",
               {{"family", "input"},
                {"stage", "stage"},
                {"share", "share, %"},
                {"alone", "alone inexact"},
                {"left", "alone exact"},
                {"bias", "mean"}},
               std::move(records));
}

} // namespace

Json measure_budget(const TopicAmount& amount) {
  const std::vector<Run> runs = measure(amount);
  const std::int64_t most = amount_of(amount.level).most_keys;

  Json sentences = Json::array(), plots = Json::array();
  std::vector<std::pair<std::string, const Run*>> families, kernels;
  const Run& longest = *std::ranges::find_if(
      runs, [&](const Run& run) { return run.keys == most && run.family == &kFamilies[1]; });
  double unaccounted = 0.0, of_bound = 0.0, least = 1e300, largest = 0.0;
  for (const Run& run : runs) {
    unaccounted = std::max(unaccounted, number_of(run.record["unaccounted"]));
    of_bound = std::max(of_bound, number_of(run.record["largest_unaccounted"]) /
                                      number_of(run.record["second_order"]));
    double squares = 0.0;
    for (const Json& stage : run.record["stages"])
      squares += std::pow(number_of(stage["alone"]) / rms_of(run.record), 2);
    least = std::min(least, squares);
    largest = std::max(largest, squares);
    if (run.keys == most && run.kernel->variant == "fa1")
      sentences.push_back(fmt::format("{}, {} keys: {} (RMS {:.3g}).", run.family->says, most,
                                      largest_of(run.record), rms_of(run.record)));
    if (run.keys == kKeys && run.kernel->variant == "fa1")
      families.emplace_back(run.family->id, &run);
    if (run.keys == kKeys && run.family == &kFamilies[1])
      kernels.emplace_back(run.kernel->variant, &run);
  }
  sentences.push_back(fmt::format("The sum of the parts is the whole: over {} budgets it differs "
                                  "by at most {:.1g} of the error in the RMS, and "
                                  "in no element by more than {:.1g} of the bound derived for it.",
                                  runs.size(), unaccounted, of_bound));
  const Json& division = longest.record["stages"].back();
  sentences.push_back(fmt::format(
      "The parts are not independent: their mean squares alone add up to between {:.2f} and {:.2f} "
      "of the "
      "whole's. In fa1 the next product mostly undoes a division: with V of one sign and {} keys "
      "the "
      "divisions alone would make {:.0f} % of the mean square, and their share of it is {}.",
      least, largest, most,
      100.0 * std::pow(number_of(division["alone"]) / rms_of(longest.record), 2),
      percent(division["share"])));

  plots.push_back(stacked("families", fmt::format("Shares of the error, {} keys", kKeys), "input",
                          "share of the mean square error, %",
                          fmt::format("fa1, tiles of {} keys, {} keys", kTile, kKeys), families,
                          whole_percent));
  for (const Family& family : kFamilies) {
    std::vector<std::pair<std::string, const Run*>> bars;
    for (const Run& run : runs)
      if (run.family == &family && run.kernel->variant == "fa1")
        bars.emplace_back(std::to_string(run.keys), &run);
    plots.push_back(stacked(
        family.id, fmt::format("{}: error against keys", family.says), "keys",
        "RMS error / (u sum p|v|)",
        fmt::format("{}; a bar is the RMS error, cut as the mean square is shared", family.says),
        bars, rms_of));
  }
  plots.push_back(
      stacked("kernels", fmt::format("Kernels of the family, {} keys", kKeys), "kernel",
              "RMS error / (u sum p|v|)",
              fmt::format("{}, tiles of {} keys: what each order of operations pays for",
                          kFamilies[1].says, kTile),
              kernels, rms_of));

  Json reproduce = Json::array();
  for (const Run& run : runs)
    if (run.keys == kKeys)
      reproduce.push_back(fmt::format("./fa1lab budget '{}' --kernel {}",
                                      run.record["recipe"].get<std::string>(),
                                      run.kernel->variant));
  return {{"sentences", std::move(sentences)},
          {"plots", std::move(plots)},
          {"tables", {shares_table(runs), parts_table(runs)}},
          {"reproduce", std::move(reproduce)},
          {"held", of_bound <= 1.0}};
}

} // namespace fa1::reports
