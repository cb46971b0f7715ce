// Claims about every kernel of the family: the hand-worked example, the counts of roundings that
// its bound is made of, and random problems that must stay inside it.
#include "numerics/bounds.hpp"

#include "kernels/instances.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace fa1;
using kernels::Kernel;
using kernels::Order;
using numerics::kU;
using reference::Problem;
using reference::State;

namespace {

Problem problem_of(const char* recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

constexpr std::array kOrders{Order::every_tile, Order::tile_maximum, Order::at_end, Order::lagging,
                             Order::rows_of_S,  Order::two_fetches,  Order::ranges};

/// Independent of the code under test: one query row's bound on O to first order, by following each
/// key through the steps that the kernels' headers describe.
double first_order_bound(const Problem& problem, const kernels::Arithmetic& arithmetic) {
  const std::int64_t N = problem.shape.n_kv, Bc = arithmetic.Bc, T = (N + Bc - 1) / Bc;
  const double c = arithmetic.exp_error;
  std::vector<double> s, eta;
  double M = -HUGE_VAL, L = 0.0, o = 0.0;
  for (std::int64_t j = 0; j < N; ++j) {
    double dot = 0.0, abs = 0.0;
    for (std::int64_t i = 0; i < problem.shape.d; ++i) {
      const double product = double{problem.Q(0, 0, i)} * double{problem.K(0, j, i)};
      dot += product;
      abs += std::fabs(product);
    }
    s.push_back(dot * double{problem.scale});
    eta.push_back(static_cast<double>(problem.shape.d + 1) * kU * abs *
                  std::fabs(double{problem.scale}));
    M = std::max(M, s.back());
  }
  for (const double x : s)
    L += std::exp(x - M);
  for (std::int64_t j = 0; j < N; ++j)
    o += std::exp(s[static_cast<std::size_t>(j)] - M) / L * double{problem.V(0, j, 0)};

  const auto tile_max = [&](std::int64_t t) {
    double m = -HUGE_VAL;
    for (std::int64_t j = t * Bc; j < std::min(N, (t + 1) * Bc); ++j)
      m = std::max(m, s[static_cast<std::size_t>(j)]);
    return m;
  };
  const std::int64_t per_range = (T + kernels::kKeyRanges - 1) / kernels::kKeyRanges;
  double bound = 0.0;
  for (std::int64_t j = 0; j < N; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const std::int64_t own = j / Bc;
    const auto width = static_cast<double>(std::min(N, Bc));
    // Of the own tile: the product and the sum over the tile, the sum with the carry.
    double numerator = width + 1.0, denominator = width, weight = c, apart_above = 0.0,
           apart_below = 0.0;
    double highest = -HUGE_VAL;
    for (std::int64_t t = 0; t <= own; ++t)
      highest = std::max(highest, tile_max(t));
    const double gap =
        M - s[at] + (arithmetic.order == Order::lagging ? 2.0 * arithmetic.kLag : 0.0);
    double argument = gap;
    for (std::int64_t t = own + 1; t < T; ++t) {
      const bool rises = tile_max(t) > highest;
      highest = std::max(highest, tile_max(t));
      switch (arithmetic.order) {
      case Order::every_tile:
      case Order::tile_maximum:
        numerator += 3.0; // carried O, sum, division
        denominator += 1.0;
        weight += rises ? c + 1.0 : 0.0; // alpha, and alpha l for both
        break;
      case Order::at_end:
      case Order::lagging:
        numerator += 1.0 + (rises ? 1.0 : 0.0) + (arithmetic.carried ? 2.0 : 0.0);
        denominator += 1.0 + (rises ? 1.0 : 0.0);
        weight += rises ? c : 0.0;
        break;
      case Order::rows_of_S:
        numerator += 1.0;
        break;
      case Order::two_fetches:
        numerator += 1.0;
        denominator += 1.0 + (rises ? 1.0 : 0.0);
        apart_below += rises ? c : 0.0;
        break;
      case Order::ranges:
        if (t / per_range == own / per_range) {
          numerator += 2.0;
          denominator += 2.0;
          weight += c;
        }
        break;
      }
    }
    numerator += 1.0; // the division at the end, or of the own tile
    switch (arithmetic.order) {
    case Order::tile_maximum: // beta sum p v, beta l_tile, beta
      numerator += 1.0;
      denominator += 1.0;
      weight += c;
      break;
    case Order::rows_of_S:
      denominator = static_cast<double>(N - 1);
      break;
    case Order::two_fetches:
      weight = argument = 0.0;
      apart_above += c + gap;
      apart_below += c + gap;
      break;
    case Order::ranges: {
      const std::int64_t first_merge = std::max<std::int64_t>(own / per_range, 1);
      for (std::int64_t range = first_merge; range * per_range < T; ++range) {
        numerator += 3.0;
        denominator += 1.0;
        weight += c + 1.0;
      }
      break;
    }
    case Order::every_tile:
    case Order::at_end:
    case Order::lagging:
      break;
    }
    const double p = std::exp(s[at] - M) / L, v = problem.V(0, j, 0);
    bound += p * (std::fabs(v - o) * (eta[at] + kU * (argument + weight)) +
                  std::fabs(v) * kU * (numerator + apart_above) +
                  std::fabs(o) * kU * (denominator + apart_below));
  }
  return bound;
}

/// The kernels that are asked: each variant, at two tiles or what it has, unfused, D = 4.
std::vector<const Kernel*> family() {
  std::vector<const Kernel*> list;
  for (const Kernel& kernel : kernels::all_kernels())
    if (kernel.backend == kernels::Backend::cpu && !kernel.arithmetic.contracted && kernel.D == 4 &&
        (kernel.Bc == 1 || kernel.Bc == 2 || kernel.Bc == 5))
      list.push_back(&kernel);
  return list;
}

void check_random_problems(int problems_each) {
  std::mt19937_64 random(20230717);
  for (const Kernel* kernel : family())
    for (int n = 0; n < problems_each; ++n) {
      constexpr std::array kSigmas{0.1f, 1.0f, 1.0f, 3.0f, 10.0f, 30.0f};
      constexpr std::array kRecipes{reference::Order::free, reference::Order::ascending,
                                    reference::Order::descending, reference::Order::tied};
      constexpr std::array kValues{reference::Family::normal, reference::Family::positive,
                                   reference::Family::alternating, reference::Family::pow2};
      reference::Recipe recipe;
      recipe.seed = 1 + random() % 1'000'000;
      recipe.n_q = 2;
      recipe.n_kv = 1 + static_cast<std::int64_t>(random() % 40);
      recipe.d = 1 + static_cast<std::int64_t>(random() % 4);
      recipe.sigma = kSigmas[random() % kSigmas.size()];
      recipe.order = kRecipes[random() % kRecipes.size()];
      recipe.v = kValues[random() % kValues.size()];
      const Problem problem = reference::make_problem(recipe);
      const numerics::Bounds bounds = numerics::online_softmax(problem, kernel->arithmetic);

      const auto verdict = numerics::judge(problem, kernels::run(*kernel, problem),
                                           reference::certify(problem), bounds, true);

      if (verdict.judgement == numerics::Judgement::proved_wrong) {
        CAPTURE(kernel->id, reference::to_string(recipe), numerics::to_string(verdict));
        FAIL_CHECK("an error beyond its bound");
        break;
      }
    }
}

} // namespace

TEST_CASE("the hand-checked example comes out of every kernel of the family, tile by tile",
          "[numerics][family][quick]") {
  // The table of the numerical contract, section 8, by hand: scores are exact in fp32, so m must
  // be; l and O lie within the kernel's bound of the printed digits. What a kernel that divides at
  // the end carries is l O: it comes out of the same two columns.
  const Problem problem =
      problem_of("n_q=4 n_kv=4 d=4 dv=2 scale=0.5 Q=1,0,2,0,0,1,1,0,1,1,0,1,0,2,1,1 "
                 "K=2,1,0,0,0,1,1,0,1,0,1,1,0,0,2,1 V=1,0,0,1,1,1,2,1");
  struct Stage {
    float m[4];
    double l[4], O[4][2];
  };
  constexpr Stage kStages[] = {
      {{1.0f, 1.0f, 1.5f, 1.5f},
       {2.0, 1.6065306597126334, 1.3678794411714423, 1.6065306597126334},
       {{0.5, 0.5},
        {0.37754066879814544, 0.62245933120185456},
        {0.73105857863000488, 0.26894142136999512},
        {0.37754066879814544, 0.62245933120185456}}},
      {{2.0f, 1.0f, 1.5f, 1.5f},
       {2.3422895420555181, 3.2130613194252668, 2.3422895420555181, 3.2130613194252668},
       {{1.2698729373456661, 0.84294023665041721},
        {1.0, 0.81122966560092728},
        {1.0, 0.57306729930475115},
        {1.0, 0.81122966560092728}}}};
  std::set<std::string> walked;
  for (const Kernel* kernel : family()) {
    if (4 % kernel->Bc != 0)
      continue;
    walked.insert(kernel->variant);
    State state;
    for (const std::int64_t tile : {0, 1}) {
      CAPTURE(kernel->id, tile);
      const Problem prefix = reference::slice_keys(problem, 0, 2 * (tile + 1));
      const Stage& want = kStages[tile];
      const numerics::Bounds bounds =
          numerics::online_softmax(prefix, kernel->arithmetic.over_carries());

      state = tile == 1 && kernel->resumes
                  ? kernels::resume(*kernel, reference::slice_keys(problem, 2, 2), state)
                  : kernels::run(*kernel, prefix);

      for (std::int64_t row = 0; row < 4; ++row) {
        const auto at = static_cast<std::size_t>(row);
        constexpr double kPrinted =
            0x1p-52; // half a unit of the digits printed, and this test's own
        const double l = want.l[row] * std::exp(double{want.m[row]} - double{state.m[at]});
        CAPTURE(row);
        if (kernel->arithmetic.m_is_maximum())
          CHECK(state.m[at] == want.m[row]);
        CHECK(std::fabs(double{state.l[at]} - l) <= (bounds.l[at] + 8.0 * kPrinted) * l);
        for (std::int64_t column = 0; column < 2; ++column) {
          const double O = want.O[row][column], got = state.O(0, row, column);
          const double off = bounds.O(0, row, column);
          CHECK(std::fabs(got - O) <= off + kPrinted * O);
          CHECK(std::fabs(double{state.l[at]} * got - l * O) <=
                l * (off * (1.0 + bounds.l[at]) + (bounds.l[at] + 8.0 * kPrinted) * O));
        }
      }
    }
  }
  CHECK(walked.size() == 10);
}

TEST_CASE("to first order every bound is the sum of the roundings that its kernel's header tells",
          "[numerics][family][quick]") {
  const char* recipe = GENERATE(
      "n_q=1 n_kv=1 d=3 dv=1", "n_q=1 n_kv=7 d=3 dv=1", "n_q=1 n_kv=64 d=8 dv=1 seed=5 v=positive",
      "n_q=1 n_kv=200 d=16 dv=1 sigma=4 seed=2", "n_q=1 n_kv=50 d=4 dv=1 order=ascending sigma=3",
      "n_q=1 n_kv=50 d=4 dv=1 order=descending sigma=3");
  const int Bc = GENERATE(1, 5, 32);
  const Order order = GENERATE(from_range(kOrders.begin(), kOrders.end()));
  const bool carried = GENERATE(false, true);
  const Problem problem = problem_of(recipe);
  const kernels::Arithmetic arithmetic{.Bc = Bc, .order = order, .carried = carried};

  const double exact_form = numerics::online_softmax(problem, arithmetic).O(0, 0, 0);

  const double first_order = first_order_bound(problem, arithmetic);
  CAPTURE(recipe, Bc, static_cast<int>(order), carried, exact_form, first_order);
  CHECK(exact_form >= first_order);
  // What the first order leaves out is of the order of the largest weight error: 1 % is far above
  // it.
  const double second_order = 1.0 + 0x1p-6;
  CHECK(exact_form <= first_order * second_order);
}

TEST_CASE("a lazy maximum needs its own condition on V", "[numerics][family][quick]") {
  const Problem problem = problem_of("scores=0,0 V=1e36*");

  CHECK(numerics::online_softmax(problem, {}).obstacle.empty());
  CHECK(numerics::online_softmax(problem, {.order = Order::lagging}).obstacle ==
        "n_kv * max|v| * the largest weight reaches FLT_MAX");
}

TEST_CASE("a lazy maximum lags by at most 8 ln 2, and does lag", "[numerics][family][quick]") {
  double most = 0.0;
  for (const Kernel* kernel : family()) {
    if (kernel->arithmetic.order != Order::lagging)
      continue;
    for (const char* recipe : {"scores=0,1,2,3,4,5,6,7,8,9,10,11,12", "scores=0,5.5,11,16.5",
                               "scores=0,5.6,11.1", "n_q=1 n_kv=40 d=4 order=ascending sigma=3"}) {
      const Problem problem = problem_of(recipe);
      const reference::Truth truth = reference::certify(problem);
      const State state = kernels::run(*kernel, problem);
      const double eta = numerics::online_softmax(problem, kernel->arithmetic).m[0];

      const double lag = truth.m[0].hi - double{state.m[0]};

      CAPTURE(kernel->id, recipe);
      CHECK(lag >= -eta);
      CHECK(lag <= kernels::Arithmetic::kLag + 2.0 * eta);
      most = std::max(most, lag);
    }
  }
  CHECK(most > 5.0);
}

TEST_CASE("no error of random problems exceeds its kernel's own bound",
          "[numerics][family][quick]") {
  check_random_problems(150);
}

TEST_CASE("no error of many random problems exceeds its kernel's own bound",
          "[numerics][family][deep]") {
  check_random_problems(10'000);
}
