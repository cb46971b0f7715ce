// Claims about how outputs are compared, after bug reports of other projects: each names a
// comparison that passed there and must not pass here. properties/tests/PUBLIC_FAULTS.md says which
// came from where.
#include "numerics/verdict.hpp"

#include "kernels/kernel.hpp"
#include "numerics/ratchet.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <vector>

using namespace fa1;
using numerics::Judgement;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

/// A problem, a right output, and the means to judge another one.
struct Trial {
  reference::Problem problem;
  reference::Truth truth = reference::certify(problem);
  numerics::Bounds bounds = numerics::online_softmax(problem, {.Bc = 8});
  reference::State state = reference::tiled_mirror(problem, 8);

  explicit Trial(std::string_view recipe)
      : problem(reference::make_problem(reference::parse_recipe(recipe))) {}

  Judgement judgement() const {
    return numerics::judge(problem, state, truth, bounds, false).judgement;
  }
};

} // namespace

TEST_CASE("outputs that all lie in a narrow range are still told apart", "[numerics][quick]") {
  // V in [1, 2): a tolerance of 0.5 absolute and 0.2 relative takes 1.5 for any of these outputs.
  Trial trial("n_q=6 n_kv=40 d=8 dv=4 v=positive");
  auto& O = trial.state.O;
  REQUIRE(trial.judgement() == Judgement::proved_right);

  SECTION("one constant") { std::ranges::fill(O.elements(), 1.5f); }
  SECTION("zeros") { std::ranges::fill(O.elements(), 0.0f); }
  SECTION("rows in another order") {
    std::swap_ranges(O.row(0, 0).begin(), O.row(0, 0).end(), O.row(0, 5).begin());
  }
  SECTION("the mean of V") {
    trial.state = reference::tiled_mirror(
        {trial.problem.shape, 0.0f, trial.problem.Q, trial.problem.K, trial.problem.V}, 8);
  }

  CHECK(trial.judgement() == Judgement::proved_wrong);
}

TEST_CASE("no pair of a wrong value and a truth passes", "[numerics][quick]") {
  struct Pair {
    float got;
    double truth;
  };
  for (const auto& [got, truth] : {
           Pair{kNaN, 1.0},  // a difference of NaN is not greater than any tolerance
           Pair{kNaN, 0.0},  // nor does a maximum over differences see it
           Pair{0.0f, kNaN}, // a NaN in the truth is no reason to skip the element
           Pair{1.0f, kNaN}, //
           Pair{-1.0f, 1.0}, // of equal size
           Pair{-kInfinity, kInfinity},
           Pair{1.0f, kInfinity}, // a tolerance relative to an infinite value is infinite
           Pair{kInfinity, 1.0},
           Pair{kMax, kInfinity},
           Pair{kInfinity, kMax},
       }) {
    Trial trial("n_q=1 n_kv=1");
    trial.state.O(0, 0, 0) = got;
    trial.truth.O(0, 0, 0) = {truth, 0.0, 0.0};
    CAPTURE(got, truth);

    CHECK(trial.judgement() == Judgement::proved_wrong);
  }
}

TEST_CASE("an error is held against its own element and not against the largest one",
          "[numerics][quick]") {
  Trial trial("n_q=1 n_kv=3 d=1 dv=2 scale=0 V=1e6,1,1e6,2,1e6,3");
  REQUIRE(trial.judgement() == Judgement::proved_right);
  trial.state.O(0, 0, 1) *= 1.0001f; // 2e-10 of the largest output

  CHECK(trial.judgement() == Judgement::proved_wrong);
}

TEST_CASE("a kernel that writes nothing is not judged by what a right one left behind",
          "[numerics][quick]") {
  const Trial trial("n_q=3 n_kv=9 d=4");
  const kernels::Kernel& right = kernels::find_kernel("fa1", trial.problem.shape);
  kernels::Kernel idle = right;
  idle.run = [](const kernels::Arguments&, const kernels::Launch&) {};
  kernels::run(right, trial.problem);

  const auto verdict = numerics::judge(trial.problem, kernels::run(idle, trial.problem),
                                       trial.truth, trial.bounds, true);

  CHECK(verdict.judgement == Judgement::proved_wrong);
}

TEST_CASE("a comparison of nothing says that it compared nothing", "[numerics][quick]") {
  const Trial trial("n_q=0 n_kv=3 d=2");

  const auto verdict = numerics::judge(trial.problem, trial.state, trial.truth, trial.bounds, true);

  CHECK(verdict.why == "there is no output element");
  CHECK(verdict.worst.output.empty());
}

TEST_CASE("the bound holds for 10,000 seeds of one small shape, and is not far from the errors",
          "[numerics][deep]") {
  constexpr int kSeeds = 10'000;
  std::vector<double> fractions;

  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Trial trial(fmt::format("n_q=3 n_kv=21 d=6 seed={}", seed));
    const auto verdict =
        numerics::judge(trial.problem, trial.state, trial.truth, trial.bounds, true);
    CAPTURE(seed, numerics::to_string(verdict));
    REQUIRE(verdict.judgement == Judgement::proved_right);
    fractions.push_back(verdict.worst.fraction());
  }

  std::ranges::sort(fractions);
  const numerics::RatchetRow measured{
      "bound.small", fractions.back(), fractions[kSeeds / 2], kSeeds,
      "error/bound of O l LSE by the mirror; seeds 1.. of one shape"};
  numerics::note_measured(measured);
  const numerics::RatchetRow allowed = numerics::ratchet("bound.small");
  std::cout << numerics::to_csv(measured) << "\n";
  CHECK(measured.worst <= allowed.worst);
  CHECK(measured.median <= allowed.median);
  CHECK(2.0 * measured.worst >= allowed.worst); // nor has the bound become a loose one
}
