#include "numerics/ulp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <limits>

using namespace fa1::numerics;

namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
} // namespace

TEST_CASE("an ulp is the spacing of floats at a value", "[numerics][quick]") {
  for (const float x : {1.0f, 1.5f, 0x1.fffffep0f, 2.0f, 0x1p-126f, 0x1p-100f, 0x1p100f})
    CHECK(ulp_of(x) == double{std::nextafterf(x, kInfinity)} - double{x});

  CHECK(ulp_of(0.0) == 0x1p-149);
  CHECK(ulp_of(-0x1p-140) == 0x1p-149);
  CHECK(ulp_of(-3.0) == 0x1p-22);
  CHECK(std::isnan(ulp_of(std::numeric_limits<double>::infinity())));
}

TEST_CASE("the distance of two floats counts the floats between them", "[numerics][quick]") {
  CHECK(float_distance(1.0f, 1.0f) == 0);
  CHECK(float_distance(1.0f, std::nextafterf(1.0f, 2.0f)) == 1);
  CHECK(float_distance(0.0f, -0.0f) == 0);
  CHECK(float_distance(kTiny, -kTiny) == 2);
  CHECK(float_distance(kMax, kInfinity) == 1);
  CHECK(float_distance(-kInfinity, kInfinity) == 2 * float_distance(0.0f, kInfinity));
  CHECK(float_distance(0x1p-126f, 0x1p-127f) == 1 << 22); // every subnormal counts
}

TEST_CASE("a NaN is at no finite distance from a number and at none from a NaN",
          "[numerics][quick]") {
  const float number = GENERATE(0.0f, 1.0f, kMax, kInfinity, -kInfinity);

  CHECK(float_distance(kNaN, number) == kNanDistance);
  CHECK(float_distance(number, kNaN) == kNanDistance);
  CHECK(float_distance(kNaN, -kNaN) == 0);
}

TEST_CASE("equal bits tell the zeros apart and all NaN together", "[numerics][quick]") {
  CHECK(same_bits(0.0f, 0.0f));
  CHECK_FALSE(same_bits(0.0f, -0.0f));
  CHECK(same_bits(kNaN, -std::nanf("7")));
  CHECK_FALSE(same_bits(kNaN, 1.0f));
  CHECK_FALSE(same_bits(kMax, kInfinity));
}
