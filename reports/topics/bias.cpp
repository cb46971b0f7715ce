#include "reports/topics/bias.hpp"

#include "numerics/drift.hpp"
#include "numerics/ulp.hpp"
#include "reports/bias_runs.hpp"
#include "reports/family.hpp"
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

constexpr std::int64_t kTile = 2; ///< of the kernels that stand for their variants
constexpr const char* kDriftValue = "0.1";
constexpr std::array kOtherValues{"0.3333333", "0.7", "1.01", "1.5", "1.9"};

struct Amount {
  std::int64_t seeds;
  int most_doublings; ///< of the number of tiles
};

Amount amount_of(Level level) {
  switch (level) {
  case Level::quick:
    return {10, 15};
  case Level::standard:
    return {40, 18};
  default:
    return {1000, 20};
  }
}

/// O / v - 1 in u, of one V in so many tiles of tied scores: measured and foretold.
struct Drift {
  std::string v;
  std::int64_t tiles;
  double normalised = 0.0, foretold = 0.0, deferred = 0.0, deferred_foretold = 0.0, fused = 0.0;
};

std::string drift_recipe(const Drift& drift) {
  return fmt::format("scores=0*{} V={}*", kTile * drift.tiles, drift.v);
}

std::vector<Drift> measure_drifts(int most_doublings) {
  std::vector<Drift> drifts;
  for (int k = 6; k <= most_doublings; ++k)
    drifts.push_back({kDriftValue, std::int64_t{1} << k});
  for (const char* v : kOtherValues)
    drifts.push_back({v, std::int64_t{1} << (most_doublings - 2)});
  in_parallel(drifts.size(), [&](std::size_t i) {
    Drift& drift = drifts[drifts.size() - 1 - i];
    const reference::Problem problem =
        reference::make_problem(reference::parse_recipe(drift_recipe(drift)));
    const float v = problem.V(0, 0, 0);
    const auto measured = [&](const char* variant, bool contracted) {
      const kernels::Kernel& kernel = *representative(variant, contracted, 1);
      return (double{run(kernel, problem).O(0, 0, 0)} / double{v} - 1.0) / numerics::kU;
    };
    drift.normalised = measured("fa1", false);
    drift.deferred = measured("fa1_deferred", false);
    drift.fused = measured("fa1", true);
    drift.foretold = numerics::normalised_drift(v, kTile, drift.tiles) / numerics::kU;
    drift.deferred_foretold = numerics::deferred_drift(v, kTile, drift.tiles) / numerics::kU;
  });
  return drifts;
}

Json drift_plot(const std::vector<Drift>& drifts) {
  const auto drawn = [&](const char* name, const char* mark, int colour, double Drift::*member) {
    Json points = Json::array();
    for (const Drift& drift : drifts)
      if (drift.v == kDriftValue)
        points.push_back({drift.tiles, number(std::fabs(drift.*member))});
    return series(name, mark, colour, std::move(points));
  };
  return plot(
      "drift", "Drift of O for V = 0.1 and tied scores", {"tiles", "|O / v - 1| / u"},
      "Growing like the number of tiles, as foretold; the sign, which the plot drops, "
      "changes every second doubling. Fused multiply-adds round a product with other digits "
      "in every tile: less drift, and none foretold.",
      {drawn("fa1", "points", 1, &Drift::normalised),
       drawn("fa1, foretold", "line", 1, &Drift::foretold),
       drawn("fa1_deferred", "points", 2, &Drift::deferred),
       drawn("fa1_deferred, foretold", "dashes", 2, &Drift::deferred_foretold),
       drawn("fa1, fused", "points", 3, &Drift::fused)});
}

Json drift_table(const std::vector<Drift>& drifts) {
  Json records = Json::array();
  for (const Drift& drift : drifts)
    records.push_back({{"v", drift.v},
                       {"tiles", drift.tiles},
                       {"fa1", number(drift.normalised)},
                       {"foretold", number(drift.foretold)},
                       {"deferred", number(drift.deferred)},
                       {"deferred_foretold", number(drift.deferred_foretold)},
                       {"fused", number(drift.fused)},
                       {"recipe", drift_recipe(drift)}});
  return table("drift", "Drift, measured and foretold",
               "(O / v - 1) / u with its sign; tied scores, tiles of two keys.",
               {{"v", "V"},
                {"tiles", "tiles"},
                {"fa1", "fa1"},
                {"foretold", "foretold"},
                {"deferred", "fa1_deferred"},
                {"deferred_foretold", "foretold"},
                {"fused", "fa1, fused"}},
               std::move(records));
}

std::string described(const Json& record) {
  const auto V = record["V"].get<std::string>();
  return fmt::format("{}: {}{}, mean {:.2g} ({:.2g} to {:.2g})",
                     record["kernel"].get<std::string>(), record["quantity"].get<std::string>(),
                     V.empty() ? "" : " with V " + V, number_of(record["mean"]),
                     number_of(record["low"]), number_of(record["high"]));
}

