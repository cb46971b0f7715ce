// Claims about the stage budget: that it budgets the kernel itself, that its parts add up, and that a fault
// shows in the stage it sits in.
#include "numerics/stage_budget.hpp"

#include "kernels/kernel.hpp"
#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <bit>
#include <cmath>
#include <map>
#include <string>

using namespace fa1;
using numerics::BudgetRun;
using numerics::BudgetStage;
using numerics::kBudgetStages;
using numerics::stage_budget;
using numerics::StageBudget;
using numerics::summarize;
using reference::Problem;

namespace {

constexpr auto kOrders = {kernels::Order::every_tile, kernels::Order::tile_maximum,
                          kernels::Order::at_end,     kernels::Order::lagging,
                          kernels::Order::rows_of_S,  kernels::Order::two_fetches,
                          kernels::Order::ranges};

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// A plain instance of every variant, its tile of several keys where there is one.
std::map<std::string, const kernels::Kernel*> plain_instances(const reference::Shape& shape) {
  std::map<std::string, const kernels::Kernel*> chosen;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.backend == kernels::Backend::cpu && !kernel.arithmetic.contracted &&
        kernel.serves(shape)) {
      const kernels::Kernel*& best = chosen[kernel.variant];
      if (best == nullptr || best->Bc == 1)
        best = &kernel;
    }
  return chosen;
}

double sum_of_parts(const StageBudget& budget, std::size_t element) {
  double sum = 0.0;
  for (const auto& part : budget.alone)
    sum += part.elements()[element];
  return sum;
}

} // namespace

TEST_CASE("what is budgeted is the kernel's own output, bit for bit, in every order",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=5 n_kv=37 d=4 sigma=4");

  for (const auto& [variant, kernel] : plain_instances(problem.shape)) {
    CAPTURE(variant, kernel->id);
    const auto O = kernels::run(*kernel, problem).O;

    const StageBudget budget =
        stage_budget(problem, {kernel->arithmetic.order, kernel->arithmetic.Bc, {}});

    REQUIRE(budget.obstacle.empty());
    REQUIRE(budget.O.size() == O.size());
    for (std::size_t e = 0; e < O.elements().size(); ++e)
      CHECK(std::bit_cast<std::uint32_t>(budget.O.elements()[e]) ==
            std::bit_cast<std::uint32_t>(O.elements()[e]));
  }
}

TEST_CASE("without roundings the copies give the truth, with all of them they give fp32",
          "[numerics][quick]") {
  const auto order = GENERATE(values(kOrders));
  const std::string recipe =
      GENERATE("n_q=4 n_kv=200 d=16", "n_q=4 n_kv=130 d=5 order=ascending v=positive",
               "n_q=4 n_kv=64 d=16 sigma=8 dist=outliers");
  CAPTURE(recipe, static_cast<int>(order));
  const Problem problem = problem_of(recipe);
  const reference::Truth truth = reference::certify(problem);

  const StageBudget budget = stage_budget(problem, {order, 16, {}});

  const double evaluation = 0x1p-26 * budget.path;
  for (std::size_t e = 0; e < budget.whole.elements().size(); ++e) {
    const double allowed = evaluation * budget.weighted.elements()[e];
    const auto& exact = truth.O.elements()[e];
    CHECK(std::fabs(budget.exact.elements()[e] - exact.hi) <= allowed + exact.radius);
    CHECK(std::fabs(budget.replayed.elements()[e] - budget.whole.elements()[e]) <= allowed);
  }
  // What is compared is far larger than what is allowed.
  REQUIRE(summarize(budget).rms * numerics::kU > 100.0 * evaluation);
}

TEST_CASE("the parts add up to the whole, element by element, within the second order",
          "[numerics][quick]") {
  const auto order = GENERATE(values(kOrders));
  const std::string recipe =
      GENERATE("n_q=4 n_kv=200 d=16", "n_q=4 n_kv=200 d=16 v=positive order=ascending",
               "n_q=4 n_kv=200 d=5 order=descending", "n_q=4 n_kv=100 d=64 sigma=8");
  CAPTURE(recipe, static_cast<int>(order));

  const StageBudget budget = stage_budget(problem_of(recipe), {order, 16, {}});
  const auto summary = summarize(budget);

  REQUIRE(budget.path <= 0x1p-5);
  for (std::size_t e = 0; e < budget.whole.elements().size(); ++e)
    CHECK(std::fabs(sum_of_parts(budget, e) - budget.whole.elements()[e]) <=
          budget.second_order() * budget.weighted.elements()[e]);
  // <sum of the parts, whole> / <whole, whole> - 1, by Cauchy and Schwarz.
  double shares = 0.0;
  for (const numerics::StagePart& part : summary.stages)
    shares += part.share;
  CHECK(std::fabs(shares - 1.0) <= summary.unaccounted * (1.0 + 0x1p-20) + 0x1p-45);
  CHECK(summary.largest_unaccounted * numerics::kU <= budget.second_order() * (1.0 + 0x1p-20));
  REQUIRE(summary.rms > 0.1);
}

