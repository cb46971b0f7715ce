// Claims about sweeps: an axis expands to the values it states and nothing else is accepted, a grid
// holds every combination, a slope is the slope, and a record says what was run.

#include "numerics/sweep.hpp"
#include "reference/key_stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using numerics::Axis;
using numerics::SweepError;
using Words = std::vector<std::string>;

TEST_CASE("an axis expands to the values that it states", "[numerics][quick]") {
  struct Example {
    const char* text;
    Words values;
  };
  const auto example = GENERATE(values<Example>({
      {"n_kv=7,3,3", {"7", "3", "3"}},               // a list is taken as it is
      {"n_kv=64..512", {"64", "128", "256", "512"}}, // whole numbers double
      {"n_kv=3..20", {"3", "6", "12", "20"}},        // the end belongs to it
      {"n_kv=0..5", {"0", "1", "2", "4", "5"}},      // doubling 0 would go nowhere
      {"n_kv=9..9", {"9"}},                          // one point is a range
      {"seed=18446744073709551614..18446744073709551615",
       {"18446744073709551614", "18446744073709551615"}},
      {"sigma=1e-2..10", {"0.01", "0.1", "1", "10"}}, // real numbers take steps of ten
      {"sigma=1..50", {"1", "10", "50"}},
      {"n_kv=1..1000:4", {"1", "10", "100", "1000"}}, // evenly on a logarithmic scale
      // whole numbers that fall together count once
      {"n_kv=1..3:9", {"1", "2", "3"}},
      {"n_kv=3..11+4", {"3", "7", "11"}}, // in even steps
      {"n_kv=3..12+4", {"3", "7", "11"}},
      {"seed=18446744073709551614..18446744073709551615+1",
       {"18446744073709551614", "18446744073709551615"}},
      {"sigma=-1..1e+0+0.5", {"-1", "-0.5", "0", "0.5", "1"}}, // the first + is an exponent's
      {"sigma=0..0.3+0.1", {"0", "0.1", "0.2", "0.3"}},
      {"kernel=fa1.Br4xBc2,fa1", {"fa1.Br4xBc2", "fa1"}},
      {"v=normal,constant:0.1", {"normal", "constant:0.1"}},
      // values with commas are separated by |
      {"scores=0,1|-inf*4,0", {"0,1", "-inf*4,0"}},
      {"put=K:0,0:nan|V:1,0:7", {"K:0,0:nan", "V:1,0:7"}},
  }));
  CAPTURE(example.text);

  const Axis axis = numerics::parse_axis(example.text);

  CHECK(axis.values == example.values);
}

TEST_CASE("an axis that makes no sense is an error that says what would", "[numerics][quick]") {
  struct Example {
    const char* text;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"n_kv", "want KEY=LIST"},
      {"keys=1,2", "a recipe has no key 'keys'; want one of bh n_q n_kv"},
      {"n_kv=", "a value is missing"},
      {"n_kv=1,,2", "a value is missing"},
      {"n_kv=64..8", "backwards"},
      {"n_kv=a..b", "whole numbers"},
      {"n_kv=-4..8", "whole numbers"},
      {"n_kv=1.5..8", "whole numbers"},
      {"n_kv=0..8:3", "no 0"},
      {"sigma=0..1", "positive ends"},
      {"sigma=-1..1", "positive ends"},
      {"sigma=nan..1", "positive ends"},
      {"sigma=10..1", "backwards"},
      {"n_kv=1..8:1", "2 or more"},
      {"n_kv=1..8:99999999", "99999999 values; want at most 1000000"},
      {"n_kv=1..1000000001+1", "1000000001 values; want at most 1000000"},
      {"n_kv=1..8+0", "a positive step"},
      {"n_kv=8..1+1", "backwards"},
      {"sigma=1..2+-1", "a positive step"},
      {"sigma=2..1+0.5", "backwards"},
      {"sigma=0..1+1e-9", "1000000001 values; want at most 1000000"},
      {"dist=normal..ints", "takes names"},
  }));
  CAPTURE(example.text);

  CHECK_THROWS_MATCHES(
      numerics::parse_axis(example.text), SweepError,
      MessageMatches(ContainsSubstring("--vary") && ContainsSubstring(example.says)));
}

