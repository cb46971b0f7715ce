// Claims about the truth that a GPU makes: the tiles' loops on the CPU enclose the exact answer, their
// steps keep what CERTIFIED.md derives for them, and a device gives the same bits.
//
// The judges are Arb, and certify(), which shares only the table of the exponential.

#include "reference/arb_attention.hpp"
#include "reference/certified.hpp"
#include "reference/certified_cuda.hpp"
#include "reference/certified_simd.hpp"
#include "reference/certified_tiles.hpp"
#include "reference/recipe.hpp"
#include "reference/tests/random_problems.hpp"
#include "reference/truth_source.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace fa1::reference;

namespace {

constexpr slong kBits = 600; ///< scores of 1e9 leave more than 500 after the exponential

Problem problem_of(const std::string& text) { return make_problem(parse_recipe(text)); }

/// hi + lo, exactly.
void set(arb_ptr ball, const Pair& value) {
  Ball part;
  arb_set_d(ball, value.hi);
  arb_set_d(part, value.lo);
  arb_add(ball, ball, part, kBits);
}

/// Is |value - exact| certainly at most the radius?
bool within(const Pair& value, arb_srcptr exact, double radius) {
  Ball distance, most;
  set(distance, value);
  arb_sub(distance, exact, distance, kBits);
  arb_abs(distance, distance);
  arb_set_d(most, radius);
  return arb_le(distance, most) != 0;
}

bool encloses(const Enclosed& truth, arb_srcptr exact) {
  return within({truth.hi, truth.lo}, exact, truth.radius);
}

/// Every element of every covered row; returns how many rows.
std::int64_t compare_with_arb(const Problem& problem, const tile::PartialTruth& partial) {
  const Truth& truth = partial.truth;
  const BallAnswer exact = arb_attention(problem, kBits);
  const auto O = truth.O.elements();
  const auto dv = static_cast<std::size_t>(problem.shape.dv);
  std::int64_t compared = 0;
  for (std::size_t row = 0; row < partial.covered.size(); ++row) {
    if (partial.covered[row] == 0)
      continue;
    const auto at = static_cast<std::int64_t>(row);
    REQUIRE(encloses(truth.l[row], exact.l[at]));
    REQUIRE(encloses(truth.m[row], exact.m[at]));
    REQUIRE(encloses(truth.LSE[row], exact.LSE[at]));
    for (std::size_t e = row * dv; e < (row + 1) * dv; ++e)
      REQUIRE(encloses(O[e], exact.O[static_cast<std::int64_t>(e)]));
    ++compared;
  }
  return compared;
}

struct Comparison {
  std::int64_t covered = 0, rows = 0;
};

Comparison compare_random(std::uint64_t first, std::uint64_t count) {
  Comparison all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_recipe(seed);
    CAPTURE(text);
    const Problem problem = problem_of(text);
    all.covered += compare_with_arb(problem, tile::certify_tiles(problem));
    all.rows += problem.shape.n_q;
  }
  return all;
}

bool same_bits(std::span<const Enclosed> a, std::span<const Enclosed> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool same_bits(const Truth& a, const Truth& b) {
  return same_bits(a.O.elements(), b.O.elements()) && same_bits(a.l, b.l) && same_bits(a.m, b.m) &&
         same_bits(a.LSE, b.LSE) && a.method == b.method;
}

/// Do two truths allow a common exact value? NaN agrees with NaN.
bool agree(std::span<const Enclosed> a, std::span<const Enclosed> b) {
  return std::ranges::equal(a, b, [](const Enclosed& x, const Enclosed& y) {
    return (std::isnan(x.hi) && std::isnan(y.hi)) || (x.hi == y.hi && x.lo == y.lo) ||
           std::fabs((x.hi - y.hi) + (x.lo - y.lo)) <= (x.radius + y.radius) * (1.0 + 0x1p-50);
  });
}

bool agree(const Truth& a, const Truth& b) {
  return agree(a.O.elements(), b.O.elements()) && agree(a.l, b.l) && agree(a.m, b.m) &&
         agree(a.LSE, b.LSE);
}

/// Ragged against tiles of 64 in every extent; scores with and without a shift; every family; special
/// values and scores that the tiles leave to certify().
const std::array<const char*, 18> kShapes{
    "n_q=1 n_kv=1 d=1",
    "n_q=3 n_kv=64 d=32",
    "n_q=3 n_kv=65 d=33 dv=65 sigma=3 seed=2",
    "n_q=2 n_kv=200 d=128 dv=128 v=positive seed=3",
    "n_q=2 n_kv=130 d=100 sigma=200 seed=4",
    "bh=3 n_q=2 n_kv=70 d=64 order=ascending seed=5",
    "bh=2 n_q=2 n_kv=100 d=16 order=dominant gap=900 seed=6",
    "n_q=2 n_kv=127 d=64 sigma=1e6 seed=7",
    "n_q=2 n_kv=129 d=64 dist=pow2 v=pow2 seed=8",
    "n_q=2 n_kv=100 d=64 dist=outliers v=outliers seed=9",
    "n_q=2 n_kv=100 d=64 dist=subnormal v=subnormal seed=10",
    "n_q=2 n_kv=100 d=8 dist=zero v=index",
    "n_q=2 n_kv=100 d=8 scale=-0x1p-140 v=alternating seed=11",
    "n_q=2 n_kv=100 d=64 sigma=1e20 seed=12",
    "n_q=4 n_kv=100 d=8 put=Q:2,1:nan seed=13",
    "bh=2 n_q=2 n_kv=100 d=8 put=V:3,1:inf seed=14",
    "n_q=2 n_kv=0 d=8",
    "n_q=0 n_kv=8 d=8"};

} // namespace

