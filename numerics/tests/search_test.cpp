// Claims about the search for the worst: what it tries, what counts, and that it is worth more than drawing at random.
#include "numerics/search.hpp"

#include "numerics/ulp.hpp"
#include "reference/hash.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

using namespace fa1::numerics;
using fa1::reference::parse_recipe;
using fa1::reference::Recipe;
using fa1::reference::to_string;

namespace {

const fa1::kernels::Kernel& kernel_of(std::string_view id) {
  return fa1::kernels::find_kernel(id, {1, 1, 1, 4, 4});
}

WorstSearch search_of(std::string base, std::string_view kernel, Objective objective) {
  WorstSearch search;
  search.base = std::move(base);
  search.axes = open_axes(search.base);
  search.kernel = &kernel_of(kernel);
  search.objective = objective;
  return search;
}

Budget evaluations(std::int64_t count) {
  Budget budget;
  budget.evaluations = count;
  return budget;
}

/// The best of the recipes alone.
double evolved(const WorstSearch& search, int count) {
  const Grid grid(search.base, search.axes);
  Evolution evolution(grid, score_of(search), search.seed);
  for (int done = 0; done < count; done += static_cast<int>(kGeneration))
    evolution.generation(2);
  return evolution.best().front().value;
}

double best_of_random(const WorstSearch& search, int count) {
  const Grid grid(search.base, search.axes);
  double best = 0.0;
  for (const double value :
       random_values(grid, score_of(search), search.seed, static_cast<std::size_t>(count), 2))
    best = std::max(best, std::isnan(value) ? 0.0 : value);
  return best;
}

} // namespace

TEST_CASE("a search finds the same with any number of threads", "[numerics][quick]") {
  const WorstSearch search = search_of("n_kv=16 d=4", "fa1.Br4xBc2", Objective::error);

  const Worst one = find_worst(search, evaluations(700), 1);
  const Worst four = find_worst(search, evaluations(700), 4);

  CHECK(one.evaluations == 700);
  CHECK(to_string(one.recipe) == to_string(four.recipe));
  CHECK(one.value == four.value);
  CHECK(!one.recipe.put.empty()); // both stages had their turn
}

TEST_CASE("each entry that a search leaves changed matters, and what was asked for stays",
          "[numerics][quick]") {
  const WorstSearch search = search_of("n_kv=16 d=4 put=V:3,1:0", "fa1.Br4xBc2", Objective::error);

  const Worst worst = find_worst(search, evaluations(1500), 1);

  bool asked_for = false;
  REQUIRE(worst.recipe.put.size() > 1);
  for (std::size_t i = 0; i < worst.recipe.put.size(); ++i) {
    const auto& put = worst.recipe.put[i];
    if (put.matrix == fa1::reference::Matrix::V && put.row == 3 && put.column == 1) {
      asked_for = true;
      continue;
    }
    Recipe without = worst.recipe;
    without.put.erase(without.put.begin() + static_cast<std::ptrdiff_t>(i));
    const double value = score_of(search)(without, "");
    CHECK((std::isnan(value) || value < worst.value));
  }
  CHECK(asked_for);
}

TEST_CASE("another seed tries other problems, and the budget only cuts them off",
          "[numerics][quick]") {
  const Grid grid("n_kv=16 d=4", open_axes(""));
  const auto tried = [&grid](std::uint64_t seed, std::size_t count) {
    std::vector<std::string> recipes;
    const Score score = [&recipes](const Recipe& recipe, std::string_view) {
      recipes.push_back(to_string(recipe));
      return static_cast<double>(fa1::reference::hash_of(recipes.back()) % 1000);
    };
    Evolution evolution(grid, score, seed);
    for (std::size_t left = count; left > 0; left -= std::min(left, kGeneration))
      evolution.generation(1, std::min(left, kGeneration));
    return recipes;
  };

  const std::vector<std::string> few = tried(1, 100), many = tried(1, 400), other = tried(2, 100);

  REQUIRE(many.size() == 400);
  CHECK(std::ranges::equal(few, std::vector(many.begin(), many.begin() + 100)));
  CHECK(few != other);
}

TEST_CASE("evolution reaches the best point of a grid that drawing at random misses",
          "[numerics][quick]") {
  const std::vector<Axis> axes{parse_axis("n_kv=1..16+1"), parse_axis("d=1..16+1"),
                               parse_axis("n_q=1..16+1"), parse_axis("dv=1..16+1")};
  const Grid grid("", axes); // of 65536 points
  const Score near_the_end = [](const Recipe& recipe, std::string_view) {
    return static_cast<double>(recipe.n_kv + recipe.d + recipe.n_q + *recipe.dv);
  };

  Evolution evolution(grid, near_the_end, 1);
  for (int generation = 0; generation < 60; ++generation)
    evolution.generation(1);
  const std::vector<double> random = random_values(grid, near_the_end, 1, 60 * kGeneration, 1);

  CHECK(evolution.best().front().value == 64.0);
  CHECK(std::ranges::max(random) < 64.0);
}