TEST_CASE("a stage that is rounded to bf16 shows in its own part and in no other",
          "[numerics][quick]") {
  const auto order =
      GENERATE(kernels::Order::every_tile, kernels::Order::tile_maximum, kernels::Order::at_end);
  const auto stage = GENERATE(range(std::size_t{0}, kBudgetStages));
  CAPTURE(static_cast<int>(order), numerics::name_of(static_cast<BudgetStage>(stage)));
  const Problem problem = problem_of("n_q=8 n_kv=96 d=5 order=ascending");
  BudgetRun faulty{order, 16, {}};
  faulty.rounded[stage] = numerics::FormatId::bf16;

  const auto right = summarize(stage_budget(problem, {order, 16, {}}));
  const auto wrong = summarize(stage_budget(problem, faulty));

  // The unit roundoff of bf16 is 2^16 u: a part with the fault and one without it lie on two sides of 2^8.
  for (std::size_t other = 0; other < kBudgetStages; ++other) {
    CAPTURE(numerics::name_of(static_cast<BudgetStage>(other)));
    REQUIRE(right.stages[other].alone > 0.0);
    const double grew = wrong.stages[other].alone / right.stages[other].alone;
    CHECK((other == stage ? grew > 0x1p8 : grew < 0x1p8));
    // Left: the fault is in what is left by every stage but its own.
    const double rest = wrong.stages[other].left / right.stages[other].left;
    CHECK((other == stage ? rest < 0x1p8 : rest > 0x1p8));
  }
}

TEST_CASE("a stage that rounds nothing has no part", "[numerics][quick]") {
  struct Example {
    const char* recipe;
    std::vector<BudgetStage> without;
  };
  using enum BudgetStage;
  const auto example = GENERATE(values<Example>({
      {"n_q=3 n_kv=50 d=16", {scale}},                 // scale = 1/4
      {"n_q=3 n_kv=50 d=5 order=descending", {alpha}}, // alpha = 1 after the first tile
      {"n_q=3 n_kv=50 d=4 dist=ints", {dot, scale}},   // small integers
      {"n_q=3 n_kv=8 d=5", {update, alpha, l}},        // one tile: nothing is carried
      {"n_q=3 n_kv=50 d=4 dist=zero v=ints", {dot, scale, argument, exp, sum, alpha, l, pv}},
  }));
  CAPTURE(example.recipe);

  const auto summary =
      summarize(stage_budget(problem_of(example.recipe), {kernels::Order::every_tile, 8, {}}));

  REQUIRE(summary.rms > 0.0);
  for (const BudgetStage stage : example.without) {
    CAPTURE(numerics::name_of(stage));
    const numerics::StagePart& part = summary.stages[static_cast<std::size_t>(stage)];
    CHECK(part.alone == 0.0);
    CHECK(part.share == 0.0);
  }
}

TEST_CASE("what is wrong with l is the same relative error in every column", "[numerics][quick]") {
  const auto order = GENERATE(values(kOrders));
  const auto stage = GENERATE(BudgetStage::sum, BudgetStage::l);
  CAPTURE(static_cast<int>(order), numerics::name_of(stage));
  const Problem problem = problem_of("n_q=4 n_kv=100 d=5 dv=7 sigma=4 order=ascending v=positive");

  const StageBudget budget = stage_budget(problem, {order, 16, {}});

  const auto& part = budget.alone[static_cast<std::size_t>(stage)];
  const double evaluation = 0x1p-24 * budget.path; // of four copies
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t i = 1; i < 7; ++i)
      CHECK(std::fabs(part(0, row, i) / budget.exact(0, row, i) -
                      part(0, row, 0) / budget.exact(0, row, 0)) <= evaluation);
  if (order != kernels::Order::rows_of_S || stage == BudgetStage::sum) // all of l is one sum there
    CHECK(summarize(budget).stages[static_cast<std::size_t>(stage)].alone * numerics::kU >
          100.0 * evaluation);
}

TEST_CASE("where the second order is not small no bound is claimed", "[numerics][quick]") {
  const auto budget = stage_budget(problem_of("n_q=2 n_kv=20 d=5 sigma=1e6"), {});

  CHECK(budget.path > 0x1p-5);
  CHECK(std::isinf(budget.second_order()));
}

TEST_CASE("a budget does not depend on threads", "[numerics][quick]") {
  const Problem problem = problem_of("bh=2 n_q=3 n_kv=40 d=4");

  const auto one = stage_budget(problem, {}, 1), three = stage_budget(problem, {}, 3);

  CHECK(one.exact == three.exact);
  CHECK(one.alone == three.alone);
  CHECK(one.left == three.left);
}

TEST_CASE("no queries, no keys and inputs that are not finite make no budget",
          "[numerics][quick]") {
  CHECK(summarize(stage_budget(problem_of("n_q=0 n_kv=2 d=3"), {})).elements == 0);
  CHECK(summarize(stage_budget(problem_of("n_q=2 n_kv=0 d=3"), {})).rms == 0.0);
  CHECK_FALSE(stage_budget(problem_of("scores=0,nan V=1,2"), {}).obstacle.empty());
}
