// Claims about the parts the certified truth is made of, and about its speed-ups: the exponential,
// the vector units, the threads, the second pass over long rows.
//
// The judges are MPFR for the exponential and Arb, independent of MPFI, for the whole.

#include "reference/arb_attention.hpp"
#include "reference/attention.hpp"
#include "reference/certified.hpp"
#include "reference/certified_simd.hpp"
#include "reference/recipe.hpp"
#include "reference/tests/random_problems.hpp"

#include <catch2/catch_test_macros.hpp>

#include <mpfr.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace fa1::reference;

namespace {

bool same_bits(std::span<const Enclosed> a, std::span<const Enclosed> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool same_bits(const Truth& a, const Truth& b) {
  return same_bits(a.O.elements(), b.O.elements()) && same_bits(a.l, b.l) && same_bits(a.m, b.m) &&
         same_bits(a.LSE, b.LSE) && a.method == b.method;
}

constexpr slong kExpBits = 128;

/// exp(hi + lo) from MPFR, and how far a value is from it, relative.
class MpfrExp {
public:
  MpfrExp() { mpfr_inits2(kExpBits, exact_, got_, static_cast<mpfr_ptr>(nullptr)); }
  ~MpfrExp() { mpfr_clears(exact_, got_, static_cast<mpfr_ptr>(nullptr)); }
  MpfrExp(const MpfrExp&) = delete;
  MpfrExp& operator=(const MpfrExp&) = delete;

  double error(double hi, double lo, double w, double w_lo) {
    mpfr_set_d(exact_, hi, MPFR_RNDN);
    mpfr_add_d(exact_, exact_, lo, MPFR_RNDN);
    mpfr_exp(exact_, exact_, MPFR_RNDN);
    mpfr_set_d(got_, w, MPFR_RNDN);
    mpfr_add_d(got_, got_, w_lo, MPFR_RNDN);
    mpfr_sub(got_, got_, exact_, MPFR_RNDN);
    mpfr_div(got_, got_, exact_, MPFR_RNDN);
    return std::fabs(mpfr_get_d(got_, MPFR_RNDN));
  }

private:
  mpfr_t exact_, got_;
};

/// The same from Arb, five times faster, with Arb's own radius added.
class ArbExp {
public:
  double error(double hi, double lo, double w, double w_lo) {
    arb_set_d(exact_, hi);
    arb_set_d(part_, lo);
    arb_add(exact_, exact_, part_, kExpBits);
    arb_exp(exact_, exact_, kExpBits);
    for (const double minus : {w, w_lo}) {
      arb_set_d(part_, minus);
      arb_sub(exact_, exact_, part_, kExpBits);
    }
    return (std::fabs(arf_get_d(arb_midref(arb_ptr(exact_)), ARF_RND_UP)) +
            mag_get_d(arb_radref(arb_ptr(exact_)))) /
           w * (1.0 + 0x1p-50);
  }

private:
  Ball exact_, part_;
};

/// Gathers arguments of the exponential, and holds the answers against a referee.
template <class Referee> class ExponentialJudge {
public:
  void ask(double hi, double lo) {
    hi_[waiting_] = hi;
    lo_[waiting_] = lo;
    if (++waiting_ == hi_.size())
      judge();
  }

  /// Answers what still waits.
  void finish() {
    while (waiting_ != 0)
      ask(-1.0, 0.0);
  }

  double worst() const { return worst_; } ///< largest error over what is claimed
  std::int64_t asked() const { return asked_; }

private:
  void judge() {
    auto w = hi_, w_lo = lo_;
    simd::best_unit().kernels.exponentials(simd::exp_table(), static_cast<std::int64_t>(w.size()),
                                           w.data(), w_lo.data());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double claimed = simd::kExpBase * (1.0 + std::fabs(hi_[i]) * simd::kExpSlope) +
                             std::numeric_limits<double>::denorm_min() / w[i];
      const double part = referee_.error(hi_[i], lo_[i], w[i], w_lo[i]) / claimed;
      if (!(part <= worst_))
        worst_ = part;
    }
    asked_ += static_cast<std::int64_t>(w.size());
    waiting_ = 0;
  }

  std::array<double, 256> hi_{}, lo_{};
  std::size_t waiting_ = 0;
  double worst_ = 0.0;
  std::int64_t asked_ = 0;
  Referee referee_;
};

/// Arguments spread evenly, with any low part.
template <class Referee>
void ask_evenly(ExponentialJudge<Referee>& judge, std::int64_t count, double lowest,
                std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto unit = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  for (std::int64_t i = 0; i < count; ++i) {
    const double hi = lowest * unit();
    judge.ask(hi, (unit() - 0.5) * 0x1p-52 * std::fabs(hi) * 0.5);
  }
}

template <class Referee> void check_evenly(std::int64_t count, std::uint64_t seed) {
  ExponentialJudge<Referee> judge;
  ask_evenly(judge, count, -110.0, seed);
  judge.finish();

  CHECK(judge.asked() >= count);
  CHECK(judge.worst() <= 1.0);
}

/// Around every change of the table's index k: x = -(k + 1/2) ln2 / 512, and at every k ln2 / 512.
template <class Referee> void ask_at_breakpoints(ExponentialJudge<Referee>& judge, double lowest) {
  const double half_step = 0x1.62e42fefa39efp-1 / (2.0 * simd::kSteps);
  for (std::int64_t k = 0;; ++k) {
    const double x = -half_step * static_cast<double>(k);
    if (x < lowest)
      return;
    const double below = std::nextafter(x, -1e9), above = std::nextafter(x, 0.0);
    judge.ask(x, 0.0);
    judge.ask(below, (x - below) * 0.5);
    judge.ask(above, (x - above) * 0.5);
  }
}

constexpr slong kArbBits = 600; ///< scores of 1e30 and more leave 400 after the exponential

/// Is |hi + lo - exact| certainly at most the radius?
bool arb_encloses(const Enclosed& truth, arb_srcptr exact) {
  Ball distance, part, radius;
  arb_set_d(part, truth.hi);
  arb_sub(distance, exact, part, kArbBits);
  arb_set_d(part, truth.lo);
  arb_sub(distance, distance, part, kArbBits);
  arb_abs(distance, distance);
  arb_set_d(radius, truth.radius);
  return arb_le(distance, radius) != 0;
}

/// Every element of O, l and LSE against the definition in Arb; returns how many of O.
std::int64_t compare_with_arb(const Problem& problem, const Truth& truth) {
  const BallAnswer exact = arb_attention(problem, kArbBits);
  for (std::size_t row = 0; row < truth.l.size(); ++row) {
    REQUIRE(arb_encloses(truth.l[row], exact.l[static_cast<std::int64_t>(row)]));
    REQUIRE(arb_encloses(truth.LSE[row], exact.LSE[static_cast<std::int64_t>(row)]));
  }
  const auto O = truth.O.elements();
  for (std::size_t at = 0; at < O.size(); ++at)
    REQUIRE(arb_encloses(O[at], exact.O[static_cast<std::int64_t>(at)]));
  return truth.O.size();
}

std::int64_t compare_with_arb(std::uint64_t first, std::uint64_t count) {
  std::int64_t compared = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_recipe(seed);
    CAPTURE(text);
    const Problem problem = make_problem(parse_recipe(text));
    compared += compare_with_arb(problem, certify(problem));
  }
  return compared;
}

} // namespace