/// The means in half lengths of the deciding interval: beyond 1 is biased.
Json bias_plot(const std::vector<Json>& records) {
  Json drawn = Json::array(), ticks = Json::array();
  std::vector<std::string> kernels;
  for (const Json& record : records)
    if (!record["wrong"].get<bool>() &&
        std::ranges::find(kernels, record["kernel"].get<std::string>()) == kernels.end())
      kernels.push_back(record["kernel"]);
  for (std::size_t i = 0; i < kernels.size(); ++i)
    ticks.push_back({static_cast<double>(i), kernels[i].substr(0, kernels[i].find('.')) +
                                                 (kernels[i].ends_with("-fma") ? ", fused" : "")});
  std::vector<std::string> questions;
  for (const Json& record : records) {
    const std::string question =
        record["quantity"].get<std::string>() +
        (record["quantity"] == "l" ? "" : ", V " + record["V"].get<std::string>());
    const auto kernel = std::ranges::find(kernels, record["kernel"].get<std::string>());
    if (kernel == kernels.end() || record["exact"].get<bool>())
      continue;
    const auto at = std::ranges::find(questions, question);
    const auto index = static_cast<std::size_t>(at - questions.begin());
    if (at == questions.end()) {
      questions.push_back(question);
      drawn.push_back(series(question, "points", static_cast<int>(index) + 1, Json::array()));
    }
    const double half = 0.5 * (number_of(record["family_high"]) - number_of(record["family_low"]));
    drawn[index]["points"].push_back(
        {static_cast<double>(kernel - kernels.begin()), number(number_of(record["mean"]) / half)});
  }
  for (const double border : {-1.0, 1.0})
    drawn.push_back(series(border < 0.0 ? "" : "biased beyond", "dashes", 0,
                           {{-0.5, border}, {static_cast<double>(kernels.size()) - 0.5, border}}));
  return plot(
      "means", "Mean signed errors of right kernels",
      {"kernel", "mean / half of the deciding interval", 0, false},
      "Between the dashed lines 0 is inside the interval; outputs without any error are left out.",
      std::move(drawn), std::move(ticks));
}

Json bias_table(const std::vector<Json>& records) {
  return table(
      "means", "Mean signed errors",
      fmt::format("Over {} seeds of {}: O in 2^-24 sum p|v|, |O| the same away from zero, l in "
                  "2^-24 l. 95 % "
                  "interval by Student's t; biased: 0 is outside it at the level 1 - 0.05/{}.",
                  records.front()["seeds"].get<std::int64_t>(), kBiasRecipe, records.size()),
      {{"kernel", "kernel"},
       {"quantity", "error of"},
       {"V", "V"},
       {"mean", "mean"},
       {"low", "from"},
       {"high", "to"},
       {"biased", "biased"}},
      records);
}

} // namespace

Json measure_bias_meter(const TopicAmount& amount) {
  const auto [seeds, most_doublings] = amount_of(amount.level);
  const std::vector<Json> records = bias_records(bias_kernels(), kBiasRecipe, amount.seed, seeds);
  const std::vector<Drift> drifts = measure_drifts(most_doublings);

  std::string of_right;
  std::size_t right = 0, right_biased = 0;
  std::vector<std::string> wrong_called;
  for (const Json& record : records) {
    const bool biased = record["biased"];
    if (record["wrong"].get<bool>()) {
      const auto kernel = record["kernel"].get<std::string>();
      if (biased && (wrong_called.empty() || wrong_called.back() != kernel))
        wrong_called.push_back(kernel);
      continue;
    }
    ++right;
    if (biased) {
      ++right_biased;
      of_right += fmt::format("{}{}", of_right.empty() ? ". " : "; ", described(record));
    }
  }
  const auto longest = std::ranges::find(drifts, std::int64_t{1} << most_doublings, &Drift::tiles);
  double off = 0.0;
  bool exact = true;
  for (const Drift& drift : drifts) {
    off = std::max(off,
                   std::fabs(drift.normalised - drift.foretold) / static_cast<double>(drift.tiles));
    exact = exact && drift.deferred == drift.deferred_foretold;
  }
  Json sentences = {
      fmt::format("{} of {} mean errors of right kernels are called biased ({} rows are compared; "
                  "with no bias "
                  "anywhere the probability of even one is at most 5 %){}.",
                  right_biased, right, records.size(), of_right),
      fmt::format("{} of 2 kernels that are wrong on purpose are called biased: an exponential 8 u "
                  "too large shows in "
                  "l, a sum rounded towards zero in l and in O.",
                  wrong_called.size()),
      fmt::format("Equal values drift: for tied scores and V = {} the error of fa1 after {} tiles "
                  "is {:.0f} u, foretold "
                  "{:.0f} u; of fa1_deferred {:.0f} u, foretold {:.0f} u; fused {:.0f} u.",
                  kDriftValue, longest->tiles, longest->normalised, longest->foretold,
                  longest->deferred, longest->deferred_foretold, longest->fused),
      "Why: while a running sum of equal numbers stays in one binade, adding the next one rounds "
      "the same way every "
      "time. The error grows like the number of tiles and not like its root, and its sign is read "
      "off the "
      "digits of V. Carrying O instead of l O changes little, because the product with l mostly "
      "gives back what "
      "the division was made from.",
      fmt::format("fa1_deferred is foretold {}; fa1, in the mean over the roundings of l O, to "
                  "{:.2g} u a tile in "
                  "{} runs.",
                  exact ? "bit for bit" : "wrongly", off, drifts.size())};
  return {
      {"sentences", std::move(sentences)},
      {"plots", {bias_plot(records), drift_plot(drifts)}},
      {"tables", {bias_table(records), drift_table(drifts)}},
      {"reproduce",
       {fmt::format("./fa1lab bias --seeds {} --seed {}", seeds, amount.seed),
        "./fa1lab repro drift-constant", fmt::format("./fa1lab run '{}'", drift_recipe(*longest))}},
      {"held", wrong_called.size() == 2 && exact}};
}

} // namespace fa1::reports
