#include "numerics/error.hpp"

#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace fa1;

namespace {

/// A 1 x 1 x n problem with hand-made outputs, truths and bounds: units are u * 2 = 2^-23.
struct Hand {
  reference::State state;
  reference::Truth truth;
  numerics::Bounds bounds;

  explicit Hand(std::int64_t columns) {
    state.O = reference::Tensor<float>(1, 1, columns);
    truth.O = reference::Tensor<reference::Enclosed>(1, 1, columns);
    bounds.O = bounds.expected = bounds.weighted = reference::Tensor<double>(1, 1, columns);
    std::ranges::fill(bounds.O.elements(), 0x1p-20);
    std::ranges::fill(bounds.expected.elements(), 0x1p-22);
    std::ranges::fill(bounds.weighted.elements(), 2.0);
  }
};

} // namespace

TEST_CASE("the error keeps the digits that a double-double truth has", "[numerics][quick]") {
  CHECK(numerics::error_of(1.0f, {1.0, 0x1p-80, 0.0}) == -0x1p-80);
  CHECK(numerics::error_of(1.0f, {1.0 + 0x1p-52, -0x1p-60, 0.0}) == -(0x1p-52 - 0x1p-60));
}

TEST_CASE("max, RMS and signed mean are those of the errors in units of u sum p|v|",
          "[numerics][quick]") {
  Hand hand(2);
  std::ranges::fill(hand.state.O.elements(), 1.0f);
  hand.truth.O(0, 0, 0) = {1.0 - 3 * 0x1p-23, 0.0, 0.0}; // +3 units
  hand.truth.O(0, 0, 1) = {1.0 + 4 * 0x1p-23, 0.0, 0.0}; // -4 units

  const auto summary = numerics::summarize(hand.state, hand.truth, hand.bounds);

  CHECK(summary.elements == 2);
  CHECK(summary.max_relative == 4.0);
  CHECK(summary.rms_relative == std::sqrt((9.0 + 16.0) / 2.0));
  CHECK(summary.mean_relative == -0.5);
  CHECK(summary.max_fraction == 0.5);   // 2^-21 of 2^-20
  CHECK(summary.max_expected == 2.0);   // 2^-21 of 2^-22
  CHECK(summary.bound_relative == 8.0); // 2^-20 in units of 2^-23
  CHECK(summary.max_ulp == 6.0);        // 3 * 2^-23 just below 1, where an ulp is 2^-24
}

TEST_CASE("the error of l is taken at the computed maximum, in units of u l", "[numerics][quick]") {
  Hand hand(0);
  hand.truth.l = {{4.0, 0.0, 0.0}, {1.0, 0.0, 0.0}};
  hand.truth.m = {{1.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
  hand.state.l = {4.0f + 0x1p-19f, 0.0f};
  hand.state.m = {1.0f, 1.0f};
  hand.state.l[1] = static_cast<float>(std::exp(-1.0)); // the sum at 1 of a score of 0

  const auto summary = numerics::summarize(hand.state, hand.truth, hand.bounds);

  CHECK(summary.max_l_relative == 8.0); // 2^-21
  CHECK(numerics::l_at(1.0, hand.truth, 1).hi == std::exp(-1.0));
}

TEST_CASE("every element is counted in exactly one ulp bin", "[numerics][quick]") {
  Hand hand(6);
  const double ulps[] = {0.0, 0.5, 0.75, 1.0, 3.0, 1e30};
  for (std::int64_t i = 0; i < 6; ++i)
    hand.truth.O(0, 0, i) = {0.0, 0.0, 0.0};
  for (std::int64_t i = 0; i < 6; ++i) {
    hand.state.O(0, 0, i) = 1.0f;
    hand.truth.O(0, 0, i) = {1.0 + ulps[i] * 0x1p-23, 0.0, 0.0};
  }
  hand.truth.O(0, 0, 5) = {std::numeric_limits<double>::quiet_NaN(), 0.0, 0.0};

  const auto histogram = numerics::summarize(hand.state, hand.truth, hand.bounds).ulp_histogram;

  CHECK(std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0}) == 6);
  CHECK(histogram[0] == 1);                      // exact
  CHECK(histogram[1] == 1);                      // (0, 1/2]
  CHECK(histogram[2] == 2);                      // (1/2, 1]
  CHECK(histogram[4] == 1);                      // (2, 4]
  CHECK(histogram[numerics::kUlpBins - 1] == 1); // NaN
}

TEST_CASE("a single NaN makes every maximum NaN", "[numerics][quick]") {
  Hand hand(3);
  hand.state.O(0, 0, 1) = std::numeric_limits<float>::quiet_NaN();

  const auto summary = numerics::summarize(hand.state, hand.truth, hand.bounds);

  CHECK(std::isnan(summary.max_relative));
  CHECK(std::isnan(summary.max_ulp));
  CHECK(std::isnan(summary.max_fraction));
}
