#include "reports/topics/worst.hpp"

#include "numerics/case_file.hpp"
#include "numerics/search.hpp"
#include "reports/parallel.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

using numerics::Objective;

constexpr std::array kKernels{"fa1.Br4xBc2", "fa1.Br32xBc32", "fa2.Br4xBc2", "standard.Br4xBc2"};
constexpr std::array<std::int64_t, 3> kKeys{16, 64, 256};

std::int64_t evaluations_of(Level level) {
  switch (level) {
  case Level::quick:
    return 320;
  case Level::standard:
    return 1600;
  default:
    return 20000;
  }
}

struct Row {
  std::string kernel;
  std::int64_t n_kv = 0;
  double typical = 0.0, drawn = 0.0; ///< median and worst of the problems drawn at random
  double found = 0.0;
  numerics::Peak peak; ///< of what was found
  std::string command;
};

Row row_of(const std::string& kernel, std::int64_t n_kv, Objective objective,
           const TopicAmount& amount) {
  const std::int64_t evaluations = evaluations_of(amount.level);
  numerics::WorstSearch search;
  search.base = fmt::format("n_kv={} d=4", n_kv);
  search.axes = numerics::open_axes(search.base);
  search.kernel = &kernels::find_kernel(kernel, {1, 1, n_kv, 4, 4});
  search.objective = objective;
  search.seed = amount.seed;
  numerics::Budget budget;
  budget.evaluations = evaluations;

  std::vector<double> drawn =
      numerics::random_values(numerics::Grid(search.base, search.axes), numerics::score_of(search),
                              amount.seed, static_cast<std::size_t>(evaluations), cores());
  const numerics::Worst worst = numerics::find_worst(search, budget, cores());

  std::erase_if(drawn, [](double value) { return std::isnan(value); });
  std::ranges::sort(drawn);
  Row row;
  row.kernel = search.kernel->id;
  row.n_kv = n_kv;
  row.typical = drawn[drawn.size() / 2];
  row.drawn = drawn.back();
  row.found = worst.value;
  row.peak = *numerics::peak_of(worst.recipe, *search.kernel, objective, search.limits);
  row.command =
      fmt::format("./fa1lab worst '{}' --kernel {} --objective {} --seed {} "
                  "--evaluations {}",
                  search.base, search.kernel->id, name_of(objective), search.seed, evaluations);
  return row;
}

std::vector<Row> rows_of(Objective objective, const TopicAmount& amount) {
  std::vector<Row> rows;
  for (const char* kernel : kKernels)
    for (const std::int64_t n_kv : kKeys)
      rows.push_back(row_of(kernel, n_kv, objective, amount));
  return rows;
}

Json record_of(const Row& row) {
  return {{"kernel", row.kernel},
          {"n_kv", row.n_kv},
          {"typical", number(row.typical)},
          {"drawn", number(row.drawn)},
          {"found", number(row.found)},
          {"bound", number(row.peak.bound)},
          {"fraction", number(row.peak.fraction)},
          {"reproduce", row.command}};
}

Json records_of(const std::vector<Row>& rows) {
  Json records = Json::array();
  for (const Row& row : rows)
    records.push_back(record_of(row));
  return records;
}

Json hall_table() {
  Json records = Json::array();
  for (const auto& file : numerics::hall_of_fame_files()) {
    const numerics::FoundCase found = numerics::read_case(file);
    std::int64_t evaluations = 0;
    for (const numerics::FoundBy& by : found.found)
      evaluations += by.evaluations;
    records.push_back({{"kernel", found.kernel},
                       {"n_kv", found.recipe.n_kv},
                       {"d", found.recipe.d},
                       {"objective", name_of(found.objective)},
                       {"error", number(found.peak.error)},
                       {"bound", number(found.peak.bound)},
                       {"fraction", number(found.peak.fraction)},
                       {"evaluations", evaluations},
                       {"file", file.filename().string()}});
  }
  return table("hall", "Hall of fame",
               "The worst that longer searches found, in numerics/hall_of_fame; ctest replays each "
               "before all else. Error and bound in 2^-24 sum p|v|.",
               {{"kernel", "kernel"},
                {"n_kv", "keys"},
                {"d", "d"},
                {"objective", "searched for"},
                {"error", "error"},
                {"bound", "bound"},
                {"fraction", "error/bound"},
                {"evaluations", "problems tried"}},
               std::move(records));
}