TEST_CASE("the exact answer is within the radius of the tiles for random problems, says Arb",
          "[reference][quick]") {
  const Comparison all = compare_random(1, 250);

  CHECK(all.covered >= all.rows * 3 / 4);
}

TEST_CASE("the exact answer is within the radius of the tiles for random problems, at length",
          "[reference][deep]") {
  const Comparison all = compare_random(1001, 5000);

  CHECK(all.covered >= all.rows * 3 / 4);
}

TEST_CASE("the tiles agree with certify on ragged shapes, large scores and special values",
          "[reference][quick]") {
  for (const char* text : kShapes) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const Truth tiles = tile::completed(problem, tile::certify_tiles(problem));

    CHECK(agree(tiles, certify(problem)));
  }
}

TEST_CASE("rows outside the tiles' range are not covered, and come from certify",
          "[reference][quick]") {
  const auto covered = [](const std::string& text) {
    return std::ranges::count(tile::certify_tiles(problem_of(text)).covered, 1);
  };
  const Problem mixed = problem_of("n_q=3 n_kv=50 d=4 put=Q:1,2:inf");
  const Truth completed = tile::completed(mixed, tile::certify_tiles(mixed)), cpu = certify(mixed);

  CHECK(covered("n_q=3 n_kv=50 d=4") == 3);
  CHECK(covered("n_q=3 n_kv=50 d=4 put=Q:1,2:inf") == 2);
  CHECK(covered("n_q=3 n_kv=50 d=4 put=Q:1,2:1e30") == 2);
  CHECK(covered("n_q=3 n_kv=50 d=4 put=K:1,2:nan") == 0);
  CHECK(covered("n_q=3 n_kv=50 d=4 put=V:1,2:inf") == 0);
  CHECK(covered("n_q=3 n_kv=0 d=4") == 0);
  CHECK(same_bits(completed.O.row(0, 1), cpu.O.row(0, 1)));
  CHECK(std::isnan(completed.O(0, 1, 0).hi));
  CHECK(completed.method == "double-double, in tiles; 1 rows by certify()");
}

TEST_CASE("the radius of the tiles is at most three times that of certify", "[reference][quick]") {
  for (const char* text : {"n_q=4 n_kv=2000 d=64", "n_q=2 n_kv=300 d=128 sigma=20",
                           "n_q=2 n_kv=300 d=16 order=dominant gap=60", "n_q=2 n_kv=200 d=1",
                           "n_q=2 n_kv=300 d=64 dist=outliers v=outliers"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const Truth tiles = tile::certify_tiles(problem).truth, cpu = certify(problem);

    for (std::size_t e = 0; e < cpu.O.elements().size(); ++e) {
      CHECK(tiles.O.elements()[e].radius > 0.0);
      CHECK(tiles.O.elements()[e].radius <= 3.0 * cpu.O.elements()[e].radius);
    }
  }
}

TEST_CASE("an anchored sum loses no more than derived, however its terms cancel",
          "[reference][quick]") {
  std::mt19937_64 bits(1);
  const auto any_float = [&](int spread) {
    const auto exponent = static_cast<int>(bits() % static_cast<unsigned>(2 * spread + 1)) - spread;
    const double sign = (bits() & 1) != 0 ? -1.0 : 1.0;
    return sign * std::ldexp(1.0 + static_cast<double>(bits() >> 41) * 0x1p-23, exponent);
  };
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const int d = 1 + static_cast<int>(bits() % 128), spread = static_cast<int>(bits() % 40);
    std::vector<double> q, k;
    double size = 0.0;
    Ball exact, term, factor;
    for (int i = 0; i < d; ++i) {
      q.push_back(any_float(spread) * any_float(0)); // times a scale: 48 bits
      k.push_back(i % 2 == 1 && round % 2 == 0 ? -k.back() : any_float(spread));
      if (i % 2 == 1 && round % 2 == 0)
        q.back() = q[q.size() - 2]; // terms in pairs that cancel
      size += std::fabs(q.back() * k.back());
      arb_set_d(term, q.back());
      arb_set_d(factor, k.back());
      arb_mul(term, term, factor, kBits);
      arb_add(exact, exact, term, kBits);
    }
    const bool shifted = round % 3 == 0;
    tile::Row row = tile::row_of(size * (1.0 + 0x1p-40), shifted, d);
    row.shift = shifted ? tile::shift_of(row, size * any_float(0) / 2.0) : 0.0;

    double acc = row.anchor - row.shift, lo = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i)
      tile::accumulate(q[i], k[i], acc, lo);
    const Pair x = tile::argument(acc, lo);

    arb_set_d(term, row.shift);
    arb_sub(exact, exact, term, kBits);
    REQUIRE(within(x, exact, row.eta));
  }
}

