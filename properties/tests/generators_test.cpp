// Claims about what the generators produce: every class of float, every family of problem, and
// shrinking that ends.
#include "properties/generators.hpp"
#include "properties/rapidcheck_bridge.hpp"
#include "reference/recorded.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace fa1;
using reference::Recipe;

namespace {

/// `count` values of a generator, the way a property draws them.
template <class Gen, class Use> void draw(const Gen& generator, int count, Use&& use) {
  const auto report = properties::run_property("draw", {count, 42}, [&] { use(*generator); });
  REQUIRE(report.held);
  REQUIRE(report.cases == count);
}

/// The steps to the simplest recipe for which `fails` holds, taking the first candidate that still
/// fails.
template <class Fails> Recipe shrink(Recipe recipe, Fails&& fails) {
  REQUIRE(fails(recipe));
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Recipe& candidate : properties::simpler(recipe))
      if (fails(candidate)) {
        recipe = candidate;
        smaller = true;
        break;
      }
  }
  return recipe;
}

} // namespace

TEST_CASE("floats of every class are drawn", "[properties][quick]") {
  std::map<std::string, int> seen;

  draw(properties::any_float(), 20'000, [&](float x) {
    if (std::isnan(x))
      ++seen["NaN"];
    else if (std::isinf(x))
      ++seen[x > 0 ? "+Inf" : "-Inf"];
    else if (x == 0.0f)
      ++seen[std::signbit(x) ? "-0" : "+0"];
    else if (std::fabs(x) < std::numeric_limits<float>::min())
      ++seen[x > 0 ? "+subnormal" : "-subnormal"];
    else if (std::fabs(x) == std::numeric_limits<float>::max())
      ++seen["FLT_MAX"];
    else if (std::fabs(x) > 1e30f)
      ++seen["huge"];
    else if (std::fabs(x) < 1e-30f)
      ++seen["tiny"];
    else if (x == std::trunc(x))
      ++seen["whole"];
    else
      ++seen["ordinary"];
  });

  for (const char* kind : {"NaN", "+Inf", "-Inf", "-0", "+0", "+subnormal", "-subnormal", "FLT_MAX",
                           "huge", "tiny", "whole", "ordinary"}) {
    CAPTURE(kind);
    CHECK(seen[kind] > 0);
  }
}

TEST_CASE("recipes of every family, order and value family are drawn, and every one can be made",
          "[properties][quick]") {
  std::set<std::string_view> dists, orders, values;
  std::set<std::string> recorded;
  std::set<std::int64_t> keys;
  int extreme = 0, batches = 0, wide_v = 0, negative = 0, listed = 0, spoiled = 0;

  draw(properties::any_recipe({.largest_d = 16, .Br = 4, .Bc = 8}), 3'000,
       [&](const Recipe& recipe) {
         dists.insert(reference::name_of(recipe.dist));
         orders.insert(reference::name_of(recipe.order));
         values.insert(reference::name_of(recipe.v));
         if (!recipe.recorded.empty())
           recorded.insert(recipe.recorded);
         keys.insert(recipe.n_kv);
         extreme += recipe.sigma < 1e-10f || recipe.sigma > 1e10f;
         batches += recipe.batch_heads > 1;
         wide_v += recipe.dv && *recipe.dv != recipe.d;
         negative += recipe.scale && *recipe.scale < 0.0f;
         listed += !recipe.K.empty();
         spoiled += !recipe.put.empty();
         RC_ASSERT(reference::parse_recipe(reference::to_string(recipe)) == recipe);
         reference::make_problem(recipe);
       });

  CHECK(dists.size() == 7);
  CHECK(orders.size() == 5);
  CHECK(values.size() == 12);
  CHECK(recorded.size() == reference::recording().heads.size());
  for (const std::int64_t n_kv : {0, 1, 7, 8, 9, 16, 17}) // no key, one, around one tile and two
    CHECK(keys.contains(n_kv));
  CHECK(extreme > 50);
  CHECK(batches > 300);
  CHECK(wide_v > 300);
  CHECK(negative > 100);
  CHECK(listed > 100);
  CHECK(spoiled > 50);
}