TEST_CASE("a grid holds every combination once, the last axis fastest", "[numerics][quick]") {
  const std::vector<Axis> axes{numerics::parse_axis("n_kv=5,6"),
                               numerics::parse_axis("seed=1,2,3")};

  const auto points = numerics::expand("n_kv=99 n_q=2 d=3", axes);

  REQUIRE(points.size() == 6);
  CHECK(points[1].values == Words{"5", "2"});
  CHECK(points[3].values == Words{"6", "1"});
  CHECK(reference::to_string(points[5].recipe) ==
        reference::to_string(reference::parse_recipe("n_q=2 n_kv=6 d=3 seed=3")));
}

TEST_CASE("a grid that is too large, twice the same or no recipe is refused before anything runs",
          "[numerics][quick]") {
  const std::vector<Axis> too_many{numerics::parse_axis("sigma=1..2:5000"),
                                   numerics::parse_axis("seed=1,2,3,4")};
  const std::vector<Axis> twice{numerics::parse_axis("d=1"), numerics::parse_axis("d=2")};
  const std::vector<Axis> too_large{numerics::parse_axis("n_kv=1,1000000000000")};

  CHECK_THROWS_MATCHES(numerics::expand("", too_many), SweepError,
                       MessageMatches(ContainsSubstring("10000")));
  CHECK_THROWS_MATCHES(numerics::expand("", twice), SweepError,
                       MessageMatches(ContainsSubstring("twice")));
  CHECK_THROWS_AS(numerics::expand("", too_large), reference::RecipeError);
}

TEST_CASE("a grid makes each point when it is asked, with its kernel, and its seeds are no axis",
          "[numerics][quick]") {
  const numerics::Grid grid("n_kv=99 n_q=2 seed=9",
                            {numerics::parse_axis("n_kv=5,6"), numerics::parse_axis("seed=1,2,3"),
                             numerics::parse_axis("kernel=a,b"), numerics::parse_axis("d=3,4")});

  const numerics::GridPoint point = grid.point(6);

  CHECK(grid.points() == 8);
  CHECK(grid.runs() == 3);
  CHECK(point.values == Words{"6", "b", "3"});
  CHECK(point.kernel == "b");
  CHECK(point.recipe == reference::parse_recipe("n_q=2 n_kv=6 d=3 seed=1"));
  CHECK(grid.run(point, 2) == reference::parse_recipe("n_q=2 n_kv=6 d=3 seed=3"));
}