TEST_CASE("a point of a grid changes one value and keeps the others", "[numerics][quick]") {
  const std::vector<Axis> axes{parse_axis("n_kv=3,5,7"), parse_axis("d=1,2"),
                               parse_axis("sigma=1,2,4,8")};
  const Grid grid("", axes);
  const auto axis = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{2});

  for (std::uint64_t point = 0; point < grid.points(); ++point)
    for (std::uint64_t digit = 0; digit < axes[axis].values.size(); ++digit) {
      const std::uint64_t moved = with_digit(grid, point, axis, digit);
      std::vector<std::string> expected = grid.point(point).values;
      expected[axis] = axes[axis].values[digit];

      REQUIRE(grid.point(moved).values == expected);
      REQUIRE(digit_of(grid, moved, axis) == digit);
    }
}

TEST_CASE("entries that were moved are a recipe with the value that was found",
          "[numerics][quick]") {
  const WorstSearch search = search_of("n_kv=16 d=4", "fa1.Br4xBc2", Objective::bound);
  const Recipe start = parse_recipe("n_kv=16 d=4 seed=3");
  const double before = score_of(search)(start, "");
  EntryMoves moves(start, before, score_of(search), 1);

  for (int generation = 0; generation < 20; ++generation)
    moves.generation(1);

  const Recipe read = parse_recipe(to_string(moves.recipe()));
  CHECK(moves.value() > before);
  CHECK(score_of(search)(read, "") == moves.value());
}

TEST_CASE("a search goes on from a case and never loses it", "[numerics][quick]") {
  WorstSearch search = search_of("n_kv=16 d=4", "fa1.Br4xBc2", Objective::error);
  const Worst first = find_worst(search, evaluations(1500), 1);
  search.from = first.recipe;
  search.seed = 2;

  const Worst at_once = find_worst(search, evaluations(1), 1);
  const Worst later = find_worst(search, evaluations(1500), 1);

  CHECK(at_once.value == first.value);
  CHECK(to_string(at_once.recipe) == to_string(first.recipe));
  CHECK(later.value > first.value);
}

TEST_CASE("a problem counts only where its bound holds, its scores carry a digit and it is "
          "within the limits",
          "[numerics][quick]") {
  const auto counts = [](const char* recipe, double largest_score) {
    SearchLimits limits;
    limits.largest_score = largest_score;
    limits.largest_value = 3e38;
    return peak_of(parse_recipe(recipe), kernel_of("fa1.Br4xBc2"), Objective::bound, limits)
        .has_value();
  };
  const auto counts_within_limits = [](const char* recipe) {
    return peak_of(parse_recipe(recipe), kernel_of("fa1.Br4xBc2"), Objective::bound, {})
        .has_value();
  };
  const double any = 1e30;

  CHECK(counts("n_kv=8 d=4", any));
  CHECK_FALSE(counts("n_kv=8 d=1 V=3e38*", any));                    // sums may overflow
  CHECK_FALSE(counts("n_kv=8 d=4 sigma=1e8", any));                  // no digit
  CHECK_FALSE(counts("n_kv=8 d=4 put=K:0,0:nan", any));              // no number
  CHECK(counts("n_kv=2 d=1 scale=1 Q=8 K=4,0", 32.0));               // the limit itself
  CHECK_FALSE(counts("n_kv=2 d=1 scale=1 Q=8 K=4.0000005,0", 32.0)); // and a bit more
  CHECK(counts_within_limits("n_kv=2 d=1 V=0x1p-16,0x1p16"));
  CHECK_FALSE(counts_within_limits("n_kv=2 d=1 V=0x1p-17,1"));
  CHECK_FALSE(counts_within_limits("n_kv=2 d=1 V=0x1.000002p16,1"));
}

TEST_CASE(
    "the peak of one key is the rounding of nothing, and a wrong kernel's is beyond its bound",
    "[numerics][quick]") {
  const auto peak = [](const char* recipe, const char* kernel) {
    return peak_of(parse_recipe(recipe), kernel_of(kernel), Objective::bound, {}).value();
  };

  const Peak exact = peak("n_kv=1 d=4", "fa1.Br4xBc2");
  const Peak wrong = peak("n_kv=8 d=4 order=ascending", "mutant.no_alpha_on_O.Br4xBc2");

  CHECK(exact.error == 0.0);
  CHECK(wrong.fraction > 1.0);
  CHECK(std::fabs(wrong.error / wrong.bound - wrong.fraction) <= 4 * 0x1p-53 * wrong.fraction);
}

TEST_CASE("the search proves a wrong kernel wrong", "[numerics][quick]") {
  const char* mutant = GENERATE("mutant.no_alpha_on_O.Br4xBc2", "mutant.alpha_squared.Br4xBc2");
  const WorstSearch search = search_of("n_kv=16 d=4", mutant, Objective::bound);

  const Worst worst = find_worst(search, evaluations(200), 2);

  CHECK(worst.value > 1.0);
}

TEST_CASE("the search finds worse than as many problems drawn at random, recipes worse than "
          "drawing, entries worse than recipes",
          "[numerics][deep]") {
  const Objective objective = GENERATE(Objective::error, Objective::bound);
  WorstSearch search = search_of("n_kv=32 d=4", "fa1.Br4xBc2", objective);
  search.seed = GENERATE(1u, 2u, 3u);
  constexpr int kCount = 8192;

  const double random = best_of_random(search, kCount);
  const double recipes = evolved(search, kCount);
  const double both = find_worst(search, evaluations(kCount), 2).value;

  CAPTURE(name_of(objective), search.seed, random, recipes, both);
  CHECK(recipes > random);
  CHECK(both > recipes);
  CHECK(both > 0.0);
}
