// Claims about predictions and grades: the closed form against its own derivation, fits that give back what
// they were made of, and grades that a wrong kernel does not get.
#include "numerics/growth.hpp"

#include "numerics/emulation.hpp"
#include "numerics/fault_screens.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

using namespace fa1;
using numerics::GradedError;

namespace {

reference::Problem problem_of(std::string_view recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// Errors over the keys that are `factor` times what `element`, `row` and `problem` say.
std::vector<GradedError> errors_of(double element, double row, double problem, double power) {
  std::vector<GradedError> errors;
  for (const double keys : {64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0})
    errors.push_back({.keys = keys,
                      .limit = 4.0 * keys + 22.0,
                      .element = element * std::pow(keys, power),
                      .row = row * std::pow(keys, power),
                      .problem = problem * std::pow(keys, power),
                      .without_condition = element});
  return errors;
}

} // namespace

TEST_CASE("the closed form gives the numbers of the design for Q = 0 and normal scores",
          "[numerics][growth][quick]") {
  const auto rounded = [](double x) { return std::round(x * 100.0) / 100.0; };
  // V in [1,2]; where Q = 0 every weight is 1, and l and the sums of p are integers.
  const numerics::NearUniform equal{2.0, false, false}, normal{};

  CHECK(rounded(numerics::near_uniform_rms(4096, 1, equal)) == 22.19);
  CHECK(rounded(numerics::near_uniform_rms(4096, 64, equal)) == 2.78);
  CHECK(rounded(numerics::near_uniform_rms(4096, 4096, equal)) == 15.7);
  CHECK(rounded(numerics::near_uniform_rms(1024, 1, normal)) == 13.59);
}

TEST_CASE("the best tile is where the closed form is least", "[numerics][growth][quick]") {
  const numerics::NearUniform roundings{};
  for (const double keys : {4096.0, 262144.0}) {
    const double best = numerics::near_uniform_best_tile(keys, roundings);
    const double here = numerics::near_uniform_rms(keys, best, roundings);

    // T is a whole number of tiles; so far away the curve has risen by more than that makes.
    CHECK(here < numerics::near_uniform_rms(keys, best / 2.0, roundings));
    CHECK(here < numerics::near_uniform_rms(keys, best * 2.0, roundings));
  }
}

TEST_CASE("a fit over tiles gives back the curve it was made of", "[numerics][growth][quick]") {
  std::vector<double> Bc, rms;
  for (int power = 0; power <= 10; ++power) {
    const double width = std::ldexp(1.0, power);
    Bc.push_back(width);
    rms.push_back(std::sqrt(3.0 * 1024.0 / width + 0.5 * width * width / 1024.0));
  }

  const numerics::TileFit fit = numerics::fit_over_tiles(1024.0, Bc, rms);

  // The system is solved by Cramer's rule from sums of eleven products. Of positive terms, with at most six
  // roundings in each factor, one in their product and ten in the sum: a sum is off by 23 eps, a product of two
  // of them by 47, a difference of two such by 48 of what is subtracted.
  double xx = 0.0, xy = 0.0, yy = 0.0, x1 = 0.0, y1 = 0.0;
  for (std::size_t i = 0; i < Bc.size(); ++i) {
    const double x = 1024.0 / Bc[i] / (rms[i] * rms[i]);
    const double y = Bc[i] * Bc[i] / 1024.0 / (rms[i] * rms[i]);
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  constexpr double kOff = 48.0 * std::numeric_limits<double>::epsilon();
  const double determinant = xx * yy - xy * xy, of_determinant = kOff * (xx * yy + xy * xy);
  const auto allowed = [&](double value, double sum_of_products) {
    return (kOff * sum_of_products + value * of_determinant) / (determinant - of_determinant);
  };
  const double of_A = allowed(3.0, x1 * yy + y1 * xy), of_B = allowed(0.5, y1 * xx + x1 * xy);
  CHECK(std::fabs(fit.A - 3.0) <= of_A);
  CHECK(std::fabs(fit.B - 0.5) <= of_B);
  CHECK(std::fabs(fit.best / (std::cbrt(3.0) * std::pow(1024.0, 2.0 / 3.0)) - 1.0) <=
        of_A / 3.0 + of_B / 0.5 + kOff);
  CHECK(fit.least_at == 128.0);
}

TEST_CASE("a fit over widths on one side of the minimum has none", "[numerics][growth][quick]") {
  const std::vector<double> Bc{1.0, 2.0, 4.0}, rms{4.0, 2.0, 1.0}; // falls faster than any tile can

  CHECK(std::isnan(numerics::fit_over_tiles(1024.0, Bc, rms).best));
}

TEST_CASE("the unit of a grade is what relative changes of the inputs can do to the output",
          "[numerics][growth][quick]") {
  // Two keys, s = q k = 1 and 0, weights p and 1 - p, v = 3 and -1; kappa = 1 and 0.
  const auto problem = problem_of("scores=1,0 V=3,-1");
  const auto truth = reference::certify(problem);
  reference::State state = reference::tiled_mirror(problem, 2);
  const double o = truth.O(0, 0, 0).hi, p = 1.0 / (1.0 + std::exp(-1.0));
  const double plain = 3.0 * p + (1.0 - p), unit = plain + 2.0 * p * (3.0 - o);
  state.O(0, 0, 0) = static_cast<float>(o + 1024.0 * numerics::kU * unit);

  const GradedError error = numerics::graded_error(problem, state, truth);

  // O is rounded once more, to half an ulp of a number below 4.
  CHECK(std::fabs(error.element - 1024.0) <= 2.0 / unit);
  CHECK(std::fabs(error.without_condition - 1024.0 * unit / plain) <= 2.0 / plain);
  CHECK(error.row == error.element);
  CHECK(error.problem == error.element);
  CHECK(error.limit == 15.0);
}

TEST_CASE("the letter is the first whose unit keeps the error below f with a slope of at most 1",
          "[numerics][growth][quick]") {
  const double small = 0.5, large = 1e6;

  CHECK(numerics::grade(errors_of(small, small, small, 0.5)).letter == 'A');
  CHECK(numerics::grade(errors_of(large, small, small, 0.5)).letter == 'B');
  CHECK(numerics::grade(errors_of(large, large, small, 0.5)).letter == 'C');
  CHECK(numerics::grade(errors_of(large, large, large, 0.5)).letter == '-');
  CHECK(numerics::grade(errors_of(1e-9, 1e-9, 1e-9, 1.5)).letter ==
        '-'); // small, but it grows too fast
  CHECK(numerics::grade(errors_of(NAN, NAN, NAN, 0.5)).letter == '-');
}

TEST_CASE("FA1 gets an A, and no letter with its weights in bf16", "[numerics][growth][quick]") {
  const auto bf16 = numerics::parse_configuration("p=bf16");
  std::vector<GradedError> right, coarse;
  for (std::int64_t n_kv = 32; n_kv <= 512; n_kv *= 2)
    for (const char* input : {"v=positive", "v=normal", "sigma=8", "order=ascending"}) {
      const auto problem = problem_of(fmt::format("n_q=4 n_kv={} d=8 {}", n_kv, input));
      const auto truth = reference::certify(problem);
      right.push_back(numerics::graded_error(problem, reference::tiled_mirror(problem, 16), truth));
      coarse.push_back(
          numerics::graded_error(problem, numerics::emulate(problem, bf16, 16), truth));
    }

  CHECK(numerics::grade(right).letter == 'A');
  CHECK(numerics::grade(coarse).letter == '-');
}

TEST_CASE("errors predicted rounding by rounding see smaller faults than five expectations, and "
          "neither screen alarms on the right kernel",
          "[numerics][growth][quick]") {
  for (const auto where : {numerics::FaultyInput::K, numerics::FaultyInput::V}) {
    const numerics::SmallestFaults seen =
        numerics::smallest_faults("n_q=64 n_kv=64 d=8", 16, where, 3);

    CHECK(seen.false_alarms == 0);
    CHECK(seen.right > 0.0);
    CHECK(seen.by_squares > 0.0);
    CHECK(seen.by_squares < seen.by_lambda);
    CHECK(std::isfinite(seen.by_lambda));
  }
}
