// The comparer's own truth table: whatever stands beside whatever, in both orders.
#include "numerics/verdict.hpp"

#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

using namespace fa1;
using numerics::Judgement;
using reference::Problem;
using reference::State;
using reference::Truth;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

/// One output element whose truth is `truth`, with a bound of one ulp and conditions that hold.
Judgement judge_pair(float got, double truth, const char* obstacle = "") {
  const Problem problem = reference::make_problem(reference::parse_recipe("n_q=1 n_kv=1"));
  State state = reference::start_state(problem.shape);
  Truth exact = reference::certify(problem);
  numerics::Bounds bounds = numerics::online_softmax(problem, {});
  state.O(0, 0, 0) = got;
  exact.O(0, 0, 0) = {truth, 0.0, 0.0};
  bounds.O(0, 0, 0) = std::isfinite(truth) ? 0x1p-23 * std::fabs(truth) + 0x1p-149 : 0.0;
  bounds.expected(0, 0, 0) = bounds.O(0, 0, 0);
  bounds.obstacle = obstacle;
  return numerics::judge(problem, state, exact, bounds, false).judgement;
}

/// The exact answer rounded to fp32: what an ideal kernel would give.
State ideal(const Problem& problem, const Truth& truth) {
  State state = reference::start_state(problem.shape);
  for (std::size_t e = 0; e < state.O.elements().size(); ++e)
    state.O.elements()[e] = static_cast<float>(truth.O.elements()[e].hi);
  for (std::size_t i = 0; i < state.l.size(); ++i) {
    state.l[i] = static_cast<float>(truth.l[i].hi);
    state.m[i] = static_cast<float>(truth.m[i].hi);
  }
  return state;
}

struct Judged {
  Problem problem =
      reference::make_problem(reference::parse_recipe("bh=2 n_q=5 n_kv=40 d=16 dv=8 seed=3"));
  Truth truth = reference::certify(problem);
  numerics::Bounds bounds = numerics::online_softmax(problem, {.Bc = 8});
  State state = ideal(problem, truth);

  Judgement verdict(bool l_too = false) const {
    return numerics::judge(problem, state, truth, bounds, l_too).judgement;
  }
};

} // namespace

TEST_CASE("every pair of kinds of values is judged as the table says, in both orders",
          "[numerics][quick]") {
  // r right, w wrong, u undecided. Sign and payload of NaN and the sign of zero do not count.
  constexpr std::size_t kKinds = 9;
  constexpr float kSubnormal = 0x1p-130f;
  constexpr std::array<float, kKinds> kinds{1.0f, kNaN,  -kNaN,      kInfinity, -kInfinity,
                                            0.0f, -0.0f, kSubnormal, kMax};
  struct Table {
    const char* obstacle;
    std::array<std::string_view, kKinds> got; ///< rows: what was got; columns: the truth
  };
  const auto table = GENERATE(values<Table>({
      //    1 N n + - 0 z s M
      {"",
       {"rwwwwwwww", //  1
        "wrrwwwwww", //  NaN
        "wrrwwwwww", // -NaN
        "wwwrwwwww", // +Inf
        "wwwwrwwww", // -Inf
        "wwwwwrrww", // +0
        "wwwwwrrww", // -0
        "wwwwwwwrw", //  subnormal
        "wwwwwwwwr"}},
      {"some condition of the bound",
       {"rwwwwuuuu", //  1
        "urrwwuuuu", //  NaN
        "urrwwuuuu", // -NaN
        "uwwrwuuuu", // +Inf
        "uwwwruuuu", // -Inf
        "uwwwwrruu", // +0
        "uwwwwrruu", // -0
        "uwwwwuuru", //  subnormal
        "uwwwwuuur"}},
  }));

  for (std::size_t got = 0; got < kKinds; ++got)
    for (std::size_t truth = 0; truth < kKinds; ++truth) {
      CAPTURE(kinds[got], kinds[truth], table.obstacle);
      const Judgement right = table.got[got][truth] == 'r'   ? Judgement::proved_right
                              : table.got[got][truth] == 'w' ? Judgement::proved_wrong
                                                             : Judgement::undecided;
      CHECK(judge_pair(kinds[got], double{kinds[truth]}, table.obstacle) == right);
    }
}

