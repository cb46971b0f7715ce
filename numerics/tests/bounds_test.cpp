// The bound itself: hand-checkable values, its textbook form, and 200,000 random problems that must
// stay inside it.
#include "numerics/bounds.hpp"

#include "numerics/error.hpp"
#include "numerics/ratchet.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

using namespace fa1;
using numerics::kU;
using reference::Family;
using reference::Order;
using reference::Problem;
using reference::Recipe;

namespace {

Problem problem_of(const char* recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// Independent of the code under test: the first-order bound as printed in its header, from exact
/// weights in long double.
double textbook_bound(const Problem& problem, std::int64_t Bc, double c) {
  const std::int64_t N = problem.shape.n_kv, T = (N + Bc - 1) / Bc;
  std::vector<long double> s, eta, p;
  long double M = -HUGE_VALL, L = 0, o = 0;
  for (std::int64_t j = 0; j < N; ++j) {
    long double dot = 0, abs = 0;
    for (std::int64_t i = 0; i < problem.shape.d; ++i) {
      dot += static_cast<long double>(problem.Q(0, 0, i)) * problem.K(0, j, i);
      abs += std::fabs(static_cast<long double>(problem.Q(0, 0, i)) * problem.K(0, j, i));
    }
    s.push_back(dot * problem.scale);
    eta.push_back(
        static_cast<long double>(numerics::gamma(static_cast<double>(problem.shape.d + 1))) * abs *
        std::fabs(problem.scale));
    M = std::max(M, s.back());
  }
  for (const long double x : s)
    L += std::exp(x - M);
  for (std::int64_t j = 0; j < N; ++j) {
    p.push_back(std::exp(s[static_cast<std::size_t>(j)] - M) / L);
    o += p.back() * problem.V(0, j, 0);
  }
  std::vector<int> rises_after(static_cast<std::size_t>(T), 0);
  std::vector<long double> tile_max(static_cast<std::size_t>(T), -HUGE_VALL);
  for (std::int64_t j = 0; j < N; ++j)
    tile_max[static_cast<std::size_t>(j / Bc)] =
        std::max(tile_max[static_cast<std::size_t>(j / Bc)], s[static_cast<std::size_t>(j)]);
  for (std::size_t t = 0; t < rises_after.size(); ++t) {
    long double running =
        *std::max_element(tile_max.begin(), tile_max.begin() + static_cast<std::ptrdiff_t>(t) + 1);
    for (std::size_t later = t + 1; later < tile_max.size(); ++later)
      if (tile_max[later] > running) {
        running = tile_max[later];
        ++rises_after[t];
      }
  }
  long double bound = 0;
  const auto width = static_cast<long double>(std::min(Bc, N));
  for (std::int64_t j = 0; j < N; ++j) {
    const auto i = static_cast<std::size_t>(j);
    const std::int64_t tiles_after = T - 1 - j / Bc;
    const long double v = problem.V(0, j, 0), later = static_cast<long double>(tiles_after);
    const long double R = rises_after[static_cast<std::size_t>(j / Bc)];
    bound += p[i] * std::fabs(v - o) * (eta[i] + kU * (c + (c + 1) * R + M - s[i]));
    bound += kU * p[i] * std::fabs(v) * (width + 2 + 3 * later);
    bound += kU * std::fabs(o) * p[i] * (width + later);
  }
  return static_cast<double>(bound);
}

/// Shapes and families as they come, small enough for many.
Recipe random_recipe(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  constexpr std::array kFamilies{Family::normal, Family::uniform, Family::outliers, Family::pow2,
                                 Family::ints,   Family::zero,    Family::subnormal};
  constexpr std::array kOrders{Order::free,       Order::free, Order::ascending,
                               Order::descending, Order::tied, Order::dominant};
  constexpr std::array kValues{Family::normal,   Family::positive, Family::alternating,
                               Family::outliers, Family::pow2,     Family::ints,
                               Family::index1,   Family::subnormal};
  constexpr std::array kSigmas{1e-30f, 1e-6f, 0.01f, 0.3f,  1.0f,  1.0f,
                               1.0f,   3.0f,  10.0f, 30.0f, 100.0f};
  Recipe r;
  r.seed = 1 + below(1u << 30);
  r.n_q = 1;
  r.n_kv = 1 + static_cast<std::int64_t>(below(below(8) == 0 ? 400 : 60));
  r.d = 1 + static_cast<std::int64_t>(below(below(4) == 0 ? 64 : 9));
  r.dv = 1 + static_cast<std::int64_t>(below(3));
  r.dist = kFamilies[below(kFamilies.size())];
  r.order = kOrders[below(kOrders.size())];
  r.v = kValues[below(kValues.size())];
  r.sigma = kSigmas[below(kSigmas.size())];
  return r;
}

} // namespace

TEST_CASE("n roundings make a relative error of at most gamma_n", "[numerics][quick]") {
  CHECK(numerics::gamma(0) == 0.0);
  CHECK(numerics::gamma(1) == kU / (1.0 - kU));
  CHECK(numerics::gamma(1 << 23) == 1.0);
  CHECK(std::isinf(numerics::gamma(1 << 24)));
}

TEST_CASE("one exact key costs the roundings of one tile and nothing else", "[numerics][quick]") {
  const Problem problem = problem_of("scores=0 V=3");

  const numerics::Bounds bounds = numerics::online_softmax(problem, {});

  // Three roundings of 1 * 3 through product, update and division, one of l; no score error. The
  // weight is 1 (expf(0) is exact, which the bound does not use: it allows e^(c u) in the numerator
  // and as much in the denominator).
  CHECK(bounds.O(0, 0, 0) >= 3.0 * (numerics::gamma(3) + numerics::gamma(1)));
  CHECK(bounds.O(0, 0, 0) <= 3.0 * (numerics::gamma(3) + numerics::gamma(1)) /
                                 (1.0 - numerics::gamma(1)) *
                                 std::exp(2.0 * kernels::Arithmetic{}.exp_error * kU * (1.0 + kU)) *
                                 numerics::kEvaluationSlack);
  CHECK(bounds.eta[0] == 0.0);
  CHECK(bounds.weighted(0, 0, 0) == 3.0);
}

TEST_CASE("where all errors are small the exact form agrees with the textbook form to first order",
          "[numerics][quick]") {
  const char* recipe = GENERATE("n_q=1 n_kv=7 d=3 dv=1", "n_q=1 n_kv=64 d=8 dv=1 seed=5 v=positive",
                                "n_q=1 n_kv=200 d=16 dv=1 sigma=4 seed=2",
                                "n_q=1 n_kv=50 d=4 dv=1 order=ascending sigma=3");
  const std::int64_t Bc = GENERATE(1, 5, 32);
  const Problem problem = problem_of(recipe);
  const kernels::Arithmetic arithmetic{.Bc = static_cast<int>(Bc)};

  const double exact_form = numerics::online_softmax(problem, arithmetic).O(0, 0, 0);

  const double first_order = textbook_bound(problem, Bc, arithmetic.exp_error);
  CAPTURE(recipe, Bc, exact_form, first_order);
  CHECK(exact_form >= first_order);
  // What the first order leaves out is of the order of the largest weight error: 1 % is far above
  // it here.
  const double second_order = 1.0 + 0x1p-6;
  CHECK(exact_form <= first_order * second_order);
}

TEST_CASE("fused multiply-adds and a better exponential can only lower the bound",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=1 n_kv=100 d=8 sigma=2 seed=4");

  const double plain = numerics::online_softmax(problem, {.Bc = 4}).O(0, 0, 0);

  CHECK(numerics::online_softmax(problem, {.Bc = 4, .contracted = true}).O(0, 0, 0) < plain);
  CHECK(numerics::online_softmax(problem, {.Bc = 4, .exp_error = 5.0}).O(0, 0, 0) > plain);
  // scores taken as exact
  CHECK(numerics::online_softmax(problem, {.Bc = 4}, true).O(0, 0, 0) < plain);
}

TEST_CASE("the bound names the condition that fails", "[numerics][quick]") {
  CHECK(numerics::online_softmax(problem_of("scores=0,nan V=1,2"), {}).obstacle ==
        "K holds NaN or Inf");
  CHECK(numerics::online_softmax(problem_of("scores=0,0 V=1,inf"), {}).obstacle ==
        "V holds NaN or Inf");
  CHECK(numerics::online_softmax(problem_of("n_q=1 n_kv=1 Q=nan"), {}).obstacle ==
        "Q holds NaN or Inf");
  CHECK(numerics::online_softmax(problem_of("scores=0,0,0,0 V=1e38*"), {}).obstacle ==
        "n_kv * max|v| reaches FLT_MAX");
  CHECK(
      numerics::online_softmax(problem_of("n_q=1 n_kv=1 scale=1e-38 Q=1e25 K=1e25"), {}).obstacle ==
      "sum |q k| reaches FLT_MAX in row 0");
}

TEST_CASE("an unknowable weight makes the bound infinite and never NaN", "[numerics][quick]") {
  const char* recipe = GENERATE("n_q=1 n_kv=1 sigma=1e20", "n_q=3 n_kv=9 d=4 sigma=1e9",
                                "n_q=2 n_kv=8 sigma=1e25 v=zero");

  const numerics::Bounds bounds = numerics::online_softmax(problem_of(recipe), {});

  CHECK(std::ranges::none_of(bounds.O.elements(), [](double b) { return std::isnan(b); }));
  CHECK(std::ranges::none_of(bounds.l, [](double b) { return std::isnan(b); }));
  CHECK(bounds.eta[0] >= numerics::kNoDigit);
}

TEST_CASE("a bound from chunks of keys is the bound", "[numerics][quick]") {
  for (const char* text :
       {"bh=2 n_q=3 n_kv=100 d=5 dv=2", "n_q=2 n_kv=97 d=8 order=ascending",
        "n_q=2 n_kv=97 d=8 order=descending sigma=30", "n_q=2 n_kv=50 sigma=1e6", "n_q=2 n_kv=0",
        "n_q=1 n_kv=20 put=K:13,0:nan", "n_q=1 n_kv=20 d=2 put=K:13,0:3e38"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);
    kernels::Arithmetic arithmetic;
    arithmetic.Bc = 4;
    const numerics::Bounds whole = numerics::online_softmax(problem, arithmetic);

    numerics::OnlineSoftmaxBound bound(problem.shape, arithmetic);
    const auto in_chunks = [&](const auto& pass) {
      for (std::int64_t key = 0; key < problem.shape.n_kv; key += 12)
        pass(reference::slice_keys(problem, key,
                                   std::min<std::int64_t>(12, problem.shape.n_kv - key)));
    };
    in_chunks([&](const Problem& chunk) { bound.survey(chunk, 2); });
    in_chunks([&](const Problem& chunk) { bound.weigh(chunk, 2); });
    const numerics::Bounds chunks = bound.bounds();

    CHECK(chunks.obstacle.empty() == whole.obstacle.empty());
    const auto same = [](double a, double b) {
      return a == b || std::fabs(a - b) <= (numerics::kEvaluationSlack - 1.0) * std::fabs(b);
    };
    for (std::size_t e = 0; e < whole.O.elements().size(); ++e) {
      CHECK(same(chunks.O.elements()[e], whole.O.elements()[e]));
      CHECK(same(chunks.expected.elements()[e], whole.expected.elements()[e]));
      CHECK(same(chunks.weighted.elements()[e], whole.weighted.elements()[e]));
    }
    for (std::size_t r = 0; r < whole.l.size(); ++r) {
      CHECK(same(chunks.l[r], whole.l[r]));
      CHECK(same(chunks.LSE[r], whole.LSE[r]));
      CHECK(chunks.m[r] == whole.m[r]);
      CHECK(chunks.eta[r] == whole.eta[r]);
      CHECK(chunks.spread[r] == whole.spread[r]);
    }
  }
}

TEST_CASE("the bound of a kernel of unknown make is the widest", "[numerics][quick]") {
  for (const char* text : {"n_q=3 n_kv=100 d=5 dv=2", "n_q=2 n_kv=97 d=8 order=ascending",
                           "n_q=2 n_kv=97 d=8 sigma=30", "n_q=2 n_kv=1 d=3"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);
    kernels::Arithmetic unknown;
    unknown.known = false;
    const numerics::Bounds widest = numerics::online_softmax(problem, unknown);
    for (const int Bc : {1, 4, 128})
      for (const bool contracted : {false, true}) {
        kernels::Arithmetic known;
        known.Bc = Bc;
        known.contracted = contracted;
        const numerics::Bounds bounds = numerics::online_softmax(problem, known);
        for (std::size_t e = 0; e < bounds.O.elements().size(); ++e)
          CHECK(widest.O.elements()[e] > bounds.O.elements()[e]);
        for (std::size_t r = 0; r < bounds.l.size(); ++r) {
          CHECK(widest.l[r] > bounds.l[r]);
          CHECK(widest.LSE[r] > bounds.LSE[r]);
          CHECK(widest.m[r] >= bounds.m[r]);
        }
      }
  }
}

TEST_CASE("no error of 200,000 random problems exceeds its bound", "[numerics][deep]") {
  constexpr int kProblems = 200'000;
  std::mt19937_64 random(20210807);
  std::vector<double> fractions;
  std::map<Family, int> asked;
  double worst = 0.0;
  std::string worst_recipe;

  for (int n = 0; n < kProblems;) {
    const Recipe recipe = random_recipe(random);
    const Problem problem = reference::make_problem(recipe);
    const auto Bc =
        static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(recipe.n_kv + 2));
    const kernels::Arithmetic arithmetic{.Bc = static_cast<int>(Bc)};
    const numerics::Bounds bounds = numerics::online_softmax(problem, arithmetic);
    if (!bounds.obstacle.empty() || !(bounds.eta[0] < numerics::kNoDigit))
      continue; // scores that carry no digit: nothing is claimed
    ++n;
    ++asked[recipe.dist];
    const reference::State state = reference::tiled_mirror(problem, Bc);
    const reference::Truth truth = reference::certify(problem);
    const auto verdict = numerics::judge(problem, state, truth, bounds, true);
    if (verdict.judgement == numerics::Judgement::proved_wrong) {
      CAPTURE(reference::to_string(recipe), Bc, numerics::to_string(verdict));
      FAIL("an error beyond its bound");
    }
    const numerics::ErrorSummary summary = numerics::summarize(state, truth, bounds);
    fractions.push_back(summary.max_fraction);
    if (!(summary.max_fraction <= worst)) {
      worst = summary.max_fraction;
      worst_recipe = reference::to_string(recipe);
    }
  }

  std::ranges::nth_element(fractions, fractions.begin() + kProblems / 2);
  const numerics::RatchetRow measured{
      "bound.O", worst, fractions[kProblems / 2], kProblems,
      "error/bound of O by the mirror over random problems; mt19937_64 seed 20210807"};
  CAPTURE(worst_recipe, numerics::to_csv(measured));
  for (const auto& [family, count] : asked) {
    CAPTURE(reference::name_of(family));
    CHECK(count > kProblems / 50); // every family had its say
  }
  numerics::note_measured(measured);
  const numerics::RatchetRow allowed = numerics::ratchet("bound.O");
  CHECK(measured.worst <= allowed.worst);
  CHECK(measured.median <= allowed.median);
  CHECK(measured.worst > 0.01); // a bound nobody comes near would be no bound worth having
}