/// Of the first kernel, against the number of keys.
Json plot_of(const std::vector<Row>& rows) {
  const auto drawn = [&](const char* name, const char* mark, int colour, const auto& value) {
    Json points = Json::array();
    for (const Row& row : rows)
      if (row.kernel == rows[0].kernel)
        points.push_back({row.n_kv, number(value(row))});
    return series(name, mark, colour, std::move(points));
  };
  return plot("errors", fmt::format("Typical error, worst found and bound of {}", rows[0].kernel),
              {"keys", "error in u sum p|v|"}, "Dashes: the bound on the problem that was found.",
              {drawn("bound", "dashes", 0, [](const Row& row) { return row.peak.bound; }),
               drawn("found", "points", 1, [](const Row& row) { return row.found; }),
               drawn("drawn, worst", "points", 2, [](const Row& row) { return row.drawn; }),
               drawn("typical", "line", 3, [](const Row& row) { return row.typical; })});
}

} // namespace

Json measure_worst(const TopicAmount& amount) {
  const std::vector<Row> error = rows_of(Objective::error, amount);
  const std::vector<Row> bound = rows_of(Objective::bound, amount);

  const Row& first = error[1]; // 64 keys
  const Row& closest = *std::ranges::max_element(bound, {}, &Row::found);
  const Row& farthest = *std::ranges::min_element(bound, {}, &Row::found);
  double gain = 1e300;
  for (const auto* rows : {&error, &bound})
    for (const Row& row : *rows)
      gain = std::min(gain, row.found / row.drawn);
  const std::int64_t evaluations = evaluations_of(amount.level);
  Json reproduce = Json::array();
  for (const auto* rows : {&error, &bound})
    for (const Row& row : *rows)
      reproduce.push_back(row.command);
  const Json sentences{
      fmt::format("With {} keys the worst error that {} problems showed of {} is {:.3g} u sum "
                  "p|v|: {:.3g} times the typical one of {:.2g}, and {:.2g} of its bound.",
                  first.n_kv, evaluations, first.kernel, first.found, first.found / first.typical,
                  first.typical, first.peak.fraction),
      fmt::format("A search for error/bound came to {:.3g} of the bound ({}, {} keys) and "
                  "everywhere to at least {:.2g}: on these problems no proof can give less.",
                  closest.found, closest.kernel, closest.n_kv, farthest.found),
      fmt::format("The search found at least {:.2g} times what as many problems drawn at random "
                  "showed.",
                  gain),
      "A problem counts where its bound holds, its scores carry a digit, |scale| sum |q k| is at "
      "most 32 and the entries of V are 0 or from 2^-16 to 2^16: without such limits the error in "
      "u sum p|v| has no largest."};
  Json tables = Json::array(
      {table("error", "Error in u sum p|v|",
             fmt::format("Median and worst of {0} problems drawn at random, worst of {0} that the "
                         "search tried, d = 4.",
                         evaluations),
             {{"kernel", "kernel"},
              {"n_kv", "keys"},
              {"typical", "typical"},
              {"drawn", "worst drawn"},
              {"found", "worst found"},
              {"bound", "its bound"},
              {"fraction", "error/bound"}},
             records_of(error)),
       table("fraction", "Error as a part of the bound",
             "The same for a search that wants error/bound large.",
             {{"kernel", "kernel"},
              {"n_kv", "keys"},
              {"typical", "typical"},
              {"drawn", "worst drawn"},
              {"found", "worst found"}},
             records_of(bound)),
       hall_table()});
  return {{"sentences", sentences},
          {"plots", Json::array({plot_of(error)})},
          {"tables", std::move(tables)},
          {"reproduce", std::move(reproduce)},
          {"held", closest.found <= 1.0 && std::ranges::all_of(error, [](const Row& row) {
                     return row.peak.fraction <= 1.0;
                   })}};
}

} // namespace fa1::reports
