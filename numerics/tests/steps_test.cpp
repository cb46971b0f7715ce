// Claims about the steps of a run: they end where the kernel ends, move what the closed form says, and
// name the first quantity that goes bad.
#include "numerics/steps.hpp"

#include "kernels/plugin.hpp"
#include "kernels/traffic.hpp"
#include "numerics/edge_cases.hpp"
#include "numerics/ulp.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using numerics::Phase;
using numerics::same_bits;

namespace {

reference::Problem problem_of(std::string_view recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// The example that is worked by hand: scores are exact, and so are the maxima.
constexpr std::string_view kByHand =
    "n_q=4 n_kv=4 d=4 dv=2 scale=0.5 Q=1,0,2,0,0,1,1,0,1,1,0,1,0,2,1,1 "
    "K=2,1,0,0,0,1,1,0,1,0,1,1,0,0,2,1 V=1,0,0,1,1,1,2,1";

/// The smallest tile of each variant of variants.def that is ragged for small shapes.
const std::vector<std::string>& one_of_each() {
  static const std::vector<std::string> ids{
      "fa1.Br4xBc2",          "fa1_element.Br16xBc1",  "fa1_paper.Br4xBc2",
      "fa1_deferred.Br4xBc2", "fa1_pipelined.Br4xBc2", "fa1_tuned.Br32xBc16",
      "fa2.Br4xBc2",          "standard.Br4xBc2",      "online_softmax.Br4xBc2",
      "split_kv.Br4xBc2",     "lazy_rescale.Br4xBc2"};
  return ids;
}

} // namespace

TEST_CASE("the last carries of the steps are those of the kernel's whole run, bit for bit",
          "[numerics][steps][quick]") {
  const std::string recipe = GENERATE("bh=2 n_q=5 n_kv=11 d=5 dv=3 sigma=3 seed=4",
                                      "n_q=1 n_kv=1 d=1", "n_q=3 n_kv=4 order=ascending d=2");
  const std::string id = GENERATE("fa1.Br4xBc2", "fa1.Br3xBc5", "fa1.Br1xBc1", "fa1.Br32xBc32");
  CAPTURE(recipe, id);
  const auto problem = problem_of(recipe);
  const auto& kernel = kernels::find_kernel(id, problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  const reference::State whole = kernels::run(kernel, problem);
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
      const numerics::TraceStep& last = all.row(bh, all.tiles - 1, r).carries;
      const auto at = static_cast<std::size_t>(bh * problem.shape.n_q + r);
      CHECK(same_bits(last.m, whole.m[at]));
      CHECK(same_bits(last.l, whole.l[at]));
      CHECK(std::ranges::equal(last.O, whole.O.row(bh, r), same_bits));
    }
  CHECK_FALSE(all.differs);
  CHECK_FALSE(all.first_bad);
}

TEST_CASE("what the steps move adds up to the closed form and to the count, for ragged shapes too",
          "[numerics][steps][quick]") {
  const std::string id = GENERATE(from_range(one_of_each()));
  const std::string recipe =
      GENERATE("bh=2 n_q=5 n_kv=11 d=5 dv=3", "n_q=7 n_kv=9 d=4", "n_q=2 n_kv=3",
               "n_q=8 n_kv=8 d=8", "n_q=1 n_kv=1 d=1", "n_q=4 n_kv=0 d=2", "n_q=0 n_kv=4 d=2");
  CAPTURE(id, recipe);
  const auto problem = problem_of(recipe);
  const auto& kernel = kernels::find_kernel(id, problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  kernels::Traffic sum;
  for (const numerics::DataStep& step : all.steps)
    for (std::size_t array = 0; array < sum.arrays.size(); ++array) {
      sum.arrays[array].read += step.moved.arrays[array].read;
      sum.arrays[array].written += step.moved.arrays[array].written;
    }
  for (std::size_t array = 0; array < sum.arrays.size(); ++array) {
    CAPTURE(kernels::Traffic::kArrays[array]);
    const auto form = kernels::predicted_traffic(kernel, problem.shape).arrays[array];
    CHECK(sum.arrays[array].read == form.read);
    CHECK(sum.arrays[array].written == form.written);
  }
  CHECK(sum == kernels::counted_traffic(kernel, problem).traffic);
  CHECK(all.steps.back().so_far == sum);
  CHECK(numerics::count_steps(problem.shape, kernel) ==
        static_cast<std::int64_t>(all.steps.size()));
}

TEST_CASE("the mirror of every variant ends where its kernel ends, bit for bit",
          "[numerics][steps][quick]") {
  const std::string id = GENERATE(from_range(one_of_each()));
  const std::string recipe =
      GENERATE("bh=2 n_q=5 n_kv=11 d=5 dv=3 sigma=3 seed=4", "n_q=1 n_kv=1 d=1",
               "n_q=3 n_kv=4 order=ascending d=2", "n_q=3 n_kv=9 d=4 sigma=20 seed=6");
  CAPTURE(id, recipe);
  const auto problem = problem_of(recipe);
  const auto& kernel = kernels::find_kernel(id, problem.shape);

  const numerics::Mirrored mirror =
      numerics::mirror_of(problem, kernel, reference::start_state(problem.shape));

  const reference::State whole = kernels::run(kernel, problem);
  CHECK(std::ranges::equal(mirror.last.O.elements(), whole.O.elements(), same_bits));
  CHECK(std::ranges::equal(mirror.last.l, whole.l, same_bits));
  CHECK(std::ranges::equal(mirror.last.m, whole.m, same_bits));
}

TEST_CASE("the O, l and m at the end of the steps are those of the kernel's run, for every variant",
          "[numerics][steps][quick]") {
  const std::string id = GENERATE(from_range(one_of_each()));
  const auto problem = problem_of("bh=2 n_q=5 n_kv=7 d=3 dv=2 sigma=3 seed=4");
  CAPTURE(id);
  const auto& kernel = kernels::find_kernel(id, problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  const reference::State whole = kernels::run(kernel, problem);
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
      const auto at = static_cast<std::size_t>(bh * problem.shape.n_q + r);
      CHECK(std::ranges::equal(all.end(bh, r).O, whole.O.row(bh, r), same_bits));
      CHECK(same_bits(all.end(bh, r).l, whole.l[at]));
      CHECK(same_bits(all.end(bh, r).m, whole.m[at]));
    }
  CHECK_FALSE(all.differs);
  CHECK_FALSE(all.first_bad);
}

TEST_CASE("ragged shapes have a last tile and a last block that are not full",
          "[numerics][steps][quick]") {
  const auto problem = problem_of("n_q=5 n_kv=7 d=2");
  const auto& kernel = kernels::find_kernel("fa1.Br4xBc2", problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  constexpr std::size_t kTiles = 4, kBlocks = 2, kOfBlock = 5;
  CHECK(all.tiles == kTiles);
  CHECK(all.blocks == kBlocks);
  REQUIRE(all.steps.size() == 1 + kTiles * (1 + kBlocks * kOfBlock));
  CHECK(numerics::count_steps(problem.shape, kernel) ==
        static_cast<std::int64_t>(all.steps.size()));
  CHECK(all.steps.front().phase == Phase::start);
  CHECK(all.steps[1].phase == Phase::load_tile);
  CHECK(all.steps.back().phase == Phase::store);
  CHECK(all.steps.back().keys == 1);
  CHECK(all.steps.back().rows == 1);
  CHECK(all.row(0, 3, 4).s.size() == 1);
}

TEST_CASE("what stays inside a tile is what was worked by hand", "[numerics][steps][quick]") {
  const auto problem = problem_of(kByHand);
  const auto& kernel = kernels::find_kernel("fa1.Br4xBc2", problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  const float S[4][4] = {{1, 1, 1.5, 2}, {.5, 1, .5, 1}, {1.5, .5, 1, .5}, {1, 1.5, 1, 1.5}};
  const float m[4][2] = {{1, 2}, {1, 1}, {1.5, 1.5}, {1.5, 1.5}};
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t tile = 0; tile < 2; ++tile) {
      const numerics::RowOfTile& row = all.row(0, tile, r);
      const float* s = S[r] + 2 * tile;
      CHECK(row.s == std::vector<float>{s[0], s[1]});
      CHECK(row.m_tile == std::max(s[0], s[1]));
      CHECK(row.carries.m == m[r][tile]);
    }
  // Row 0 meets equal scores first: its weights and their sum are exact.
  CHECK(all.row(0, 0, 0).p == std::vector<float>{1, 1});
  CHECK(all.row(0, 0, 0).sum_p == 2);
  CHECK(all.row(0, 0, 0).pv == std::vector<float>{1, 1});
  CHECK(all.row(0, 1, 1).carried == all.row(0, 0, 1).carries.l); // its maximum stays, alpha = 1
}

TEST_CASE("the first quantity that goes bad is found in the step that makes it",
          "[numerics][steps][quick]") {
  struct Example {
    const char* id;
    std::int64_t tile;
    Phase phase;
    const char *quantity, *why;
  };
  const auto example = GENERATE(values<Example>({
      {"inf-first-tile", 0, Phase::softmax, "alpha", "the exponential of -inf + inf"},
      {"dot-overflow", 0, Phase::scores, "S", "overflows to inf before the scale is applied"},
      {"dot-overflow-negative", 1, Phase::scores, "S", "overflows to -inf"},
      {"v-sum-overflow", 0, Phase::output, "O", "sum p v overflows"},
      {"carry-overflow", 3, Phase::output, "O", "alpha l O + sum p v overflows"},
  }));
  CAPTURE(example.id);
  const numerics::EdgeCase& edge_case = numerics::find_edge_case(example.id);

  const numerics::Steps all =
      numerics::steps_of(problem_of(edge_case.recipe()), numerics::kernel_for(edge_case));

  REQUIRE(all.first_bad);
  const numerics::DataStep& step = all.steps[all.first_bad->step];
  const numerics::TraceStep& carries =
      all.row(all.first_bad->batch_head, all.first_bad->tile, all.first_bad->row).carries;
  CHECK(step.phase == example.phase);
  CHECK(step.tile == example.tile);
  CHECK(all.first_bad->tile == example.tile);
  CHECK(carries.quantity == example.quantity);
  CHECK_THAT(carries.why, ContainsSubstring(example.why));
}

TEST_CASE("a wrong kernel goes bad in the quantity that it gets wrong",
          "[numerics][steps][mutants][quick]") {
  struct Example {
    const char *variant, *quantity;
  };
  const auto example = GENERATE(values<Example>({{"mutant.no_alpha_on_O", "O"},
                                                 {"mutant.no_alpha_on_l", "l"},
                                                 {"mutant.stale_max", "l"},
                                                 {"mutant.no_division", "O"}}));
  CAPTURE(example.variant);
  const auto problem = problem_of("n_q=2 n_kv=8 d=4 order=ascending sigma=8 v=positive");
  const auto& kernel =
      kernels::find_kernel(std::string(example.variant) + ".Br4xBc2", problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  REQUIRE(all.first_bad);
  CHECK(all.row(all.first_bad->batch_head, all.first_bad->tile, all.first_bad->row)
            .carries.quantity == example.quantity);
  REQUIRE(all.differs); // the lines shown are those of fa1
  CHECK(all.differs->quantity == example.quantity);
}

TEST_CASE("a wrong m that the answer forgives is a difference, and nothing is bad",
          "[numerics][steps][mutants][quick]") {
  const auto problem = problem_of("n_q=2 n_kv=8 d=4 order=ascending");
  const auto& kernel = kernels::find_kernel("mutant.max_misses_last.Br4xBc2", problem.shape);

  const numerics::Steps all = numerics::steps_of(problem, kernel);

  CHECK_FALSE(all.first_bad);
  REQUIRE(all.differs);
  CHECK(all.differs->quantity == "m");
  CHECK(all.differs->tile == 0);
  CHECK(all.differs->kernel < all.differs->mirror);
}

TEST_CASE("the steps of a kernel are known by its variant, and every phase has a line",
          "[numerics][steps][quick]") {
  const reference::Shape shape;
  const auto& fa1 = kernels::find_kernel("fa1.Br4xBc2", shape);
  const kernels::Kernel stranger = kernels::as_stranger(fa1, true);

  const numerics::Algorithm* const algorithm = numerics::algorithm_of(fa1);

  REQUIRE(algorithm != nullptr);
  std::set<Phase> phases;
  for (const numerics::AlgorithmLine& line : algorithm->lines)
    if (line.phase)
      phases.insert(*line.phase);
  CHECK(phases == std::set<Phase>{Phase::start, Phase::load_tile, Phase::load_block, Phase::scores,
                                  Phase::softmax, Phase::output, Phase::store});
  CHECK(numerics::algorithm_of(kernels::find_kernel("mutant.no_alpha", shape)) == algorithm);
  CHECK(numerics::algorithm_of(kernels::find_kernel("rewrite.kahan", shape)) == algorithm);
  CHECK(numerics::algorithm_of(kernels::find_kernel("mutant.LSE_without_m", shape)) ==
        numerics::algorithm_of(kernels::find_kernel("fa2", shape)));
  CHECK(numerics::algorithm_of(stranger) == nullptr);
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    CAPTURE(kernel.id);
    CHECK(numerics::algorithm_of(kernel) != nullptr);
  }
}
