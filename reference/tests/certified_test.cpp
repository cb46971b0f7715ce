// Claims about the certified truth: the exact answer lies within the radius, whatever the inputs,
// and the radius is small.
//
// The judge is the definition in MPFI intervals, which share no line with certified.cpp beyond
// problem.hpp and are narrower than the radius by construction (checked). Each sweep counts what it
// compared.

#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tests/enclosure.hpp"
#include "reference/tests/random_problems.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace fa1::reference;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Problem problem_of(const std::string& text) { return make_problem(parse_recipe(text)); }

/// The truth from keys that come in chunks of 1, 2, ... `widest` and again.
Truth certify_in_chunks(const Problem& problem, std::int64_t widest) {
  Certifier certifier(problem.shape);
  std::int64_t width = 1;
  for (std::int64_t key = 0; key < problem.shape.n_kv; width = width % widest + 1) {
    const std::int64_t count = std::min(width, problem.shape.n_kv - key);
    certifier.absorb(slice_keys(problem, key, count));
    key += count;
  }
  return certifier.truth();
}

/// Every element of the truth against the intervals; returns how many were compared.
template <unsigned Digits> std::int64_t compare(const Problem& problem, const Truth& truth) {
  const Answer<Interval<Digits>> exact = attention<Interval<Digits>>(problem);

  std::int64_t compared = 0;
  const auto agree = [&](const Enclosed& element, const Interval<Digits>& interval) {
    REQUIRE(sharp(interval, element));
    REQUIRE(encloses(element, interval));
    ++compared;
  };
  for (std::size_t e = 0; e < truth.O.elements().size(); ++e)
    agree(truth.O.elements()[e], exact.O.elements()[e]);
  for (std::size_t row = 0; row < truth.l.size(); ++row) {
    agree(truth.l[row], exact.l[row]);
    agree(truth.LSE[row], exact.LSE[row]);
    // m can be exact with radius 0 (all scores 0), where no interval is narrower.
    REQUIRE(encloses(truth.m[row], exact.m[row]));
  }
  return compared;
}

template <unsigned Digits> std::int64_t compare(const Problem& problem) {
  return compare<Digits>(problem, certify(problem));
}

/// Problems of every kind, in chunks of every size up to the whole; returns how many elements.
std::int64_t compare_random_chunks(std::uint64_t first, std::uint64_t count) {
  std::int64_t compared = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_recipe(seed);
    CAPTURE(text);
    const Problem problem = problem_of(text);
    const auto widest = 1 + static_cast<std::int64_t>(seed) % problem.shape.n_kv;
    compared += compare<120>(problem, certify_in_chunks(problem, widest));
  }
  return compared;
}

/// Problems of every kind, certified and judged; returns how many elements.
std::int64_t compare_random(std::uint64_t first, std::uint64_t count) {
  std::int64_t compared = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_recipe(seed);
    CAPTURE(text);
    compared += compare<120>(problem_of(text)); // 400 bits, as scores of 1e30 use up 100
  }
  return compared;
}

bool same_bits(std::span<const Enclosed> a, std::span<const Enclosed> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool same_bits(const Truth& a, const Truth& b) {
  return same_bits(a.O.elements(), b.O.elements()) && same_bits(a.l, b.l) && same_bits(a.m, b.m) &&
         same_bits(a.LSE, b.LSE) && a.method == b.method;
}

/// The same with |V|: its O is sum p|v|.
Problem moduli_of(const Problem& problem) {
  Problem moduli = problem;
  for (float& v : moduli.V.elements())
    v = std::fabs(v);
  return moduli;
}

const std::array<const char*, 7> kDists{"normal", "uniform",   "outliers", "pow2",
                                        "ints",   "subnormal", "zero"};
const std::array<const char*, 12> kValues{"normal",      "uniform",   "outliers", "pow2",
                                          "ints",        "subnormal", "zero",     "positive",
                                          "alternating", "index",     "index1",   "constant:-0.3"};

} // namespace

TEST_CASE("the exact answer is within the radius for every family and scale",
          "[reference][quick]") {
  std::int64_t compared = 0;
  std::size_t turn = 0;
  for (const char* dist : kDists)
    for (const char* sigma : {"1e-30", "1e-10", "1e-4", "0.1", "1", "10", "100", "1e4", "1e6",
                              "1e10", "1e15", "1e20", "1e30"})
      for (const char* order : {"free", "ascending", "descending", "tied", "dominant"}) {
        const std::string text = "n_q=2 n_kv=19 d=5 dv=3 dist=" + std::string(dist) +
                                 " sigma=" + sigma + " order=" + order +
                                 " v=" + kValues[turn++ % kValues.size()];
        CAPTURE(text);
        compared += compare<120>(problem_of(text));
      }
  CHECK(compared == 7 * 13 * 5 * (2 * 3 + 4));
}