TEST_CASE("a grid of more points than anybody can number is refused", "[numerics][quick]") {
  std::vector<Axis> axes;
  for (const char* key : {"sigma", "gap", "scale", "n_kv"}) {
    axes.push_back({key, Words(100'000, "1")});
  }

  CHECK_THROWS_MATCHES(numerics::Grid("", axes), SweepError,
                       MessageMatches(ContainsSubstring("more than 1000000000000000000 points")));
}

TEST_CASE("a point over its seeds is the errors of all of them taken together",
          "[numerics][quick]") {
  const reference::Recipe recipe = reference::parse_recipe("n_q=3 n_kv=70 d=5");
  const kernels::Kernel& kernel = kernels::find_kernel("fa1.Br4xBc2", reference::shape_of(recipe));
  numerics::Pool pool;
  std::vector<double> errors;
  double max = 0.0, max_ulp = 0.0, squares = 0.0, sum = 0.0, fraction = 0.0;
  for (const std::uint64_t seed : {4, 5, 6}) {
    reference::Recipe run = recipe;
    run.seed = seed;
    const numerics::Sample sample = numerics::sample(run, kernel);
    const auto n = static_cast<double>(sample.record.error.elements);
    errors.insert(errors.end(), sample.errors.begin(), sample.errors.end());
    max = std::max(max, sample.record.error.max_relative);
    max_ulp = std::max(max_ulp, sample.record.error.max_ulp);
    fraction = std::max(fraction, sample.record.error.max_fraction);
    squares += n * sample.record.error.rms_relative * sample.record.error.rms_relative;
    sum += n * sample.record.error.mean_relative;
    pool.add(sample);
  }
  std::ranges::sort(errors);

  const numerics::PointRecord point = pool.take();

  REQUIRE(errors.size() == 45);
  CHECK(point.runs == 3);
  CHECK(point.first.seed == 4);
  CHECK(point.last_seed == 6);
  CHECK(point.error.elements == 45);
  CHECK(point.error.max_relative == max);
  CHECK(point.error.max_relative == errors.back());
  CHECK(point.error.max_ulp == max_ulp);
  CHECK(point.error.max_fraction == fraction);
  CHECK(point.deciding.error.max_fraction == fraction);
  CHECK(point.error.rms_relative == std::sqrt(squares / 45.0));
  CHECK(point.error.mean_relative == sum / 45.0);
  CHECK(point.quantiles == std::array{errors[22], errors[40], errors[44], errors[44]});
  CHECK(point.judged == std::array<std::int64_t, 4>{3, 0, 0, 0});
  CHECK(pool.take().runs == 0);
}

TEST_CASE("one wrong run makes its point wrong", "[numerics][quick]") {
  const reference::Recipe recipe = reference::parse_recipe("n_q=3 n_kv=70 d=5 order=ascending");
  const kernels::Kernel& right = kernels::find_kernel("fa1.Br4xBc2", reference::shape_of(recipe));
  const kernels::Kernel& wrong =
      kernels::find_kernel("mutant.no_alpha_on_O.Br4xBc2", reference::shape_of(recipe));
  numerics::Pool pool;

  for (const kernels::Kernel* kernel : {&right, &wrong, &right})
    pool.add(numerics::sample(recipe, *kernel));
  const numerics::PointRecord point = pool.take();

  CHECK(point.deciding.verdict.judgement == numerics::Judgement::proved_wrong);
  CHECK(point.judged == std::array<std::int64_t, 4>{2, 0, 0, 1});
}

TEST_CASE("the softmax bound is n + 2 + 2 (xmax - xmin), and the error is told as a part of it",
          "[numerics][quick]") {
  // Scores 0, 1 and 3 of one query, exact in fp32.
  const reference::Recipe recipe = reference::parse_recipe("scores=0,1,3 V=0.1,0.7,-0.3");
  const kernels::Kernel& kernel = kernels::find_kernel("fa1", reference::shape_of(recipe));

  const numerics::Sample sample = numerics::sample(recipe, kernel);

  CHECK(sample.softmax_relative == 3.0 + 2.0 + 2.0 * 3.0);
  REQUIRE(sample.errors.size() == 1);
  CHECK(sample.max_softmax == sample.errors[0] / 11.0);
}

TEST_CASE("the slope of a power law is its power, with no doubt left", "[numerics][quick]") {
  std::vector<double> x, y;
  for (int k = 0; k < 8; ++k) {
    x.push_back(std::ldexp(1.0, k));
    y.push_back(std::ldexp(3.0, 2 * k)); // 3 x^2
  }

  const numerics::Slope fit = numerics::log_log_slope(x, y);

  CHECK(fit.points == 8);
  CHECK(std::fabs(fit.slope - 2.0) <= 0x1p-48); // a few roundings of doubles near 4
  CHECK(fit.high - fit.low <= 0x1p-40);
}

TEST_CASE("the confidence interval of a slope is Student's", "[numerics][quick]") {
  // log x = -1, 0, 1 and log y = 0, 3, 0: slope 0, residuals -1, 2, -1, so s^2 = 6 with one degree
  // of freedom, and the standard error is sqrt(6 / 2); Student's t with one degree of freedom is
  // Cauchy's: tan(0.475 pi).
  const std::vector<double> x{std::exp(-1.0), 1.0, std::exp(1.0)}, y{1.0, std::exp(3.0), 1.0};
  const double half = std::tan(0.475 * std::acos(-1.0)) * std::sqrt(3.0);

  const numerics::Slope fit = numerics::log_log_slope(x, y);

  CHECK(std::fabs(fit.slope) <= 0x1p-48);
  CHECK(std::fabs(fit.high - half) <= 0x1p-40 * half);
  CHECK(std::fabs(fit.low + half) <= 0x1p-40 * half);
}

TEST_CASE("points that no logarithm has are left out, and too few points give no slope",
          "[numerics][quick]") {
  const std::vector<double> x{1, 2, 4, 8, 16}, y{1, 0, 4, std::nan(""), 16};

  const numerics::Slope fit = numerics::log_log_slope(x, y);
  const numerics::Slope few = numerics::log_log_slope(std::span(x).first(2), std::span(x).first(2));
  const numerics::Slope vertical =
      numerics::log_log_slope(std::vector<double>{2, 2, 2}, std::vector<double>{1, 2, 3});

  CHECK(fit.points == 3);
  CHECK(std::fabs(fit.slope - 1.0) <= 0x1p-48);
  CHECK(std::isnan(few.slope));
  CHECK(std::isnan(vertical.slope));
}

TEST_CASE("a record says what was run and how wrong it was", "[numerics][quick]") {
  const reference::Recipe recipe = reference::parse_recipe("n_q=3 n_kv=70 d=5 seed=4");
  const kernels::Kernel& kernel = kernels::find_kernel("fa1.Br4xBc2", reference::shape_of(recipe));

  const numerics::Record record = numerics::measure(recipe, kernel);

  CHECK(record.kernel == kernel.id);
  CHECK(record.recipe == recipe);
  CHECK(record.error.elements == 15);
  CHECK(record.not_finite == 0);
  CHECK(record.error.max_relative > 0.0);
  CHECK(record.error.rms_relative <= record.error.max_relative);
  CHECK(record.error.max_fraction <= 1.0);
  CHECK(record.verdict.judgement == numerics::Judgement::proved_right);
}

TEST_CASE("a wrong kernel's record is proved wrong", "[numerics][quick]") {
  const reference::Recipe recipe = reference::parse_recipe("n_q=3 n_kv=70 d=5 order=ascending");
  const kernels::Kernel& kernel =
      kernels::find_kernel("mutant.no_alpha_on_O.Br4xBc2", reference::shape_of(recipe));

  const numerics::Record record = numerics::measure(recipe, kernel);

  CHECK(record.verdict.judgement == numerics::Judgement::proved_wrong);
  CHECK(record.error.max_fraction > 1.0);
}

TEST_CASE("where the bound does not reach, a record has no number and says why",
          "[numerics][quick]") {
  const reference::Recipe recipe =
      reference::parse_recipe("n_q=1 n_kv=4 d=1 scale=1e-38 Q=1e25* K=1e25,2e25,3e25,4e25");
  const kernels::Kernel& kernel = kernels::find_kernel("fa1", reference::shape_of(recipe));

  const numerics::Record record = numerics::measure(recipe, kernel);

  CHECK(record.verdict.judgement == numerics::Judgement::undecided);
  CHECK(std::isnan(record.error.bound_relative));
  CHECK(record.not_finite == 1);
}

TEST_CASE("keys in chunks give the record of all keys at once", "[numerics][quick]") {
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const char* text :
       {"n_q=3 n_kv=5000 d=4 seed=4", "bh=2 n_q=2 n_kv=4099 d=3 dv=2 order=ascending",
        "n_q=40 n_kv=3000 d=2 rows=5 v=positive", "n_q=2 n_kv=2500 put=K:2400,0:nan"})
    for (const char* name : {"fa1.Br4xBc2", "fa1.Br3xBc5", "fa1.Br1xBc1"}) {
      CAPTURE(text, name);
      const reference::Recipe recipe = reference::parse_recipe(text);
      const kernels::Kernel& kernel = kernels::find_kernel(name, reference::shape_of(recipe));

      const numerics::Record whole = numerics::measure(recipe, kernel);
      const numerics::Record chunks = numerics::measure(recipe, kernel, 2, 1);

      CHECK_THAT(chunks.truth, ContainsSubstring("keys in"));
      CHECK_THAT(whole.truth, !ContainsSubstring("keys in"));
      CHECK(chunks.shape == whole.shape);
      // The outputs are the same and so are their errors, up to the truth's last bits.
      CHECK(chunks.error.ulp_histogram == whole.error.ulp_histogram);
      CHECK(
          same(static_cast<float>(chunks.error.max_ulp), static_cast<float>(whole.error.max_ulp)));
      CHECK(chunks.not_finite == whole.not_finite);
      CHECK(chunks.verdict.judgement == whole.verdict.judgement);
      CHECK(same(chunks.verdict.worst.got, whole.verdict.worst.got));
      CHECK(chunks.eta == whole.eta);
    }
}

TEST_CASE("a record needs no more memory for more keys", "[numerics][quick]") {
  // 2^40 bytes of keys could not even be reserved.
  const reference::Recipe recipe = reference::parse_recipe("n_q=1 n_kv=2147483648 d=64 rows=1");

  CHECK_NOTHROW(reference::KeyStream(recipe, reference::kMinKeysAtOnce).chunk((1 << 21) - 1));
}
