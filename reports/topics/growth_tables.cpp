#include "reports/topics/growth_tables.hpp"

#include "numerics/bounds.hpp"
#include "numerics/error.hpp"
#include "numerics/fault_screens.hpp"
#include "numerics/growth.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"
#include "reports/parallel.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace fa1::reports {

using reference::Problem;

// ---------------------------------------------------------------------------------------------------
// The best tile
// ---------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kTileBase = "n_q=16 d=8 v=positive";

} // namespace

Tiles best_tiles(std::int64_t most_keys, int seeds) {
  struct Job {
    std::int64_t keys;
    int seed;
    std::vector<double> Bc, rms;
  };
  std::vector<Job> jobs;
  for (std::int64_t keys = most_keys; keys >= 256; keys /= 4) // largest first
    for (int seed = 1; seed <= seeds; ++seed)
      jobs.push_back({keys, seed, {}, {}});
  in_parallel(jobs.size(), [&](std::size_t i) {
    Job& job = jobs[i];
    const Problem problem = reference::make_problem(
        reference::parse_recipe(fmt::format("{} n_kv={} seed={}", kTileBase, job.keys, job.seed)));
    const reference::Truth truth = reference::certify(problem);
    const numerics::Bounds bounds = numerics::online_softmax(problem, {});
    for (std::int64_t Bc = 1; Bc <= job.keys; Bc *= 2) {
      job.Bc.push_back(static_cast<double>(Bc));
      job.rms.push_back(
          numerics::summarize(reference::tiled_mirror(problem, Bc), truth, bounds).rms_relative);
    }
  });

  Tiles tiles;
  std::vector<double> all_keys, all_best;
  Json measured = Json::array(), foretold = Json::array();
  int colour = 1;
  for (std::size_t from = 0; from < jobs.size(); from += static_cast<std::size_t>(seeds)) {
    const std::span<const Job> same(jobs.data() + from, static_cast<std::size_t>(seeds));
    const auto keys = static_cast<double>(same.front().keys);
    std::vector<double> rms(same.front().rms.size(), 0.0);
    for (const Job& job : same) {
      for (std::size_t i = 0; i < rms.size(); ++i)
        rms[i] += job.rms[i] * job.rms[i] / seeds;
      all_keys.push_back(keys);
      all_best.push_back(numerics::fit_over_tiles(keys, job.Bc, job.rms).best);
    }
    Json points = Json::array(), curve = Json::array();
    for (std::size_t i = 0; i < rms.size(); ++i) {
      rms[i] = std::sqrt(rms[i]);
      points.push_back({same.front().Bc[i], number(rms[i])});
      curve.push_back(
          {same.front().Bc[i], number(numerics::near_uniform_rms(keys, same.front().Bc[i], {}))});
    }
    const numerics::TileFit fit = numerics::fit_over_tiles(keys, same.front().Bc, rms);
    const double predicted = numerics::near_uniform_best_tile(keys, {});
    tiles.u_shapes.push_back(series(fmt::format("N = {}", keys), "points", colour, points));
    const bool last = from + same.size() == jobs.size(); // one entry of the legend stands for all
    tiles.u_shapes.push_back(series(last ? "closed form" : "", "dashes", colour, curve));
    ++colour;
    measured.push_back({keys, number(fit.best)});
    foretold.push_back({keys, number(predicted)});
    tiles.records.push_back({{"keys", keys},
                             {"best", number(fit.best)},
                             {"predicted", number(predicted)},
                             {"least_at", number(fit.least_at)},
                             {"A", number(fit.A)},
                             {"B", number(fit.B)},
                             {"seeds", seeds}});
  }
  tiles.power = numerics::log_log_slope(all_keys, all_best);
  tiles.minima.push_back(series("fitted", "points", 1, measured));
  tiles.minima.push_back(
      series(fmt::format("{:.2f} N^(2/3)", numerics::near_uniform_best_tile(1.0, {})), "dashes", 3,
             foretold));
  return tiles;
}

