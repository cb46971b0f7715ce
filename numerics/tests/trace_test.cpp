// Claims about the trace: it shows the kernel's own carries, finds the first tile that is off, and
// names the cause.
#include "numerics/trace.hpp"

#include "numerics/edge_cases.hpp"
#include "numerics/ulp.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>
#include <string>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using numerics::same_bits;

namespace {

reference::Problem problem_of(std::string_view recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

numerics::Trace trace_of_case(std::string_view id) {
  const numerics::EdgeCase& edge_case = numerics::find_edge_case(id);
  return numerics::trace(problem_of(edge_case.recipe()), numerics::kernel_for(edge_case));
}

const kernels::Kernel& mutant(std::string_view name, int Bc) {
  for (const kernels::Kernel& kernel : kernels::all_mutants())
    if (kernel.variant == fmt::format("mutant.{}", name) && kernel.Bc == Bc)
      return kernel;
  throw std::invalid_argument(fmt::format("there is no mutant {} with Bc = {}", name, Bc));
}

std::string text_of(const numerics::Trace& trace) {
  std::ostringstream out;
  numerics::print(out, trace);
  return out.str();
}

} // namespace

TEST_CASE("the trace shows the carries of the recurrence, bit for bit",
          "[numerics][trace][quick]") {
  const auto problem = problem_of("bh=2 n_q=3 n_kv=11 d=5 dv=2 sigma=3 seed=4");
  const auto& kernel = kernels::find_kernel("fa1.Br4xBc2", problem.shape);
  std::vector<reference::TileStep> expected;
  reference::tiled_mirror(problem, kernel.Bc, reference::start_state(problem.shape),
                          [&](const reference::TileStep& step) { expected.push_back(step); });

  const numerics::Trace trace = numerics::trace(problem, kernel);

  REQUIRE(trace.steps.size() == expected.size());
  CHECK(trace.left_out == 0);
  CHECK_FALSE(trace.first_off);
  std::size_t matched = 0;
  for (const numerics::TraceStep& step : trace.steps)
    for (const reference::TileStep& want : expected)
      if (want.batch_head == step.batch_head && want.row == step.row && want.tile == step.tile) {
        CHECK(same_bits(step.m, want.m_new));
        CHECK(same_bits(step.l, want.l_new));
        CHECK(same_bits(step.alpha, want.alpha));
        CHECK(step.first_key == want.first_key);
        CHECK(step.columns == want.columns);
        ++matched;
      }
  CHECK(matched == expected.size());
}

TEST_CASE("a first tile of -Inf is named together with the exponential that makes NaN of it",
          "[numerics][trace][quick]") {
  const numerics::Trace trace = trace_of_case("inf-first-tile");

  REQUIRE(trace.first_off);
  CHECK(trace.first_off->tile == 0);
  CHECK_THAT(trace.first_off->why, ContainsSubstring("the exponential of -inf + inf"));
  CHECK_THAT(text_of(trace), ContainsSubstring("first tile that is off: tile 0"));
}

TEST_CASE("every way to overflow or to lose a number is named with its place",
          "[numerics][trace][quick]") {
  struct {
    std::string_view recipe;
    int Bc;
    std::int64_t tile;
    std::string_view why;
  } const rows[] = {
      {"n_kv=4 d=1 scale=1e-38 Q=1e25 K=1,1,1e25,1 v=index1", 2, 1,
       "q.k of key 2 overflows to inf"},
      {"n_kv=2 d=1 scale=0x1p-127 Q=0x1p100 K=0,-0x1p30 V=0,1", 1, 1,
       "q.k of key 1 overflows to -inf"},
      {"n_kv=3 d=1 scale=1e30 Q=1e10 K=0,1,2 v=index", 1, 1, "the scaled score of key 1 overflows"},
      {"scores=0*4 V=1e38*", 4, 0, "sum p v overflows at key 3"},
      {"scores=0*8 V=1e38*", 1, 3, "alpha l O + sum p v overflows"},
      {"scores=0*3 v=index put=V:1,0:inf;V:2,0:-inf", 1, 2, "V[2,0] is -inf"},
  };
  for (const auto& row : rows)
    DYNAMIC_SECTION(row.recipe) {
      const auto problem = problem_of(row.recipe);
      const auto& kernel = kernels::find_kernel(row.Bc == 1   ? "fa1.Br1xBc1"
                                                : row.Bc == 2 ? "fa1.Br4xBc2"
                                                              : "fa1.Br1xBc4",
                                                problem.shape);

      const numerics::Trace trace = numerics::trace(problem, kernel);

      if (row.recipe.find("inf") != std::string_view::npos) {
        CHECK_FALSE(trace.first_off); // the truth is as undefined as the output
        continue;
      }
      REQUIRE(trace.first_off);
      CHECK(trace.first_off->tile == row.tile);
      CHECK_THAT(trace.first_off->why, ContainsSubstring(std::string(row.why)));
    }
}

TEST_CASE("a fault of the recurrence is named by what it leaves behind",
          "[numerics][trace][mutants][quick]") {
  struct {
    std::string_view mutant, says;
    int Bc;
    std::string_view recipe;
    std::int64_t tile;
  } const rows[] = {
      {"no_alpha_on_O", "the carried O is not rescaled", 1, "scores=0,1,2 V=4,8,1", 1},
      {"no_alpha_on_l", "the carried l is not rescaled", 1, "scores=0,1,2 V=4,8,1", 1},
      {"stale_max", "p is formed against the maximum before this tile", 1, "scores=0,1,2 V=4,8,1",
       1},
      {"no_division", "O is not divided by l", 2, "scores=0,1,2 V=4,8,1", 0},
      {"old_l_divides", "O is divided by l before this tile", 2, "scores=2,1,0 V=4,8,1", 1},
      {"pads_count", "columns past the last key take part", 4, "scores=1*5 V=1,2,3,4,5", 1},
      {"tail_dropped", "is skipped", 4, "scores=1*5 V=1,2,3,4,5", 1},
      {"neighbour_value", "p meets the V row of the next key", 2, "scores=0,1,2 V=4,8,1", 0},
  };
  for (const auto& row : rows)
    DYNAMIC_SECTION(row.mutant) {
      const numerics::Trace trace =
          numerics::trace(problem_of(row.recipe), mutant(row.mutant, row.Bc));

      REQUIRE(trace.first_off);
      CHECK(trace.first_off->tile == row.tile);
      CHECK_THAT(trace.first_off->why, ContainsSubstring(std::string(row.says)));
    }
}

TEST_CASE("a right kernel has no tile that is off", "[numerics][trace][quick]") {
  const auto recipe =
      GENERATE("n_q=2 n_kv=70 d=8 sigma=2", "n_q=1 n_kv=33 d=3 order=ascending v=positive",
               "n_q=1 n_kv=40 d=4 order=dominant", "n_q=2 n_kv=64 d=8 dist=ints v=alternating",
               "scores=0*4,-inf*4 v=index", "n_q=1 n_kv=300 d=2 dist=outliers");
  const auto problem = problem_of(recipe);
  const auto& kernel = kernels::find_kernel("fa1.Br8xBc4", problem.shape);

  const numerics::Trace trace = numerics::trace(problem, kernel);

  INFO(recipe << "\n" << text_of(trace));
  CHECK_FALSE(trace.steps.empty());
  CHECK_FALSE((trace.first_off && trace.first_off->state == numerics::StepState::off));
}

TEST_CASE("a long trace leaves tiles out, says how many, and still finds the first that is off",
          "[numerics][trace][mutants][quick]") {
  const auto problem = problem_of("scores=0*700,1,0*299 v=index");

  const numerics::Trace trace = numerics::trace(problem, mutant("no_alpha_on_O", 1));

  CHECK(trace.tiles == 1000);
  CHECK(trace.left_out > 0);
  REQUIRE(trace.first_off);
  CHECK(trace.first_off->tile == 700);
  CHECK_THAT(text_of(trace),
             ContainsSubstring(fmt::format("{} of 1000 tiles left out", trace.left_out)));
}

TEST_CASE("only the rows asked for are traced", "[numerics][trace][quick]") {
  const auto problem = problem_of("bh=2 n_q=5 n_kv=9 d=3");
  const auto& kernel = kernels::find_kernel("fa1.Br4xBc2", problem.shape);

  const numerics::Trace trace = numerics::trace(problem, kernel, {{1, 3}});

  REQUIRE(trace.steps.size() == 5);
  for (const numerics::TraceStep& step : trace.steps)
    CHECK((step.batch_head == 1 && step.row == 3));
}

TEST_CASE("a subnormal alpha is shown as it is", "[numerics][trace][quick]") {
  const numerics::Trace trace = trace_of_case("alpha-subnormal");

  REQUIRE(trace.steps.size() == 3);
  CHECK(fmt::format("{:.3g}", trace.steps[1].alpha) == "8.19e-40");
}

TEST_CASE("without keys or without rows there is nothing to trace", "[numerics][trace][quick]") {
  for (const std::string_view recipe : {"n_q=2 n_kv=0 d=2", "n_q=0 n_kv=5 d=2"}) {
    const auto problem = problem_of(recipe);

    const numerics::Trace trace =
        numerics::trace(problem, kernels::find_kernel("fa1.Br4xBc2", problem.shape));

    CHECK(trace.steps.empty());
    CHECK_FALSE(trace.first_off);
  }
}

TEST_CASE("the key at which l stops growing is found among 2^25", "[numerics][trace][deep]") {
  const numerics::Trace trace = trace_of_case("l-stagnation");

  REQUIRE(trace.first_off);
  CHECK(trace.first_off->tile == 16777216);
  CHECK_THAT(trace.first_off->why, ContainsSubstring("l stagnates"));
}

TEST_CASE("scores count as exact only where no product is rounded", "[numerics][trace][quick]") {
  CHECK(numerics::scores_are_exact(problem_of("scores=0,1.5,-60000 v=index")));
  CHECK(numerics::scores_are_exact(problem_of("n_kv=2 d=1 scale=1 Q=4096 K=0x1.001p+0,1 V=1,0")));
  CHECK_FALSE(numerics::scores_are_exact(
      problem_of("n_kv=1 d=1 scale=1 Q=0x1.000002p+0 K=0x1.000002p+0 V=1")));
  CHECK_FALSE(numerics::scores_are_exact(problem_of("n_kv=2 d=2 Q=1,1 K=1* V=1*")));
}
