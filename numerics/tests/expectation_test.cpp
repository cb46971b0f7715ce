// The predicted RMS error against the measured one, over families, lengths and tile widths.
#include "numerics/expectation.hpp"

#include "numerics/error.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iostream>

using namespace fa1;

namespace {

struct Ratio {
  double O = 0.0, l = 0.0; ///< measured over predicted RMS
};

Ratio ratio_of(std::string_view recipe, const kernels::Kernel& kernel) {
  const auto problem = reference::make_problem(reference::parse_recipe(recipe));
  const auto state = kernels::run(kernel, problem);
  const auto truth = reference::certify(problem);
  const auto expected = numerics::expected_error(problem, kernel.arithmetic);
  double O = 0.0, O_expected = 0.0, l = 0.0, l_expected = 0.0;
  for (std::size_t e = 0; e < state.O.elements().size(); ++e) {
    O += std::pow(numerics::error_of(state.O.elements()[e], truth.O.elements()[e]), 2);
    O_expected += expected.O.elements()[e];
  }
  for (std::size_t i = 0; i < state.l.size(); ++i) {
    const double exact = truth.l[i].hi * std::exp(truth.m[i].hi - double{state.m[i]});
    l += std::pow(double{state.l[i]} / exact - 1.0, 2);
    l_expected += expected.l[i];
  }
  return {std::sqrt(O / O_expected), std::sqrt(l / l_expected)};
}

void measured_is_predicted(std::initializer_list<int> lengths, int rows) {
  Ratio least{HUGE_VAL, HUGE_VAL}, most;
  for (const char* family : {"v=normal", "v=positive", "v=normal order=ascending",
                             "v=positive order=descending", "v=normal sigma=0.3"})
    for (const int n_kv : lengths)
      for (const char* tile : {"Br1xBc1xD8.cpu", "Br8xBc4xD8.cpu", "Br16xBc16xD8.cpu",
                               "Br8xBc128xD8.cpu", "Br8xBc128xD8.cpu-fma"}) {
        const auto recipe = fmt::format("n_q={} n_kv={} d=8 {}", rows, n_kv, family);
        const auto id = fmt::format("fa1.{}", tile);
        const auto& kernel = kernels::find_kernel(id, {});
        if (n_kv > 1024 * kernel.Bc)
          continue; // addends are lost one way
        CAPTURE(recipe, id);

        const Ratio ratio = ratio_of(recipe, kernel);

        CHECK(ratio.O <= numerics::kExpectedAtMost);
        CHECK(ratio.l <= numerics::kExpectedAtMost);
        CHECK(ratio.O >= numerics::kExpectedAtLeast);
        CHECK(ratio.l >= numerics::kExpectedAtLeast);
        least = {std::min(least.O, ratio.O), std::min(least.l, ratio.l)};
        most = {std::max(most.O, ratio.O), std::max(most.l, ratio.l)};
      }
  fmt::print("measured over predicted RMS: O {:.3f} to {:.3f}, l {:.3f} to {:.3f}\n", least.O,
             most.O, least.l, most.l);
}

} // namespace

TEST_CASE("the RMS error is the predicted one at short lengths", "[numerics][expectation][quick]") {
  measured_is_predicted({64}, 256);
}

TEST_CASE("the RMS error is the predicted one up to 4096 keys", "[numerics][expectation][deep]") {
  measured_is_predicted({16, 64, 256, 1024, 4096}, 256);
}

TEST_CASE("one key carries the error of one product alone", "[numerics][expectation][quick]") {
  const auto problem = reference::make_problem(reference::parse_recipe("n_kv=1 d=1 Q=0 V=3"));

  const auto expected = numerics::expected_error(problem, {});

  CHECK(expected.O(0, 0, 0) == 0x1p-44 / 12.0); // ulp(3)^2 / 12 for the product p v = 1 * 3
  CHECK(expected.l[0] == 0.0);
}

TEST_CASE("nothing is expected of a problem outside the conditions",
          "[numerics][expectation][quick]") {
  const auto problem = reference::make_problem(reference::parse_recipe("n_kv=2 d=1 put=K:0,0:inf"));

  CHECK(!numerics::expected_error(problem, {}).obstacle.empty());
}

TEST_CASE("one row alone may stray further than a row among many",
          "[numerics][expectation][quick]") {
  const std::vector<double> one{1.0}, many(1000, 1.0);

  const double alone = numerics::squares_allowed(one);
  const double shared = numerics::squares_allowed(many) / 1000.0;

  CHECK(alone > shared);
  CHECK(shared > numerics::kExpectedAtMost * numerics::kExpectedAtMost);
  CHECK(numerics::sum_allowed(many) < 1000.0 * numerics::sum_allowed(one));
}