// ---------------------------------------------------------------------------------------------------
// Grades
// ---------------------------------------------------------------------------------------------------

Json grades(std::int64_t most_keys) {
  std::vector<const kernels::Kernel*> graded;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.D == 8 && kernel.Bc <= 16 && kernel.backend == kernels::Backend::cpu &&
        (kernel.Bc == 16 || kernel.variant == "fa1_element") && kernel.Br > 1 &&
        (!kernel.arithmetic.contracted || kernel.variant == "fa1"))
      graded.push_back(&kernel);
  for (const char* wrong : {"tf32_inputs", "bf16_weights", "bf16_output", "fast_exp", "biased_exp"})
    graded.push_back(
        &kernels::find_kernel(fmt::format("mutant.{}", wrong), {.n_q = 8, .d = 8, .dv = 8}));
  std::vector<std::string> recipes;
  for (std::int64_t keys = most_keys; keys >= 32; keys /= 2)
    for (const char* input : numerics::kGradedInputs)
      recipes.push_back(fmt::format("n_q=8 n_kv={} d=8 {}", keys, input));
  std::vector<std::vector<numerics::GradedError>> errors(
      graded.size(), std::vector<numerics::GradedError>(recipes.size()));
  in_parallel(recipes.size(), [&](std::size_t r) {
    const Problem problem = reference::make_problem(reference::parse_recipe(recipes[r]));
    const reference::Truth truth = reference::certify(problem);
    for (std::size_t k = 0; k < graded.size(); ++k)
      errors[k][r] = numerics::graded_error(problem, kernels::run(*graded[k], problem), truth);
  });
  Json records = Json::array();
  for (std::size_t k = 0; k < graded.size(); ++k) {
    const numerics::Grade grade = numerics::grade(errors[k]);
    double worst = 0.0;
    for (const numerics::GradedError& error : errors[k])
      numerics::raise(worst, error.element);
    records.push_back({{"kernel", graded[k]->id},
                       {"grade", std::string(1, grade.letter)},
                       {"worst", number(worst)},
                       {"part", number(grade.part)},
                       {"slope", number(grade.slope.slope)},
                       {"low", number(grade.slope.low)},
                       {"high", number(grade.slope.high)},
                       {"plain_slope", number(grade.plain_slope.slope)},
                       {"mutant", graded[k]->mutant}});
  }
  return records;
}

// ---------------------------------------------------------------------------------------------------
// The smallest fault
// ---------------------------------------------------------------------------------------------------

Json faults(int problems) {
  struct Asked {
    std::string recipe;
    numerics::FaultyInput where;
  };
  std::vector<Asked> asked;
  for (const char* recipe : {"n_q=128 n_kv=512 d=8", "n_q=128 n_kv=64 d=8",
                             "n_q=128 n_kv=512 d=8 v=positive", "n_q=128 n_kv=64 d=8 v=positive"})
    for (const auto where : {numerics::FaultyInput::K, numerics::FaultyInput::V})
      asked.push_back({recipe, where});
  constexpr std::int64_t kBc = 16;
  std::vector<numerics::SmallestFaults> found(asked.size());
  in_parallel(asked.size(), [&](std::size_t i) {
    found[i] = numerics::smallest_faults(asked[i].recipe, kBc, asked[i].where, problems);
  });
  Json records = Json::array();
  for (std::size_t i = 0; i < asked.size(); ++i)
    records.push_back({{"recipe", asked[i].recipe},
                       {"where", asked[i].where == numerics::FaultyInput::K ? "K" : "V"},
                       {"right", number(found[i].right)},
                       {"before", number(found[i].by_lambda)},
                       {"after", number(found[i].by_squares)},
                       {"ratio", number(found[i].by_lambda / found[i].by_squares)},
                       {"false_alarms", found[i].false_alarms},
                       {"problems", problems},
                       {"Bc", kBc}});
  return records;
}

} // namespace fa1::reports