TEST_CASE("the exponential keeps its claimed error at every breakpoint of [-110, 0]",
          "[reference][quick]") {
  ExponentialJudge<MpfrExp> judge;

  ask_at_breakpoints(judge, -110.0);
  judge.finish();

  CHECK(judge.asked() >= 3 * 2 * 81252);
  CHECK(judge.worst() <= 1.0);
}

TEST_CASE("the exponential keeps its claimed error for tiny arguments and at the ends",
          "[reference][quick]") {
  ExponentialJudge<MpfrExp> judge;

  for (int exponent = -440; exponent <= 9; ++exponent)
    for (const double factor : {1.0, 1.0 + 0x1p-52, 1.25, 1.36}) {
      const double x = -std::ldexp(factor, exponent);
      judge.ask(x, 0.0);
      judge.ask(x, x * 0x1p-54);
      judge.ask(x, -x * 0x1p-54);
    }
  judge.ask(0.0, 0.0);
  judge.ask(simd::kLowestArgument, 0.0);
  ask_evenly(judge, 100'000, simd::kLowestArgument, 1);
  judge.finish();

  CHECK(judge.worst() <= 1.0);
}

TEST_CASE("the exponential keeps its claimed error at every breakpoint, says MPFR",
          "[reference][deep]") {
  ExponentialJudge<MpfrExp> judge;

  ask_at_breakpoints(judge, simd::kLowestArgument);
  judge.finish();

  CHECK(judge.asked() >= 3 * 2 * 517062);
  CHECK(judge.worst() <= 1.0);
}

TEST_CASE("the exponential keeps its claimed error for 10^6 arguments, says MPFR",
          "[reference][deep]") {
  check_evenly<MpfrExp>(1'000'000, 2);
}

TEST_CASE("the exponential keeps its claimed error for 2*10^7 arguments, says MPFR",
          "[reference][long]") {
  check_evenly<MpfrExp>(20'000'000, 2);
}

TEST_CASE("the exponential keeps its claimed error for 10^7 arguments, says Arb",
          "[reference][deep]") {
  check_evenly<ArbExp>(10'000'000, 3);
}

TEST_CASE("the exponential keeps its claimed error for 10^8 arguments, says Arb",
          "[reference][long]") {
  check_evenly<ArbExp>(100'000'000, 3);
}

TEST_CASE("no weight is made below the lowest argument", "[reference][quick]") {
  std::array<double, simd::kGroup> hi, lo{};
  hi.fill(std::nextafter(simd::kLowestArgument, -1e9));
  hi[1] = -std::numeric_limits<double>::infinity();

  simd::best_unit().kernels.exponentials(simd::exp_table(), simd::kGroup, hi.data(), lo.data());

  CHECK(std::ranges::count(hi, 0.0) == simd::kGroup);
  CHECK(std::ranges::count(lo, 0.0) == simd::kGroup);
}

TEST_CASE("every vector unit gives the same bits", "[reference][quick]") {
  const std::vector<simd::Unit> units = simd::all_units();
  std::vector<std::string> texts{
      "bh=2 n_q=5 n_kv=200 d=64",    "n_q=3 n_kv=63 d=1 dv=1",
      "n_q=3 n_kv=65 d=3 dv=17",     "n_q=2 n_kv=130 d=5 put=K:3,1:inf;V:2,0:nan",
      "scores=-inf,2,-inf,nan V=1*", "n_q=33 n_kv=300 d=2 dist=ints",
      "n_q=2 n_kv=40 d=3 sigma=1e20"};
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    texts.push_back(random_recipe(seed));

  for (const std::string& text : texts) {
    CAPTURE(text);
    const Problem problem = make_problem(parse_recipe(text));
    for (const bool given : {false, true}) {
      const Truth best = simd::certify_on(simd::best_unit(), problem, given, 1);
      for (const simd::Unit& unit : units) {
        CAPTURE(unit.name);
        REQUIRE(same_bits(simd::certify_on(unit, problem, given, 1), best));
      }
    }
  }
  CHECK(units.size() >= 2); // the scalar one and a vector one
}

TEST_CASE("scores kept and scores computed twice give the same bits", "[reference][quick]") {
  const Problem problem = make_problem(parse_recipe("n_q=32 n_kv=20000 d=2"));

  const Truth twice = certify(problem, 1); // 32 rows of 20000 scores are too many to keep
  const Truth kept = certify(problem, 8);  // 4 rows are not

  CHECK(same_bits(twice, kept));
}

TEST_CASE("given scores: the answer is the softmax of the fp32 scores", "[reference][quick]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = random_recipe(seed);
    CAPTURE(text);
    const Problem problem = make_problem(parse_recipe(text));
    const Shape& shape = problem.shape;

    const Truth truth = certify_scores(problem);

    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      Problem single{{1, 1, shape.n_kv, 1, shape.dv},
                     1.0f,
                     Tensor<float>(1, 1, 1),
                     Tensor<float>(1, shape.n_kv, 1),
                     problem.V};
      single.Q(0, 0, 0) = 1.0f;
      bool finite = true, spoilt = false;
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        float dot = 0.0f;
        for (std::int64_t i = 0; i < shape.d; ++i)
          dot += problem.Q(0, r, i) * problem.K(0, j, i);
        single.K(0, j, 0) = dot * problem.scale;
        finite = finite && std::isfinite(single.K(0, j, 0));
        spoilt = spoilt || !(single.K(0, j, 0) < std::numeric_limits<float>::infinity());
      }
      if (!finite) {
        CHECK((!spoilt || std::isnan(truth.O(0, r, 0).hi)));
        continue;
      }
      Truth alone = certify_scores(single);
      CHECK(same_bits(truth.O.row(0, r), alone.O.row(0, 0)));
      CHECK(truth.m[static_cast<std::size_t>(r)].radius == 0.0);
      compare_with_arb(single, alone);
    }
  }
}

TEST_CASE("Arb finds the exact answer within the radius", "[reference][quick]") {
  CHECK(compare_with_arb(1, 300) >= 300);
}

TEST_CASE("Arb finds the exact answer within the radius, at length", "[reference][deep]") {
  CHECK(compare_with_arb(1'000'000, 100'000) >= 100'000);
}