TEST_CASE("tiles of -Inf at every place, one key, no key and a scale of 0 are drawn",
          "[properties][quick]") {
  constexpr std::int64_t kBc = 4;
  int dead_first = 0, dead_between = 0, dead_last = 0, dead_all = 0, one_key = 0, no_key = 0,
      no_scale = 0;

  draw(properties::any_recipe({.largest_d = 8, .Br = 4, .Bc = kBc}), 3'000,
       [&](const Recipe& recipe) {
         const reference::Problem problem = reference::make_problem(recipe);
         const std::int64_t n_kv = problem.shape.n_kv;
         const auto dead = [&](std::int64_t first, std::int64_t last) { // for every query row
           for (std::int64_t j = first; j < last; ++j)
             for (const float k : problem.K.row(0, j))
               if (problem.shape.d != 1 || k != -HUGE_VALF)
                 return false;
           return problem.scale > 0.0f &&
                  std::ranges::all_of(problem.Q.elements(), [](float q) { return q > 0.0f; });
         };
         one_key += n_kv == 1;
         no_key += n_kv == 0;
         no_scale += problem.scale == 0.0f;
         if (n_kv < 2 * kBc || recipe.n_q == 0)
           return;
         if (dead(0, n_kv)) {
           ++dead_all;
           return;
         }
         const std::int64_t last = (n_kv - 1) / kBc * kBc;
         dead_first += dead(0, kBc);
         dead_last += dead(last, n_kv);
         for (std::int64_t tile = kBc; tile < last; tile += kBc)
           dead_between += dead(tile, tile + kBc);
       });

  CAPTURE(dead_first, dead_between, dead_last, dead_all, one_key, no_key, no_scale);
  for (const int seen : {dead_first, dead_between, dead_last, dead_all, one_key, no_key, no_scale})
    CHECK(seen > 0);
}

TEST_CASE("shrinking ends at the smallest recipe that still fails", "[properties][quick]") {
  const Recipe start =
      reference::parse_recipe("bh=2 n_q=9 n_kv=77 d=13 dv=5 seed=123456 dist=outliers sigma=10 "
                              "order=descending v=alternating scale=0.25");

  const Recipe many_keys = shrink(start, [](const Recipe& r) { return r.n_kv >= 6; });
  CHECK(many_keys.n_kv == 6);
  CHECK(many_keys.n_q == 1);
  CHECK(many_keys.d == 1);
  CHECK(many_keys.seed == 1);

  const Recipe two_columns = shrink(
      start, [](const Recipe& r) { return r.d >= 2 && r.order == reference::Order::descending; });
  CHECK(two_columns.d == 2);
  CHECK(two_columns.n_kv == 1);
  CHECK(two_columns.order == reference::Order::descending);
}

TEST_CASE("every shrinking step is simpler, so shrinking cannot run in circles",
          "[properties][quick]") {
  const auto complexity = [](const Recipe& r) {
    return r.batch_heads + r.n_q + r.n_kv + r.d + (r.dv ? *r.dv + 1 : 0) + (r.scale ? 1 : 0) +
           (r.sigma != 1.0f) + (r.order != reference::Order::free) +
           (r.dist == reference::Family::zero || r.dist == reference::Family::ints ? 0
            : r.dist == reference::Family::normal                                  ? 1
                                                                                   : 2) +
           (r.recorded.empty() ? 0 : 1) + (r.Q.empty() && r.K.empty() && r.V.empty() ? 0 : 1) +
           (r.put.empty() ? 0 : 1) +
           (r.v == reference::Family::index1   ? 0
            : r.v == reference::Family::normal ? 0
                                               : 1);
  };

  draw(properties::any_recipe({}), 300, [&](const Recipe& recipe) {
    for (const Recipe& next : properties::simpler(recipe)) {
      RC_ASSERT(complexity(next) <= complexity(recipe));
      RC_ASSERT(complexity(next) < complexity(recipe) || next.seed < recipe.seed);
    }
  });
}