TEST_CASE("the exact answer is within the radius for every family and scale, at length",
          "[reference][deep]") {
  std::int64_t compared = 0;
  for (const char* dist : kDists)
    for (const char* v : kValues)
      for (int exponent = -30; exponent <= 30; exponent += 2) {
        const std::string text = "bh=2 n_q=3 n_kv=" + std::to_string(70 + exponent) +
                                 " d=7 dv=5 dist=" + dist + " v=" + v + " sigma=1e" +
                                 std::to_string(exponent) +
                                 " seed=" + std::to_string(100 + exponent);
        CAPTURE(text);
        compared += compare<120>(problem_of(text));
      }
  CHECK(compared == 7 * 12 * 31 * (2 * 3 * 5 + 2 * 2 * 3));
}

TEST_CASE("the exact answer is within the radius for random problems", "[reference][quick]") {
  CHECK(compare_random(1, 500) > 500);
}

TEST_CASE("the exact answer is within the radius for 20,000 random problems", "[reference][deep]") {
  CHECK(compare_random(2'000'000, 20'000) > 20'000);
}

TEST_CASE("the exact answer is within the radius for 100,000 random problems",
          "[reference][long]") {
  CHECK(compare_random(2'000'000, 100'000) > 100'000);
}

TEST_CASE("the exact answer is within the radius when the keys come in chunks",
          "[reference][quick]") {
  CHECK(compare_random_chunks(3'000'000, 500) > 500);
}

TEST_CASE("the exact answer is within the radius when the keys come in chunks, at length",
          "[reference][deep]") {
  CHECK(compare_random_chunks(4'000'000, 20'000) > 20'000);
}

TEST_CASE("one chunk gives the bits of certify, and chunks keep the radius small",
          "[reference][quick]") {
  const Problem problem = problem_of("bh=2 n_q=5 n_kv=1000 d=16");
  const Truth whole = certify(problem);
  const Truth sizes = certify(moduli_of(problem));

  const Truth one = certify_in_chunks(problem, 1000);
  Certifier at_once(problem.shape);
  at_once.absorb(problem);
  const Truth many = certify_in_chunks(problem, 30);

  CHECK(same_bits(at_once.truth(), whole));
  CHECK(!same_bits(one, whole));
  for (std::size_t e = 0; e < many.O.elements().size(); ++e)
    CHECK(many.O.elements()[e].radius <= 0x1p-85 * sizes.O.elements()[e].hi);
}

TEST_CASE("special values mean the same in chunks as at once", "[reference][quick]") {
  for (const char* text :
       {"n_q=3 n_kv=9 d=2 put=K:4,0:nan", "n_q=3 n_kv=9 d=2 put=K:7,0:inf",
        "n_q=3 n_kv=9 d=2 put=Q:1,0:nan", "n_q=2 n_kv=9 d=2 put=V:5,0:inf;V:8,1:nan",
        "n_q=2 n_kv=9 d=2 put=V:1,0:inf;V:8,0:-inf", "scores=-inf,-inf,-inf,2,-inf,1 V=1,2,3,4,5,6",
        "scores=-inf,-inf,-inf,-inf V=1*", "scores=1,2,inf,3,nan V=1*", "n_q=2 n_kv=0 d=3",
        "scores=1,-inf,2,0 V=1,inf,2,3", "n_q=2 n_kv=9 d=2 sigma=1e20 put=K:4,0:nan"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const Truth whole = certify(problem);
    const Truth chunks = certify_in_chunks(problem, 3);

    for (std::size_t e = 0; e < whole.O.elements().size(); ++e) {
      const Enclosed &a = whole.O.elements()[e], &b = chunks.O.elements()[e];
      CHECK((std::isfinite(a.hi) ? std::isfinite(b.hi)
             : std::isnan(a.hi)  ? std::isnan(b.hi)
                                 : a.hi == b.hi));
    }
    for (std::size_t row = 0; row < whole.m.size(); ++row) {
      CHECK(chunks.m[row].hi == whole.m[row].hi);
      CHECK(std::isnan(chunks.l[row].hi) == std::isnan(whole.l[row].hi));
      CHECK(std::isnan(chunks.LSE[row].hi) == std::isnan(whole.LSE[row].hi));
    }
  }
}

TEST_CASE("the exact answer is within the radius up to FLT_MAX and down to subnormals",
          "[reference][quick]") {
  // @ stands for FLT_MAX.
  for (const char* text : {
           // products of 2^256, scaled to 2^384, of both signs, and ties that only exact sums see
           "n_q=2 n_kv=3 d=2 dv=1 scale=@ Q=@* K=@,-@,1,0,-@,@ V=1,2,3",
           "n_kv=3 d=3 dv=1 scale=1 Q=@,1,-@ K=1,0.5,1,1,-0.5,1,1,88,1 V=@,-@,@",
           "n_kv=2 d=2 dv=1 scale=0x1p-149 Q=@,0x1p-149 K=@,1,1,@ V=0x1p-149,-0x1p-148",
           "n_kv=4 d=1 dv=2 scale=0x1p-149 Q=0x1p-149 K=0x1p-149* V=0x1p-149*",
           "n_kv=4 d=1 dv=1 scale=-@ Q=0x1p-149 K=1,2,4e21,-4e21 V=1,2,3,4",
           "scores=0,-0,0x1p-149,-0x1p-149 V=@*",
           // scores 1 + 2^-60 and 1 - 2^-60, the same double: the maximum must see the rest
           "n_kv=2 d=2 scale=1 Q=1,0x1p-30 K=1,0x1p-30,1,-0x1p-30",
           "n_kv=2 d=2 scale=1 Q=1,0x1p-30 K=1,-0x1p-30,1,0x1p-30",
           "n_q=2 n_kv=5 d=4 scale=0",
           "n_q=2 n_kv=5 d=0 dv=3",
       }) {
    std::string recipe;
    for (const char* c = text; *c != '\0'; ++c)
      recipe += *c == '@' ? "0x1.fffffep127" : std::string(1, *c);
    CAPTURE(recipe);
    CHECK(compare<320>(problem_of(recipe)) > 0);
  }
}

TEST_CASE("every weight down to exp(-530) keeps its relative accuracy", "[reference][quick]") {
  // O = w / (1 + w): a relative error of w shows undiluted, and the radius must stay relative too.
  for (int i = 0; i < 3000; ++i) {
    const float gap = -0.27f * static_cast<float>(i);
    Problem problem = problem_of("scores=0,0 V=0,1");
    problem.K(0, 1, 0) = gap;
    CAPTURE(gap);

    const Truth truth = certify(problem);

    const auto exact = attention<Interval<50>>(problem);
    REQUIRE(encloses(truth.O(0, 0, 0), exact.O(0, 0, 0)));
    // (E_N + |o| E_L) / L of CERTIFIED.md, with eta = 20 u^2 |gap| and sizes below
    // (1 + |gap| / 512) w; from about -534 on the part for underflow, tiny, is the larger one.
    const double size = std::fabs(static_cast<double>(gap));
    if (gap > -530.0f)
      REQUIRE(truth.O(0, 0, 0).radius <=
              (0x1p-91 + 80.0 * 0x1p-106 * size) * (1.0 + size / 512.0) * truth.O(0, 0, 0).hi);
    else
      REQUIRE(truth.O(0, 0, 0).radius <= 0x1p-830);
  }
}

TEST_CASE("the radius stays below 2^-85 of sum p|v| for normal data", "[reference][quick]") {
  for (const char* text :
       {"n_q=4 n_kv=4096 d=64", "n_q=4 n_kv=1000 d=64 v=alternating", "n_q=4 n_kv=500 dist=zero",
        "n_q=2 n_kv=20000 d=8 v=alternating", "n_q=4 n_kv=200 d=128"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const Truth truth = certify(problem);

    const Truth sums = certify(moduli_of(problem));
    for (std::size_t e = 0; e < truth.O.elements().size(); ++e)
      REQUIRE(truth.O.elements()[e].radius <= 0x1p-85 * sums.O.elements()[e].hi);
  }
}

TEST_CASE("the radius grows with the scores and the dimension as derived", "[reference][quick]") {
  for (const char* text :
       {"n_q=4 n_kv=1000 d=64 sigma=100", "n_q=4 n_kv=64 d=256 sigma=1e4",
        "n_q=4 n_kv=500 d=16 dist=outliers v=outliers", "n_q=4 n_kv=500 d=3 sigma=1e8"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);
    double largest = 0.0;
    for (const float x : problem.Q.elements())
      largest = std::max(largest, std::fabs(static_cast<double>(x)));
    const double q = largest;
    largest = 0.0;
    for (const float x : problem.K.elements())
      largest = std::max(largest, std::fabs(static_cast<double>(x)));
    const auto d = static_cast<double>(problem.shape.d);
    const double eta =
        (2 * d * d + 10 * d + 8) * 0x1p-106 * static_cast<double>(problem.scale) * d * q * largest;

    const Truth truth = certify(problem);

    const Truth sums = certify(moduli_of(problem));
    for (std::size_t e = 0; e < truth.O.elements().size(); ++e)
      REQUIRE(truth.O.elements()[e].radius <= (0x1p-89 + 3.0 * eta) * sums.O.elements()[e].hi);
  }
}

TEST_CASE("a truth that is off by more than its radius is noticed", "[reference][quick]") {
  const Problem problem = problem_of("n_q=3 n_kv=50 d=8");
  const Truth truth = certify(problem);
  const auto exact = attention<Interval<50>>(problem);

  for (std::size_t e = 0; e < truth.O.elements().size(); ++e) {
    Enclosed moved = truth.O.elements()[e];
    moved.lo += 2.5 * moved.radius;
    CHECK(encloses(truth.O.elements()[e], exact.O.elements()[e]));
    CHECK_FALSE(encloses(moved, exact.O.elements()[e]));
  }
}

TEST_CASE("any number of threads gives the same bits", "[reference][quick]") {
  for (const char* text : {"bh=3 n_q=11 n_kv=70 d=5", "n_q=7 n_kv=40 d=3 sigma=1e20"}) {
    const Problem problem = problem_of(text);

    const Truth alone = certify(problem, 1);

    for (const unsigned threads : {0u, 2u, 5u, 64u})
      CHECK(same_bits(alone, certify(problem, threads)));
  }
}

TEST_CASE("a row does not depend on the rows beside it", "[reference][quick]") {
  const Problem problem = problem_of("n_q=9 n_kv=70 d=5 dv=6");
  const Truth truth = certify(problem);

  for (std::int64_t r = 0; r < 9; ++r) {
    Problem single = problem;
    single.shape.n_q = 1;
    single.Q = Tensor<float>(1, 1, 5);
    std::ranges::copy(problem.Q.row(0, r), single.Q.row(0, 0).begin());
    CHECK(same_bits(certify(single).O.row(0, 0), truth.O.row(0, r)));
  }
}

TEST_CASE("long rows are right where the answer is known", "[reference][quick]") {
  // All scores tie: O is the mean of 0, 1, ..., n - 1, l is n, LSE is ln n. Long enough for the
  // lean workspace.
  const std::int64_t n = (std::int64_t{1} << 18) + 3;

  const Truth truth =
      certify(problem_of("n_q=2 n_kv=" + std::to_string(n) + " dist=zero v=index"), 2);

  for (std::int64_t r = 0; r < 2; ++r) {
    const auto row = static_cast<std::size_t>(r);
    CHECK(encloses(truth.O(0, r, 0), Interval<50>(static_cast<double>(n - 1) / 2)));
    CHECK(encloses(truth.l[row], Interval<50>(static_cast<double>(n))));
    CHECK(encloses(truth.LSE[row], Interval<50>(log(Interval<50>(static_cast<double>(n))))));
  }
}

TEST_CASE("no keys give O = 0, l = 0, m = LSE = -inf; no queries give nothing",
          "[reference][quick]") {
  const Truth no_keys = certify(problem_of("bh=2 n_q=3 n_kv=0 d=4"));

  for (const Enclosed& o : no_keys.O.elements())
    CHECK(is_exactly(o, 0.0));
  for (std::size_t row = 0; row < 6; ++row) {
    CHECK(is_exactly(no_keys.l[row], 0.0));
    CHECK(is_exactly(no_keys.m[row], -kInf));
    CHECK(is_exactly(no_keys.LSE[row], -kInf));
  }
  for (const char* text : {"n_q=0 n_kv=3 d=4", "bh=0 n_q=2 n_kv=3 d=4"}) {
    const Truth nothing = certify(problem_of(text), 4);
    CHECK(nothing.O.size() == 0);
    CHECK(nothing.l.empty());
  }
}

TEST_CASE("NaN and infinity in the inputs follow the contract", "[reference][quick]") {
  struct Row {
    const char* text;
    double o, m;
    bool l_is_nan;
  };
  const double decided = 1.5; // stands for "finite, within its radius"
  for (const Row& row : {
           Row{"scores=0,1 put=Q:0,0:nan", kNaN, -kInf, true},
           Row{"scores=0,nan,1", kNaN, 1.0, true},
           Row{"scores=0,inf", kNaN, kInf, true},
           Row{"scores=inf,inf", kNaN, kInf, true},
           Row{"scores=-inf,-inf", kNaN, -kInf, true},
           Row{"scores=nan,-inf", kNaN, -kInf, true},
           Row{"scores=-inf,2,-inf", decided, 2.0, false},
           Row{"n_kv=2 d=2 scale=1 Q=1,0 K=1,inf,2,0", kNaN, 2.0, true},   // 0 * inf
           Row{"n_kv=2 d=2 scale=1 Q=1* K=inf,-inf,2,0", kNaN, 2.0, true}, // inf - inf
           Row{"n_kv=2 scale=0 Q=1 K=inf,0", kNaN, 0.0, true},
           Row{"n_kv=2 scale=1 Q=inf K=-1,-2", kNaN, -kInf, true},
           Row{"scores=0,1 put=V:0,0:nan", kNaN, 1.0, false},
           Row{"scores=-inf,1 put=V:0,0:nan", kNaN, 1.0, false},
           Row{"scores=0,1 put=V:0,0:inf", kInf, 1.0, false},
           Row{"scores=-2000,1 put=V:0,0:-inf", -kInf, 1.0, false}, // the weight is > 0, exactly
           Row{"scores=-inf,1 put=V:0,0:inf", kNaN, 1.0, false},    // the weight is 0
           Row{"scores=0,1 put=V:0,0:inf;V:1,0:-inf", kNaN, 1.0, false},
           Row{"scores=0,1,2 put=V:0,0:inf;V:2,0:inf", kInf, 2.0, false},
           Row{"scores=1e30,0 put=V:1,0:inf", kInf, 1e30, false}, // and in the exact path
           Row{"scores=1e30,nan", kNaN, 1e30, true},
           Row{"scores=1e30,-inf V=1.5,3", decided, 1e30, false},
       }) {
    CAPTURE(row.text);

    const Truth truth = certify(problem_of(row.text));

    const Enclosed& o = truth.O(0, 0, 0);
    if (row.o == decided)
      CHECK((std::isfinite(o.hi) && o.radius > 0.0));
    else
      CHECK(is_exactly(o, row.o));
    const auto m = static_cast<double>(static_cast<float>(row.m)); // 1e30 is no float
    CHECK((truth.m[0].hi == m || std::fabs(truth.m[0].hi - m) <= truth.m[0].radius));
    CHECK(std::isnan(truth.l[0].hi) == row.l_is_nan);
    CHECK(std::isnan(truth.LSE[0].hi) == row.l_is_nan);
  }
}

TEST_CASE("a special value stays in its row, its column and its batch-head", "[reference][quick]") {
  const std::string clean = "bh=2 n_q=3 n_kv=9 d=2 dv=6 seed=4";
  const Truth plain = certify(problem_of(clean));

  const Truth query = certify(problem_of(clean + " put=Q:1,0:nan"));
  const Truth value = certify(problem_of(clean + " put=V:4,3:inf"));
  Problem one_head = problem_of(clean);
  one_head.K(1, 4, 1) = std::numeric_limits<float>::quiet_NaN();
  const Truth head = certify(one_head);

  for (std::int64_t bh = 0; bh < 2; ++bh)
    for (std::int64_t r = 0; r < 3; ++r)
      for (std::int64_t c = 0; c < 6; ++c) {
        const Enclosed& was = plain.O(bh, r, c);
        const auto kept = [&](const Truth& now) {
          return same_bits({&now.O(bh, r, c), 1}, {&was, 1});
        };
        CHECK((r == 1 ? is_exactly(query.O(bh, r, c), kNaN) : kept(query)));
        CHECK((c == 3 ? is_exactly(value.O(bh, r, c), kInf) : kept(value)));
        CHECK((bh == 1 ? is_exactly(head.O(bh, r, c), kNaN) : kept(head)));
      }
}

TEST_CASE("enormous scores are certain too, and the method says how", "[reference][quick]") {
  const Truth usual = certify(problem_of("n_q=2 n_kv=8 d=4"));
  const Truth enormous = certify(problem_of("n_q=2 n_kv=8 d=4 sigma=1e30"));

  CHECK(usual.method.find("MPFR") == std::string::npos);
  CHECK(enormous.method.find("2 rows with MPFR") != std::string::npos);
  for (const Enclosed& o :
       enormous.O.elements()) // one key takes all: O is its V row, to the last bit of hi
    CHECK(o.radius <= 0x1p-100 * std::fabs(o.hi));
}