TEST_CASE("one bound away is right and beyond it is wrong", "[numerics][quick]") {
  CHECK(judge_pair(0x1.000002p0f, 1.0) == Judgement::proved_right);
  CHECK(judge_pair(0x1.000006p0f, 1.0) == Judgement::proved_wrong);
  CHECK(judge_pair(kTiny, 0.0) == Judgement::proved_right);
  CHECK(judge_pair(3 * kTiny, 0.0) == Judgement::proved_wrong);
}

TEST_CASE("the ideal output is proved right, with l and LSE", "[numerics][quick]") {
  CHECK(Judged{}.verdict(true) == Judgement::proved_right);
}

TEST_CASE("zeros, NaN, swapped rows, the mean of V and one element 64 bounds off are proved wrong",
          "[numerics][quick]") {
  Judged j;
  auto& O = j.state.O;

  SECTION("zeros") { std::ranges::fill(O.elements(), 0.0f); }
  SECTION("all NaN") { std::ranges::fill(O.elements(), kNaN); }
  SECTION("one NaN") { O(1, 2, 3) = kNaN; }
  SECTION("swapped rows") {
    std::swap_ranges(O.row(0, 0).begin(), O.row(0, 0).end(), O.row(0, 1).begin());
  }
  SECTION("swapped batch-heads") {
    std::swap_ranges(O.row(0, 0).begin(), O.row(0, 0).end(), O.row(1, 0).begin());
  }
  SECTION("mean of V") {
    for (std::int64_t column = 0; column < 8; ++column) {
      float sum = 0.0f;
      for (std::int64_t key = 0; key < 40; ++key)
        sum += j.problem.V(0, key, column);
      for (std::int64_t row = 0; row < 5; ++row)
        O(0, row, column) = sum / 40.0f;
    }
  }
  SECTION("one element 64 bounds off") {
    O(0, 4, 7) = static_cast<float>(j.truth.O(0, 4, 7).hi + 64.0 * j.bounds.O(0, 4, 7));
  }

  CHECK(j.verdict() == Judgement::proved_wrong);
}

TEST_CASE("each element of O has a judgement of its own", "[numerics][quick]") {
  Judged j;
  j.state.O(1, 3, 2) = static_cast<float>(j.truth.O(1, 3, 2).hi + 3.0 * j.bounds.O(1, 3, 2));

  const auto each = numerics::judge_each_O(j.state, j.truth, j.bounds);

  CHECK(each(1, 3, 2) == Judgement::proved_wrong);
  CHECK(std::ranges::count(each.elements(), Judgement::proved_right) == each.size() - 1);
}

TEST_CASE("a trial offers nothing where nothing is known to be wrong", "[numerics][quick]") {
  const char* recipe = GENERATE("n_q=1 scores=0,-inf,1 V=1,2,3", "n_q=0 n_kv=3", "n_kv=0 n_q=2");
  const Problem problem = reference::make_problem(reference::parse_recipe(recipe));
  const Truth truth = reference::certify(problem);

  const auto trial = numerics::verify_judge(problem, truth, numerics::online_softmax(problem, {}));

  CAPTURE(recipe);
  CHECK(trial.missed.empty());
  for (const std::string& offer : trial.seen)
    CHECK((offer == "the truth rounded to fp32" || problem.shape.n_kv == 0));
}

TEST_CASE("the worst element is the one that decides", "[numerics][quick]") {
  Judged j;
  j.state.O(1, 3, 2) = static_cast<float>(j.truth.O(1, 3, 2).hi + 3.0 * j.bounds.O(1, 3, 2));

  const auto verdict = numerics::judge(j.problem, j.state, j.truth, j.bounds, true);

  CHECK(verdict.worst.output == "O");
  CHECK(verdict.worst.batch_head == 1);
  CHECK(verdict.worst.row == 3);
  CHECK(verdict.worst.column == 2);
  CHECK(verdict.worst.fraction() > 1.0);
}

