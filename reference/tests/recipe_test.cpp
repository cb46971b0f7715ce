// Claims about recipes: a line of text and a Problem stand for each other, on every machine.
//
// The stream is pinned twice: by Random123's own known answer (counter and key 0), which a reader
// can look up, and by golden values of every family, which notice any change of the arithmetic
// behind it.

#include "reference/key_stream.hpp"
#include "reference/recipe.hpp"
#include "reference/recorded.hpp"

#include <boost/math/special_functions/erf.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace fa1::reference;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> rows_of(const Recipe& recipe, Matrix matrix, std::int64_t bh, std::int64_t first,
                           std::int64_t rows) {
  const Shape shape = shape_of(recipe);
  std::vector<float> out(
      static_cast<std::size_t>(rows * (matrix == Matrix::V ? shape.dv : shape.d)), kNaN);
  make_rows(recipe, matrix, bh, first, rows, out.data());
  return out;
}

/// All entries of one matrix of batch-head 0.
std::vector<float> entries(const std::string& text, Matrix matrix) {
  const Recipe recipe = parse_recipe(text);
  const Shape shape = shape_of(recipe);
  return rows_of(recipe, matrix, 0, 0, matrix == Matrix::Q ? shape.n_q : shape.n_kv);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

std::string error_of(const std::string& text) {
  try {
    parse_recipe(text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "no error";
}

constexpr std::array kScoreFamilies{Family::normal, Family::uniform, Family::outliers,
                                    Family::pow2,   Family::ints,    Family::subnormal,
                                    Family::zero};
constexpr std::array kAllFamilies{Family::normal, Family::uniform,  Family::outliers,
                                  Family::pow2,   Family::ints,     Family::subnormal,
                                  Family::zero,   Family::positive, Family::alternating,
                                  Family::index,  Family::index1,   Family::constant};
constexpr std::array kOrders{Order::free, Order::ascending, Order::descending, Order::tied,
                             Order::dominant};

/// Any valid recipe, special values and odd sizes included.
Recipe random_recipe(std::mt19937_64& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto any_float = [&] {
    const std::array<float, 8> named{0.0f, -0.0f, kInf, -kInf, kNaN, 0x1p-149f, -0x1.fffffep127f,
                                     0.1f};
    const auto bits = static_cast<std::uint32_t>(random());
    return below(3) == 0 ? named[static_cast<std::size_t>(below(8))] : std::bit_cast<float>(bits);
  };
  const auto finite_float = [&] {
    const float value = any_float();
    return std::isfinite(value) ? value : 2.5f;
  };
  const auto list = [&](std::int64_t entries) {
    std::vector<Run> runs;
    while (entries > 0 && runs.size() < 5) {
      const std::int64_t count = 1 + below(entries);
      runs.push_back({any_float(), count});
      entries -= count;
    }
    if (entries > 0 || runs.empty())
      runs.push_back({any_float(), -1});
    return runs;
  };

  Recipe recipe;
  recipe.batch_heads = below(4);
  recipe.n_q = below(6);
  recipe.n_kv = below(9);
  recipe.d = below(7);
  if (below(2) == 0)
    recipe.dv = below(5);
  if (below(4) == 0)
    recipe.rows = below(8);
  if (below(2) == 0)
    recipe.scale = finite_float();
  recipe.seed = below(4) == 0 ? random() : 1;
  recipe.dist = kScoreFamilies[static_cast<std::size_t>(below(7))];
  recipe.sigma = below(2) == 0 ? finite_float() * 0x1p-9f : 1.0f;
  recipe.order = kOrders[static_cast<std::size_t>(below(5))];
  recipe.v = kAllFamilies[static_cast<std::size_t>(below(12))];
  if (recipe.v == Family::constant)
    recipe.v_constant = any_float();
  const std::int64_t dv = recipe.dv.value_or(recipe.d);
  if (below(4) == 0)
    recipe.Q = list(recipe.n_q * recipe.d);
  if (below(4) == 0)
    recipe.K = list(recipe.n_kv * recipe.d);
  if (below(4) == 0)
    recipe.V = list(recipe.n_kv * dv);
  if (below(3) == 0 && recipe.n_kv * dv > 0)
    recipe.put.push_back({Matrix::V, below(recipe.n_kv), below(dv), any_float()});
  if (below(3) == 0 && recipe.n_q * recipe.d > 0)
    recipe.put.push_back({Matrix::Q, below(recipe.n_q), below(recipe.d), any_float()});
  if (recipe.order == Order::dominant && (recipe.d == 0 || recipe.scale))
    recipe.order = Order::free;
  recipe.gap = recipe.order == Order::dominant ? static_cast<float>(below(300)) : 120.0f;
  if (below(16) == 0) {
    const auto& heads = recording().heads;
    recipe.recorded = heads[static_cast<std::size_t>(below(std::ssize(heads)))].name;
    const Recipe standard;
    recipe.dist = standard.dist;
    recipe.order = standard.order;
    recipe.gap = standard.gap;
    recipe.v = standard.v;
    recipe.v_constant = standard.v_constant;
  }
  return recipe;
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// Text

TEST_CASE("a recipe prints and parses back to itself, bit for bit", "[reference][quick]") {
  std::mt19937_64 random(1);
  std::set<std::string> seen;

  for (int i = 0; i < 20000; ++i) {
    const Recipe recipe = random_recipe(random);
    const std::string text = to_string(recipe);
    CAPTURE(text);
    const Recipe again = parse_recipe(text);
    REQUIRE(again == recipe);
    REQUIRE(to_string(again) == text);
    seen.insert(text);
  }

  CHECK(seen.size() > 19000); // the loop is not one recipe 20000 times
}

TEST_CASE("the canonical text has the keys in order, without defaults", "[reference][quick]") {
  struct Row {
    const char* text;
    const char* canonical;
  };
  for (const Row& row : {
           Row{"", "n_q=1 n_kv=1"},
           Row{" seed=7\tsigma=4.0 d=64 n_kv=1000\nn_q=37 order=ascending dist=normal ",
               "n_q=37 n_kv=1000 d=64 seed=7 sigma=4 order=ascending"},
           Row{"scores=1,2,-inf", "n_q=1 n_kv=3 scale=1 Q=1* K=1,2,-inf"},
           Row{"scores=0*5 dv=2 n_q=3", "n_q=3 n_kv=5 dv=2 scale=1 Q=1* K=0*5"},
           Row{"scale=auto bh=2 gap=120 dv=1", "bh=2 n_q=1 n_kv=1 dv=1"},
           Row{"rows=4 scale=1 dv=1 n_q=9", "n_q=9 n_kv=1 dv=1 rows=4 scale=1"},
           Row{"v=constant:0x1p-149 scale=+0.5", "n_q=1 n_kv=1 scale=0.5 v=constant:1e-45"},
           Row{"put=V:0,0:nan;K:0,0:-0 Q=-0x1.8p1", "n_q=1 n_kv=1 Q=-3 put=V:0,0:nan;K:0,0:-0"},
           Row{"recorded=sink-l4h5", "n_q=512 n_kv=512 d=32 recorded=sink-l4h5"},
           Row{"sigma=2 recorded=sink-l4h5 n_q=1 d=1",
               "n_q=1 n_kv=512 d=1 recorded=sink-l4h5 sigma=2"},
       })
    CHECK(to_string(parse_recipe(row.text)) == row.canonical);
}

TEST_CASE("recipes differ where a single bit of a field differs", "[reference][quick]") {
  const Recipe plain = parse_recipe("n_q=2 n_kv=2 Q=0* put=V:0,0:nan");

  CHECK(plain == parse_recipe("n_q=2 n_kv=2 Q=0* put=V:0,0:-nan"));
  for (const char* other :
       {"n_q=2 n_kv=2 Q=-0* put=V:0,0:nan", "n_q=2 n_kv=2 Q=0*2 put=V:0,0:nan",
        "n_q=2 n_kv=2 Q=0* put=V:0,0:0", "n_q=2 n_kv=2 Q=0* put=V:1,0:nan",
        "n_q=2 n_kv=2 Q=0* put=V:0,0:nan seed=2", "n_q=2 n_kv=2 Q=0* put=V:0,0:nan scale=1",
        "n_q=2 n_kv=2 rows=2 Q=0* put=V:0,0:nan",
        "n_q=2 n_kv=2 d=1 recorded=sink-l4h5 Q=0* put=V:0,0:nan"})
    CHECK_FALSE(plain == parse_recipe(other));
}

TEST_CASE("a bad recipe is refused in one line that names key, value and what is right",
          "[reference][quick]") {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : {
           Row{"bh=-1", "recipe: bh=-1: want an integer from 0 to 2147483648"},
           Row{"n_q=1e3", "recipe: n_q=1e3: want an integer from 0 to 2147483648"},
           Row{"n_q=", "recipe: n_q=: want an integer from 0 to 2147483648"},
           Row{"n_kv=-3", "recipe: n_kv=-3: want an integer from 0 to 2147483648"},
           Row{"n_kv=99999999999999999999",
               "recipe: n_kv=99999999999999999999: want an integer from 0 to 2147483648"},
           Row{"d=257", "recipe: d=257: want an integer from 0 to 256"},
           Row{"dv=+1", "recipe: dv=+1: want an integer from 0 to 256"},
           Row{"rows=-1", "recipe: rows=-1: want an integer from 0 to 2147483648"},
           Row{"bh=700000 n_q=1 n_kv=1000000000 d=4",
               "recipe: bh=700000 n_q=1 n_kv=1000000000 d=4 dv=4: want a problem that can be made, "
               "run and judged within 8 GiB"},
           Row{"bh=2147483648 n_q=2147483648 n_kv=2147483648 d=256",
               "recipe: bh=2147483648 n_q=2147483648 n_kv=2147483648 d=256 dv=256: want a problem "
               "that can be made, run and judged within 8 GiB"},
           Row{"n_q=1000000000 n_kv=4",
               "recipe: bh=1 n_q=1000000000 n_kv=4 d=1 dv=1: want a problem "
               "that can be made, run and judged within 8 GiB"},
           Row{"scale=nan", "recipe: scale=nan: want a finite fp32 number or `auto`"},
           Row{"scale=-inf", "recipe: scale=-inf: want a finite fp32 number or `auto`"},
           Row{"scale=1e39", "recipe: scale=1e39: want a finite fp32 number or `auto`"},
           Row{"scale=1e-50", "recipe: scale=1e-50: want a finite fp32 number or `auto`"},
           Row{"scale=0x", "recipe: scale=0x: want a finite fp32 number or `auto`"},
           Row{"scale=--1", "recipe: scale=--1: want a finite fp32 number or `auto`"},
           Row{"scale=1.5x", "recipe: scale=1.5x: want a finite fp32 number or `auto`"},
           Row{"seed=-1", "recipe: seed=-1: want an integer from 0 to 18446744073709551615"},
           Row{"seed=18446744073709551616",
               "recipe: seed=18446744073709551616: want an integer from 0 to 18446744073709551615"},
           Row{"dist=positive", "recipe: dist=positive: want one of normal uniform outliers pow2 "
                                "ints subnormal zero"},
           Row{"dist=",
               "recipe: dist=: want one of normal uniform outliers pow2 ints subnormal zero"},
           Row{"sigma=inf", "recipe: sigma=inf: want a finite fp32 number"},
           Row{"sigma=1e38",
               "recipe: sigma=1e+38: want a factor that keeps every entry of Q within fp32"},
           Row{"order=up", "recipe: order=up: want one of free ascending descending tied dominant"},
           Row{"order=dominant d=0", "recipe: order=dominant: want d of at least 1 with it"},
           Row{"order=dominant scale=0", "recipe: gap=120: want gap / scale within fp32"},
           Row{"order=dominant scale=1e-30 gap=1e10",
               "recipe: gap=1e+10: want gap / scale within fp32"},
           Row{"gap=-1", "recipe: gap=-1: want a finite fp32 number, 0 or more"},
           Row{"gap=nan", "recipe: gap=nan: want a finite fp32 number"},
           Row{"v=constant", "recipe: v=constant: want constant:X with X an fp32 number"},
           Row{"v=constant:x", "recipe: v=x: want an fp32 number, nan, inf or -inf"},
           Row{"v=big",
               "recipe: v=big: want one of normal uniform outliers pow2 ints subnormal zero "
               "positive alternating index index1 constant:X"},
           Row{"Q=", "recipe: Q=: want an fp32 number, nan, inf or -inf"},
           Row{"Q=1,2", "recipe: Q=1,2: want n_q * d = 1 entries, not 2"},
           Row{"K=1,2 n_kv=3", "recipe: K=1,2: want n_kv * d = 3 entries, not 2"},
           Row{"V=1*4 n_kv=3 dv=1", "recipe: V=1*4: want n_kv * dv = 3 entries, not 4"},
           Row{"V=1*0", "recipe: V=1*0: want `x*n` with n an integer from 1 to 2147483648"},
           Row{"K=1*,2 n_kv=3",
               "recipe: K=1*: want `x*` (fill the rest) at the end of the list only"},
           Row{"K=1,,2", "recipe: K=: want an fp32 number, nan, inf or -inf"},
           Row{"scores=1*", "recipe: scores=1*: want a list of known length, without `x*`"},
           Row{"scores=1,2 n_kv=2",
               "recipe: n_kv beside scores: want one of the two, scores sets it"},
           Row{"put=K:0,1:3", "recipe: put=K:0,1:3: want a row below 1 and a column below 1"},
           Row{"put=W:0,0:3", "recipe: put=W:0,0:3: want M:row,column:value with M one of Q K V, "
                              "several joined by `;`"},
           Row{"put=",
               "recipe: put=: want M:row,column:value with M one of Q K V, several joined by "
               "`;`"},
           Row{"put=K:0,0:x",
               "recipe: put=K:0,0:x: want a value that is an fp32 number, nan, inf or -inf"},
           Row{"n_kV=3", "recipe: unknown key 'n_kV': want one of bh n_q n_kv d dv rows scale seed "
                         "recorded dist sigma order gap v Q K V scores put"},
           Row{"recorded=sink",
               "recipe: recorded=sink: want one of diagonal-l1h11 far-l4h2 flat-l0h11 flat-l0h8 "
               "local-l2h3 middle-l1h2 next-l1h8 previous-l0h2 previous-l2h11 sharp-l1h9 "
               "sink-l4h10 sink-l4h5"},
           Row{"recorded=sink-l4h5 n_q=513", "recipe: n_q=513: want an integer from 0 to 512"},
           Row{"recorded=sink-l4h5 n_kv=513", "recipe: n_kv=513: want an integer from 0 to 512"},
           Row{"recorded=sink-l4h5 d=33", "recipe: d=33: want an integer from 0 to 32"},
           Row{"recorded=sink-l4h5 dv=33", "recipe: dv=33: want an integer from 0 to 32"},
           Row{"recorded=sink-l4h5 v=ints",
               "recipe: v beside recorded: want one of the two, recorded sets it"},
           Row{"order=tied recorded=sink-l4h5",
               "recipe: order beside recorded: want one of the two, recorded sets it"},
           Row{"recorded=sink-l4h5 scores=1,2",
               "recipe: scores beside recorded: want one of the two"},
           Row{"recorded=sink-l4h5 sigma=1e38",
               "recipe: sigma=1e+38: want a factor that keeps every entry of Q within fp32"},
           Row{"64", "recipe: '64': want key=value"},
           Row{"=64", "recipe: '=64': want key=value"},
           Row{"d=1 d=1", "recipe: d=1: want the key once, it is there twice"},
       })
    CHECK(error_of(row.text) == row.message);
}

TEST_CASE("a recipe that was built by hand is held to the same limits", "[reference][quick]") {
  Recipe recipe;
  recipe.n_kv = std::numeric_limits<std::int64_t>::max();
  Recipe list;
  list.K = {{1.0f, -1}, {2.0f, 1}};
  Recipe family;
  family.dist = Family::alternating;

  Recipe rows;
  rows.rows = -1;

  CHECK_THROWS_AS(make_problem(recipe), RecipeError);
  CHECK_THROWS_AS(shape_of(list), RecipeError);
  CHECK_THROWS_AS(shape_of(rows), RecipeError);
  CHECK_THROWS_AS(make_problem(family), RecipeError);
  float out = 0.0f;
  CHECK_THROWS_AS(make_rows(Recipe{}, Matrix::K, 0, 1, 1, &out), RecipeError);
  CHECK_THROWS_AS(make_rows(Recipe{}, Matrix::K, 1, 0, 1, &out), RecipeError);
}

TEST_CASE("a problem that is too large to be made at once is refused before it is made",
          "[reference][quick]") {
  const Recipe recipe = parse_recipe("n_q=70 n_kv=1000000000 d=4");

  CHECK_THROWS_WITH(
      make_problem(recipe),
      "recipe: bh=1 n_q=70 n_kv=1000000000 d=4 dv=4: want a problem that can be made, "
      "run and judged within 8 GiB; `fa1lab run` and `fa1lab sweep` take the keys in "
      "chunks and do with less");
}

// ---------------------------------------------------------------------------------------------------
// Parts of the problem

TEST_CASE("sampled rows are distinct rows of the whole problem, in their order",
          "[reference][quick]") {
  for (const char* text :
       {"n_q=50 n_kv=3 d=4 rows=7", "bh=2 n_q=50 n_kv=3 d=4 rows=49 order=ascending",
        "n_q=9 n_kv=2 d=2 rows=3 put=Q:8,1:7;Q:0,0:5", "n_q=3 n_kv=1 rows=9",
        "n_q=1000000000 n_kv=2 d=3 rows=4", "n_q=5 n_kv=2 rows=0"}) {
    CAPTURE(text);
    const Recipe recipe = parse_recipe(text);

    const std::vector<std::int64_t> rows = query_rows(recipe);
    const Problem problem = make_problem(recipe);

    REQUIRE(problem.shape == shape_of(recipe));
    REQUIRE(static_cast<std::int64_t>(rows.size()) == std::min(recipe.n_q, *recipe.rows));
    CHECK(std::set(rows.begin(), rows.end()).size() == rows.size());
    CHECK(std::ranges::is_sorted(rows));
    for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto row = problem.Q.row(bh, static_cast<std::int64_t>(r));
        CHECK(same_bits({row.begin(), row.end()}, rows_of(recipe, Matrix::Q, bh, rows[r], 1)));
      }
  }
}

TEST_CASE("every query row is sampled equally often", "[reference][quick]") {
  std::array<int, 10> drawn{};
  constexpr int kSeeds = 10'000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Recipe recipe = parse_recipe("n_q=10 n_kv=1 rows=3");
    recipe.seed = seed;
    for (const std::int64_t row : query_rows(recipe))
      ++drawn[static_cast<std::size_t>(row)];
  }

  // Each count is binomial (n, 0.3); six standard deviations happen once in 10^8 times.
  const double mean = 0.3 * kSeeds, deviation = std::sqrt(0.3 * 0.7 * kSeeds);
  for (const int count : drawn)
    CHECK(std::fabs(count - mean) < 6.0 * deviation);
}

TEST_CASE("a stream of keys is the whole problem, cut into chunks", "[reference][quick]") {
  for (const char* text :
       {"bh=2 n_q=3 n_kv=5000 d=3 dv=2", "n_q=2 n_kv=2500 d=2 order=dominant",
        "n_q=1 n_kv=2049 d=1 order=descending v=alternating", "n_q=2 n_kv=3000 order=tied v=index",
        "n_q=2 n_kv=3 d=2 K=1,2,3* V=4*", "n_q=2 n_kv=0 d=2"}) {
    CAPTURE(text);
    const Recipe recipe = parse_recipe(text);
    const Problem whole = make_problem(recipe);
    for (const std::int64_t width : {1000, 1024, 4096, 10'000}) {
      KeyStream stream(recipe, width, 2);
      std::int64_t keys = 0;
      for (std::int64_t c = 0; c < stream.chunks(); ++c) {
        const Problem& chunk = stream.chunk(c);
        const Problem expected = slice_keys(whole, keys, chunk.shape.n_kv);
        REQUIRE(chunk.shape == expected.shape);
        CHECK((chunk.Q == whole.Q && chunk.K == expected.K && chunk.V == expected.V));
        CHECK(chunk.scale == whole.scale);
        keys += chunk.shape.n_kv;
      }
      CHECK(keys == whole.shape.n_kv);
      CHECK(stream.chunk(0).K == slice_keys(whole, 0, stream.chunk(0).shape.n_kv).K);
    }
  }
}

// ---------------------------------------------------------------------------------------------------
// The stream

TEST_CASE("with seed 0 the first entries of Q are Random123's known answer", "[reference][quick]") {
  // kat_vectors of Random123: philox4x32, 10 rounds, counter 0, key 0.
  const std::array<std::uint32_t, 4> known{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};

  const std::vector<float> Q = entries("seed=0 dist=uniform d=4", Matrix::Q);

  for (std::size_t i = 0; i < 4; ++i)
    CHECK(Q[i] == static_cast<float>(known[i] >> 8) * 0x1p-23f - 1.0f); // 2^24 steps over [-1, 1)
}

TEST_CASE("golden values: the streams of all families are what they were", "[reference][quick]") {
  struct Row {
    const char* text;
    Matrix matrix;
    std::array<float, 3> golden;
  };
  for (const Row& row : {
           Row{"n_q=1000 d=3 seed=7",
               Matrix::Q,
               {-0x1.e69d42p+0f, -0x1.7bf31ep+0f, -0x1.d9d322p-3f}},
           Row{"n_kv=1000 d=3 seed=7",
               Matrix::K,
               {-0x1.d2e222p-1f, -0x1.86d204p-2f, -0x1.eec514p-1f}},
           Row{"bh=1 n_kv=1000 d=3 seed=7",
               Matrix::V,
               {0x1.cf0f82p+0f, -0x1.493686p-1f, -0x1.2f587ap+0f}},
           Row{"n_q=1000 d=3 seed=18446744073709551615 dist=uniform",
               Matrix::Q,
               {-0x1.506f98p-1f, 0x1.54a5a8p-2f, -0x1.3e3b38p-2f}},
           Row{"n_q=1000 d=64 dist=outliers seed=4",
               Matrix::Q,
               {-0x1.d0b6bp-2f, 0x1.ef526ap-2f, -0x1.4f5778p-1f}},
           Row{"n_kv=1000 d=3 dist=pow2", Matrix::K, {-0x1p+2f, 0x1p-7f, 0x1p-8f}},
           Row{"n_kv=1000 d=3 dist=ints", Matrix::K, {0x1.8p+1f, -0x1p+2f, -0x1p+2f}},
           Row{"n_kv=1000 d=3 dist=subnormal",
               Matrix::K,
               {-0x1.3ea418p-127f, 0x1.1da0cp-130f, 0x1.00f18p-131f}},
           Row{"n_kv=1000 d=3 order=ascending",
               Matrix::K,
               {0x1.ffe74p-1f, 0x1.ff818p-1f, 0x1.ff7efcp-1f}},
           Row{"n_kv=1000 d=3 order=descending",
               Matrix::K,
               {0x1.a949c2p-11f, 0x1.247b64p-15f, 0x1.071ba6p-16f}},
           Row{"n_kv=1000 d=3 order=tied",
               Matrix::K,
               {-0x1.75a6acp+0f, -0x1.30566ep+0f, -0x1.2575cap-1f}},
           Row{"n_kv=1000 d=3 order=dominant",
               Matrix::K,
               {-0x1.c3b33p-1f, -0x1.d04aa8p+0f, -0x1.138228p+1f}},
           Row{"n_kv=1000 d=3 v=positive",
               Matrix::V,
               {0x1.b55e58p+0f, 0x1.c67bf8p+0f, 0x1.5ff192p+0f}},
           Row{"n_kv=1000 d=3 v=alternating",
               Matrix::V,
               {-0x1.b55e58p+0f, -0x1.c67bf8p+0f, -0x1.5ff192p+0f}},
       }) {
    CAPTURE(row.text);
    const std::vector<float> made = entries(row.text, row.matrix);
    CHECK(same_bits({made.end() - 3, made.end()}, {row.golden.begin(), row.golden.end()}));
  }
}

TEST_CASE("normal entries are the quantiles of their words", "[reference][quick]") {
  const std::string shape = "n_q=4096 d=4 seed=5";

  const std::vector<float> uniforms = entries(shape + " dist=uniform", Matrix::Q);
  const std::vector<float> normals = entries(shape + " dist=normal", Matrix::Q);

  REQUIRE(uniforms.size() == normals.size());
  for (std::size_t i = 0; i < normals.size(); ++i) {
    // The uniform shows the upper 24 bits of the word: the quantiles of its two ends enclose the
    // normal.
    const auto low = static_cast<double>(uniforms[i]);
    const double high = low + 0x1p-23;
    CHECK(static_cast<double>(normals[i]) >=
          static_cast<double>(static_cast<float>(std::sqrt(2.0) * boost::math::erf_inv(low))));
    if (high < 1.0)
      CHECK(static_cast<double>(normals[i]) <=
            static_cast<double>(static_cast<float>(std::sqrt(2.0) * boost::math::erf_inv(high))));
  }
}

TEST_CASE("rows do not depend on the rows made with them", "[reference][quick]") {
  for (const Family family : kAllFamilies)
    for (const Order order : kOrders)
      for (const std::int64_t columns : {1, 3, 4, 7}) {
        Recipe recipe;
        recipe.batch_heads = 2;
        recipe.n_q = recipe.n_kv = 13;
        recipe.d = columns;
        recipe.v = family;
        recipe.order = order;
        if (static_cast<std::size_t>(family) < kScoreFamilies.size())
          recipe.dist = family;
        recipe.put = {{Matrix::K, 5, 0, 7.0f}, {Matrix::Q, 5, 0, 7.0f}, {Matrix::V, 5, 0, 7.0f}};
        CAPTURE(to_string(recipe));
        const Problem problem = make_problem(recipe);
        for (const Matrix matrix : {Matrix::Q, Matrix::K, Matrix::V}) {
          const Tensor<float>& whole = matrix == Matrix::Q   ? problem.Q
                                       : matrix == Matrix::K ? problem.K
                                                             : problem.V;
          for (std::int64_t first = 0; first < 13; ++first) {
            const std::int64_t count = std::min<std::int64_t>(1 + first % 3, 13 - first);
            const float* const expected = whole.row(1, first).data();
            REQUIRE(same_bits(rows_of(recipe, matrix, 1, first, count),
                              {expected, expected + count * columns}));
          }
        }
      }
}

TEST_CASE("rows of explicit lists do not depend on the rows made with them", "[reference][quick]") {
  const Recipe recipe = parse_recipe("n_kv=7 d=2 K=1,2,3*4,4,5* put=K:3,1:9");
  const std::vector<float> whole{1, 2, 3, 3, 3, 3, 4, 9, 5, 5, 5, 5, 5, 5};

  for (std::int64_t first = 0; first < 7; ++first)
    for (std::int64_t count = 0; first + count <= 7; ++count) {
      const auto start = whole.begin() + first * 2;
      CHECK(rows_of(recipe, Matrix::K, 0, first, count) ==
            std::vector<float>(start, start + count * 2));
    }
}

TEST_CASE("seed, matrix and batch-head each choose another stream", "[reference][quick]") {
  const Recipe recipe = parse_recipe("bh=3 n_q=8 n_kv=8 d=8 seed=1");
  Recipe reseeded = recipe;
  reseeded.seed = 1 + (std::uint64_t{1} << 32); // the upper half of the seed counts too

  std::set<std::vector<float>> streams;
  for (const Recipe& each : {recipe, reseeded})
    for (const Matrix matrix : {Matrix::Q, Matrix::K, Matrix::V})
      for (std::int64_t bh = 0; bh < 3; ++bh)
        streams.insert(rows_of(each, matrix, bh, 0, 8));

  CHECK(streams.size() == 18);
}

// ---------------------------------------------------------------------------------------------------
// The families

TEST_CASE("each family has the range and the moments that it claims", "[reference][quick]") {
  // Six standard deviations of the mean of n independent draws; the draws are fixed by the seed.
  struct Row {
    const char* family;
    double mean, variance, fourth; ///< moments of one entry
    double least, most;
  };
  const double power_variance = (std::pow(4.0, 9) - std::pow(4.0, -8)) / 3.0 / 17.0;
  const double power_fourth = (std::pow(16.0, 9) - std::pow(16.0, -8)) / 15.0 / 17.0;
  for (const Row& row : {
           Row{"normal", 0.0, 1.0, 3.0, -6.5, 6.5},
           Row{"uniform", 0.0, 1.0 / 3.0, 1.0 / 5.0, -1.0, 1.0},
           Row{"outliers", 0.0, 1.1, 0.999 * 3.0 + 0.001 * 3.0 * 101.0 * 101.0, -71.5, 71.5},
           Row{"pow2", 0.0, power_variance, power_fourth, -256.0, 256.0},
           Row{"ints", 0.0, 60.0 / 9.0, 708.0 / 9.0, -4.0, 4.0},
           Row{"zero", 0.0, 0.0, 0.0, 0.0, 0.0},
           Row{"positive", 1.5, 7.0 / 3.0, 31.0 / 5.0, 1.0, 2.0},
           Row{"alternating", 0.0, 7.0 / 3.0, 31.0 / 5.0, -2.0, 2.0},
       }) {
    CAPTURE(row.family);
    const std::vector<float> V =
        entries("n_kv=16384 d=0 dv=16 seed=3 v=" + std::string(row.family), Matrix::V);
    const auto n = static_cast<double>(V.size());
    double sum = 0.0, squares = 0.0;
    for (const float v : V) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
      REQUIRE(static_cast<double>(v) >= row.least);
      REQUIRE(static_cast<double>(v) <= row.most);
    }
    CHECK(std::fabs(sum / n - row.mean) <= 6.0 * std::sqrt(row.variance / n));
    CHECK(std::fabs(squares / n - row.variance) <=
          6.0 * std::sqrt((row.fourth - row.variance * row.variance) / n));
  }
}

TEST_CASE("discrete families take all their values and no other", "[reference][quick]") {
  std::set<float> powers, integers;
  for (const float q : entries("n_q=1000 d=4 dist=pow2", Matrix::Q))
    powers.insert(q);
  for (const float q : entries("n_q=1000 d=4 dist=ints", Matrix::Q))
    integers.insert(q);
  std::set<float> expected_powers, expected_integers;
  for (int e = -8; e <= 8; ++e)
    for (const float sign : {-1.0f, 1.0f})
      expected_powers.insert(std::ldexp(sign, e));
  for (int i = -4; i <= 4; ++i)
    expected_integers.insert(static_cast<float>(i));

  CHECK(powers == expected_powers);
  CHECK(integers == expected_integers);
}

TEST_CASE("subnormal entries are subnormal, of both signs and of all sizes", "[reference][quick]") {
  const std::vector<float> Q = entries("n_q=4096 d=4 dist=subnormal", Matrix::Q);

  for (const float q : Q)
    REQUIRE(std::fpclassify(q) == FP_SUBNORMAL);
  const auto negative = std::count_if(Q.begin(), Q.end(), [](float q) { return std::signbit(q); });
  const auto small =
      std::count_if(Q.begin(), Q.end(), [](float q) { return std::fabs(q) < 0x1p-127f; });
  CHECK(std::abs(negative - 8192) <= 6 * 64); // 16384 fair coins: the deviation is 64
  CHECK(std::abs(small - 8192) <= 6 * 64);    // uniform bits: half lie below half the range
}

TEST_CASE("one entry in a thousand is an outlier", "[reference][quick]") {
  const std::vector<float> plain = entries("n_q=16384 d=64 seed=2", Matrix::Q);
  const std::vector<float> spiked = entries("n_q=16384 d=64 seed=2 dist=outliers", Matrix::Q);
  REQUIRE(plain.size() == spiked.size());

  double hits = 0.0, variance = 0.0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    if (plain[i] != spiked[i]) { // the normal part is the same stream
      const double added = static_cast<double>(spiked[i]) - static_cast<double>(plain[i]);
      hits += 1.0;
      variance += added * added;
    }

  const double expected = 0.001 * static_cast<double>(plain.size());
  CHECK(std::fabs(hits - expected) <= 6.0 * std::sqrt(expected));
  CHECK(std::fabs(variance / hits - 100.0) <= 6.0 * 100.0 * std::sqrt(2.0 / hits));
}

TEST_CASE("V can count its keys or be constant", "[reference][quick]") {
  CHECK(entries("n_kv=3 dv=2 v=index", Matrix::V) == std::vector<float>{0, 0, 1, 1, 2, 2});
  CHECK(entries("n_kv=3 dv=2 v=index1", Matrix::V) == std::vector<float>{1, 1, 2, 2, 3, 3});
  CHECK(entries("n_kv=2 dv=2 v=constant:-0.5", Matrix::V) == std::vector<float>(4, -0.5f));
}

TEST_CASE("explicit lists and single entries land where they say", "[reference][quick]") {
  const std::string text =
      "bh=2 n_q=2 n_kv=3 d=2 Q=1,2,3,4 K=5*2,6* V=0x1p-149,-inf,7* put=K:2,1:nan";

  const Problem problem = make_problem(parse_recipe(text));

  for (std::int64_t bh = 0; bh < 2; ++bh) {
    CHECK(problem.Q(bh, 0, 0) == 1.0f);
    CHECK(problem.Q(bh, 1, 1) == 4.0f);
    CHECK(problem.K(bh, 0, 1) == 5.0f);
    CHECK(problem.K(bh, 2, 0) == 6.0f);
    CHECK(std::isnan(problem.K(bh, 2, 1)));
    CHECK(problem.V(bh, 0, 0) == 0x1p-149f);
    CHECK(problem.V(bh, 0, 1) == -kInf);
    CHECK(problem.V(bh, 2, 1) == 7.0f);
  }
}

TEST_CASE("sigma multiplies Q and nothing else", "[reference][quick]") {
  const std::string shape = "n_q=5 n_kv=5 d=3 ";
  const std::vector<float> plain = entries(shape, Matrix::Q);

  std::vector<float> scaled = entries(shape + "sigma=-4", Matrix::Q);
  for (float& q : scaled)
    q /= -4.0f;

  CHECK(same_bits(plain, scaled));
  for (const Matrix matrix : {Matrix::K, Matrix::V})
    CHECK(same_bits(entries(shape, matrix), entries(shape + "sigma=-4", matrix)));
}

// ---------------------------------------------------------------------------------------------------
// The orders

TEST_CASE("ascending and descending keys make every score monotone", "[reference][quick]") {
  for (const bool rising : {true, false}) {
    const std::string order = rising ? "ascending" : "descending";
    const Problem problem =
        make_problem(parse_recipe("n_q=4 n_kv=1000 d=3 sigma=-2 order=" + order));

    for (const float q : problem.Q.elements())
      REQUIRE(q >= 0.0f);
    for (std::int64_t j = 0; j < 1000; ++j)
      for (std::int64_t i = 0; i < 3; ++i) {
        // Products with q >= 0 and their sums keep the order of the keys.
        const auto rank = static_cast<double>(rising ? j : 999 - j);
        REQUIRE(problem.K(0, j, i) >= static_cast<float>(rank / 1000.0));
        REQUIRE(problem.K(0, j, i) <= static_cast<float>((rank + 1.0) / 1000.0));
      }
  }
}

TEST_CASE("tied keys are one key", "[reference][quick]") {
  const Problem problem = make_problem(parse_recipe("bh=2 n_kv=9 d=5 order=tied"));

  for (std::int64_t bh = 0; bh < 2; ++bh)
    for (std::int64_t j = 0; j < 9; ++j)
      CHECK(std::ranges::equal(problem.K.row(bh, j), problem.K.row(bh, 0)));
  CHECK_FALSE(std::ranges::equal(problem.K.row(0, 0), problem.K.row(1, 0)));
}

TEST_CASE("the dominant key leads every other by the gap, in every row", "[reference][quick]") {
  std::set<std::int64_t> leaders;
  for (const char* scale : {"auto", "-0.3", "1e-20", "1e20"})
    for (const char* dist : {"normal", "outliers", "pow2", "ints", "subnormal", "uniform", "zero"})
      for (const int seed : {1, 2}) {
        const std::string text =
            "bh=2 n_q=3 n_kv=50 d=4 order=dominant gap=87.3 scale=" + std::string(scale) +
            " dist=" + dist + " seed=" + std::to_string(seed);
        CAPTURE(text);
        const Problem problem = make_problem(parse_recipe(text));
        for (std::int64_t bh = 0; bh < 2; ++bh) {
          std::int64_t leader = -1;
          for (std::int64_t r = 0; r < 3; ++r)
            for (std::int64_t j = 0; j < 50; ++j) {
              // One sign only in each sum, so rounding cannot change the side of 0 or of the gap.
              double s = 0.0;
              for (std::int64_t i = 0; i < 4; ++i)
                s += static_cast<double>(problem.Q(bh, r, i)) *
                     static_cast<double>(problem.K(bh, j, i));
              s *= static_cast<double>(problem.scale);
              if (s > 0.0) {
                REQUIRE(s >= static_cast<double>(87.3f));
                REQUIRE(s <= static_cast<double>(87.3f) * (1.0 + 0x1p-22)); // and not by much more
                REQUIRE((leader == -1 || leader == j));
                leader = j;
              }
            }
          REQUIRE(leader >= 0);
          leaders.insert(leader);
        }
      }
  CHECK(leaders.size() > 1); // the seed chooses
}

// ---------------------------------------------------------------------------------------------------
// Sizes and scale

TEST_CASE("the automatic scale is 1/sqrt(d), rounded to nearest", "[reference][quick]") {
  for (std::int64_t d = 1; d <= kMaxHeadDimension; ++d) {
    Recipe recipe;
    recipe.d = d;

    const float scale = scale_of(recipe);

    // f is nearest if 1/sqrt(d) lies between the midpoints m around f: m^2 d has 58 bits, exact
    // here.
    const auto below = static_cast<long double>(std::nextafter(scale, 0.0f));
    const auto above = static_cast<long double>(std::nextafter(scale, 2.0f));
    const long double low = (below + static_cast<long double>(scale)) / 2;
    const long double high = (static_cast<long double>(scale) + above) / 2;
    CHECK(low * low * static_cast<long double>(d) <= 1.0L);
    CHECK(high * high * static_cast<long double>(d) >= 1.0L);
  }
}

TEST_CASE("sizes of 0 make empty matrices", "[reference][quick]") {
  for (const char* text :
       {"bh=0", "n_q=0", "n_kv=0", "d=0", "dv=0", "n_q=0 Q=1*", "n_kv=0 order=tied",
        "n_kv=0 order=dominant", "n_kv=0 order=ascending", "d=0 dv=3"}) {
    CAPTURE(text);
    const Problem problem = make_problem(parse_recipe(text));
    const Shape& shape = problem.shape;
    CHECK(problem.Q.size() == shape.batch_heads * shape.n_q * shape.d);
    CHECK(problem.K.size() == shape.batch_heads * shape.n_kv * shape.d);
    CHECK(problem.V.size() == shape.batch_heads * shape.n_kv * shape.dv);
  }
}

// ---------------------------------------------------------------------------------------------------
// Recorded heads

TEST_CASE("a recorded head is the file's first rows and columns, in every batch-head",
          "[reference][quick]") {
  for (const RecordedHead& head : recording().heads) {
    CAPTURE(head.name);
    const Problem whole = make_problem(parse_recipe("recorded=" + head.name));
    const Problem part =
        make_problem(parse_recipe("bh=2 n_q=3 n_kv=70 d=8 dv=5 recorded=" + head.name));

    REQUIRE(whole.shape == Shape{1, 512, 512, 32, 32});
    CHECK(whole.scale == head.scale);
    CHECK(whole.Q == head.Q);
    CHECK(whole.K == head.K);
    CHECK(whole.V == head.V);
    REQUIRE(part.shape == Shape{2, 3, 70, 8, 5});
    for (std::int64_t bh = 0; bh < 2; ++bh)
      for (std::int64_t c = 0; c < 5; ++c) {
        CHECK(part.Q(bh, 2, c) == head.Q(0, 2, c));
        CHECK(part.K(bh, 69, c) == head.K(0, 69, c));
        CHECK(part.V(bh, 69, c) == head.V(0, 69, c));
      }
  }
}

TEST_CASE("sigma, lists and single entries go on from a recorded head", "[reference][quick]") {
  const RecordedHead& head = recorded_head("sink-l4h5");

  const Problem problem =
      make_problem(parse_recipe("recorded=sink-l4h5 n_q=2 n_kv=3 sigma=2 V=7* put=K:1,4:-9"));

  CHECK(problem.Q(0, 1, 31) == 2.0f * head.Q(0, 1, 31));
  CHECK(problem.V(0, 2, 31) == 7.0f);
  CHECK(problem.K(0, 1, 4) == -9.0f);
  CHECK(problem.K(0, 1, 5) == head.K(0, 1, 5));
}

TEST_CASE("a file of recorded heads that is none is named", "[reference][quick]") {
  const std::string corpus = FA1_FUZZ_CORPUS "/safetensors/plain";
  for (const std::string& path : {std::string("/nonexistent/heads.safetensors"), corpus})
    CHECK_THROWS_WITH(read_recording(path),
                      Catch::Matchers::ContainsSubstring("'" + path +
                                                         "': want the heads that "
                                                         "numerics/recorded/record.py wrote"));
}