TEST_CASE("the tiles' exponential keeps its claimed error from -700 to 700", "[reference][quick]") {
  std::array<Pair, tile::kSteps> table;
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = {simd::exp_table().hi[i], simd::exp_table().lo[i]};
  std::mt19937_64 bits(2);
  const auto unit = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  double worst = 0.0;
  std::int64_t asked = 0;
  const auto ask = [&](double hi, double lo) {
    const Pair w = tile::exponential({hi, lo}, table.data());
    Ball exact;
    set(exact, {hi, lo});
    arb_exp(exact, exact, 160);
    REQUIRE(within(w, exact, tile::kExp * w.hi + 0x1p-1074));
    ++asked;
    Ball got;
    set(got, w);
    arb_sub(got, got, exact, 160);
    worst = std::max(worst, std::fabs(arf_get_d(arb_midref(arb_ptr(got)), ARF_RND_UP)) / w.hi);
  };
  const double half_step = 0x1.62e42fefa39efp-1 / (2.0 * tile::kSteps);
  for (int k = 0; k * half_step < 700.0; k += 41) // around the changes of the table's index
    for (const double sign : {1.0, -1.0}) {
      const double x = sign * k * half_step;
      const double beside = std::nextafter(x, 1e9);
      ask(x, 0.0);
      ask(beside, (beside - x) * 0.5);
    }
  for (int i = 0; i < 60'000; ++i) {
    const double x = (unit() - 0.5) * (i % 2 == 0 ? 1400.0 : 40.0);
    ask(x, (unit() - 0.5) * 0x1p-53 * std::fabs(x));
  }

  CHECK(asked > 100'000);
  CHECK(worst >= 0x1p-102); // double arithmetic, not the judge itself
}

TEST_CASE("the anchor of a tile lies where the derivation wants it", "[reference][quick]") {
  std::mt19937_64 bits(3);
  for (int round = 0; round < 10'000; ++round) {
    const double b = std::ldexp(1.0 + static_cast<double>(bits() >> 11) * 0x1p-53,
                                static_cast<int>(bits() % 1300) - 900);

    const double anchor = tile::anchor_of(b);

    int exponent = 0;
    REQUIRE(std::frexp(anchor, &exponent) == 0.75); // 1.5 * 2^E, exponent = E + 1
    REQUIRE(b < std::ldexp(1.0, exponent - 2));
    REQUIRE(std::ldexp(1.0, exponent - 2) <= 2.0 * (b * (1.0 + 0x1p-19) + 0x1p-799));
  }
  CHECK(tile::anchor_of(0.0) == std::ldexp(1.5, -798));
}

TEST_CASE("a GPU is chosen for whole matrices alone, and only where one is", "[reference][quick]") {
  const Shape whole{1, 65536, 65536, 64, 64}, few_rows{1, 32, 4194304, 64, 64},
      small{1, 2048, 1024, 64, 64}, beyond_memory{1, 65536, 65536000, 64, 64};

  CHECK(worth_a_gpu(whole));
  CHECK(!worth_a_gpu(few_rows));
  CHECK(!worth_a_gpu(small));
  CHECK(!worth_a_gpu(beyond_memory));
  CHECK(made_by_gpu(whole, TruthSource::automatic) == certify_cuda_obstacle().empty());
  CHECK(!made_by_gpu(whole, TruthSource::cpu));
  CHECK(made_by_gpu(small, TruthSource::gpu));
}

TEST_CASE("a device gives the bits of the tiles", "[reference][cuda][quick]") {
  if (const std::string obstacle = certify_cuda_obstacle(); !obstacle.empty())
    SKIP(obstacle);
  for (const char* text : kShapes) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const Truth device = certify_cuda(problem);

    CHECK(same_bits(device, tile::completed(problem, tile::certify_tiles(problem))));
  }
}

TEST_CASE("a device agrees with certify on a whole matrix", "[reference][cuda][quick]") {
  if (const std::string obstacle = certify_cuda_obstacle(); !obstacle.empty())
    SKIP(obstacle);
  const Problem problem = problem_of("n_q=1000 n_kv=1500 d=64 dv=70 sigma=2 v=positive");

  CHECK(agree(certify_cuda(problem), certify(problem, 2)));
}