TEST_CASE("an error inside the bound but far outside the expectation is suspicious",
          "[numerics][quick]") {
  // 4096 roundings: the bound counts them all, the expectation their square root.
  const Problem problem =
      reference::make_problem(reference::parse_recipe("n_q=1 n_kv=4096 d=4 dv=1 v=positive"));
  const Truth truth = reference::certify(problem);
  const numerics::Bounds bounds = numerics::online_softmax(problem, {.Bc = 4096});
  State state = ideal(problem, truth);
  const double off = bounds.O(0, 0, 0) / 2.0;
  REQUIRE(off > numerics::kLambda * bounds.expected(0, 0, 0));
  state.O(0, 0, 0) = static_cast<float>(truth.O(0, 0, 0).hi + off);

  CHECK(numerics::judge(problem, state, truth, bounds, true).judgement == Judgement::suspicious);
}

TEST_CASE("a wrong l is proved wrong although O is right", "[numerics][quick]") {
  Judged j;
  j.state.l[3] *= 1.001f;

  CHECK(j.verdict(true) == Judgement::proved_wrong);
  CHECK(j.verdict(false) == Judgement::proved_right);
}

TEST_CASE("a radius too wide to tell leaves the question undecided", "[numerics][quick]") {
  Judged j;
  for (auto& element : j.truth.O.elements())
    element.radius = 1.0;

  CHECK(j.verdict() == Judgement::undecided);
}

TEST_CASE("scores that carry no digit and inputs outside the conditions are undecided",
          "[numerics][quick]") {
  const char* recipe = GENERATE("n_q=2 n_kv=9 d=4 sigma=1e9", "n_q=1 scores=0,-inf,1 V=1,2,3");
  const Problem problem = reference::make_problem(reference::parse_recipe(recipe));
  const Truth truth = reference::certify(problem);
  State state = ideal(problem, truth);
  for (float& x : state.O.elements())
    x = std::nextafterf(x, kInfinity);

  const auto verdict =
      numerics::judge(problem, state, truth, numerics::online_softmax(problem, {}), false);

  CAPTURE(numerics::to_string(verdict));
  CHECK(verdict.judgement == Judgement::undecided);
}

TEST_CASE("no key at all is judged exactly: O = 0, l = 0, LSE = -Inf", "[numerics][quick]") {
  const Problem problem = reference::make_problem(reference::parse_recipe("n_q=2 n_kv=0 d=3"));
  const Truth truth = reference::certify(problem);
  State state = reference::start_state(problem.shape);
  const numerics::Bounds bounds = numerics::online_softmax(problem, {});

  const auto verdict = numerics::judge(problem, state, truth, bounds, true);
  CHECK(verdict.judgement == Judgement::proved_right);
  CHECK(verdict.worst.fraction() == 0.0);
  state.O(0, 1, 2) = kNaN; // an old output that nobody overwrote
  CHECK(numerics::judge(problem, state, truth, bounds, true).judgement == Judgement::proved_wrong);
}

TEST_CASE("scores that overflow leave l undecided and not wrong", "[numerics][quick]") {
  const Problem problem = reference::make_problem(
      reference::parse_recipe("n_q=1 n_kv=2 d=2 scale=1 Q=2e38* K=2,2,1,1 V=1*"));
  const Truth truth = reference::certify(problem);
  State state = ideal(problem, truth); // m is not the exact maximum: it does not fit into fp32
  state.l[0] = 1.0f;

  const auto verdict =
      numerics::judge(problem, state, truth, numerics::online_softmax(problem, {}), true);

  CAPTURE(numerics::to_string(verdict));
  CHECK(verdict.judgement != Judgement::proved_wrong);
}
