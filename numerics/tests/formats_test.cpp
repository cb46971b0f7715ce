// Claims about formats: each rounding is the nearest value, ties to even, and every code means what
// its specification says. Formats of up to 19 bits are asked on every value and around every
// halfway point; Eigen's half and bfloat16 are an oracle that shares no code with this.
#include "numerics/formats.hpp"

#include "numerics/ulp.hpp"
#include "reference/recipe.hpp"

#include <Eigen/Core>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace fa1;
using numerics::Format;
using numerics::format_of;
using numerics::FormatId;
using numerics::round_to;
using numerics::same_bits;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The non-negative finite values in the order of their codes, from the definition of a
/// floating-point number alone.
std::vector<double> table_of(int exponent_bits, int fraction_bits, int bias, bool infinities) {
  std::vector<double> values;
  const int exponents = (1 << exponent_bits) - (infinities ? 1 : 0), fractions = 1 << fraction_bits;
  for (int exponent = 0; exponent < exponents; ++exponent)
    for (int fraction = 0; fraction < fractions; ++fraction)
      values.push_back(exponent == 0
                           ? std::ldexp(fraction, 1 - bias - fraction_bits)
                           : std::ldexp(fractions + fraction, exponent - bias - fraction_bits));
  if (!infinities)
    values.pop_back(); // its last code is NaN
  return values;
}

std::vector<double> table_of(const Format& format) {
  return table_of(format.exponent_bits, format.fraction_bits, format.bias, format.infinities);
}

/// Formats whose values can all be tried.
const Format& any_small_format() {
  return format_of(
      GENERATE(FormatId::tf32, FormatId::bf16, FormatId::fp16, FormatId::e4m3, FormatId::e5m2));
}

template <class EigenType> EigenType eigen_of(std::uint16_t code) {
  return Eigen::numext::bit_cast<EigenType>(code);
}

/// Every code there and back through Eigen's type, and every point halfway between two neighbours
/// with the floats next to it.
template <class EigenType> void compare_with_eigen(const Format& format) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto theirs = static_cast<float>(eigen_of<EigenType>(static_cast<std::uint16_t>(code)));
    const float ours = decode(format, code);
    REQUIRE(same_bits(ours, theirs));
    REQUIRE(same_bits(round_to(format, ours), theirs));
    if (!std::isnan(ours))
      REQUIRE(encode(format, ours) == code);
    if (!std::isfinite(ours))
      continue;

    const float next = decode(format, code + 1); // away from zero
    const float beyond = std::isfinite(next) ? next : 2.0f * ours;
    const float halfway = std::isfinite(next) ? ours + (next - ours) / 2.0f : ours;
    for (const float x : {halfway, std::nextafter(halfway, ours), std::nextafter(halfway, beyond)})
      REQUIRE(same_bits(round_to(format, x), static_cast<float>(EigenType(x))));
  }
}

} // namespace

TEST_CASE("fp16 is Eigen's half on every code and around every halfway point",
          "[numerics][quick]") {
  compare_with_eigen<Eigen::half>(format_of(FormatId::fp16));
}

TEST_CASE("bf16 is Eigen's bfloat16 on every code and around every halfway point",
          "[numerics][quick]") {
  compare_with_eigen<Eigen::bfloat16>(format_of(FormatId::bf16));
}

TEST_CASE("every code of a small format means what its definition says", "[numerics][quick]") {
  const Format& format = any_small_format();
  CAPTURE(format.id);
  const std::vector<double> values = table_of(format);
  const std::uint32_t sign = 1u << (format.bits() - 1);

  for (std::uint32_t code = 0; code < sign; ++code) {
    const float positive = decode(format, code), negative = decode(format, code | sign);
    if (code < values.size()) {
      REQUIRE(double{positive} == values[code]);
      REQUIRE(encode(format, positive) == code);
      REQUIRE(same_bits(round_to(format, positive), positive));
    } else {
      REQUIRE((std::isinf(positive) == (format.infinities && code == values.size())));
      REQUIRE((std::isinf(positive) || std::isnan(positive)));
    }
    REQUIRE(same_bits(negative, -positive));
    if (!std::isnan(negative))
      REQUIRE(encode(format, negative) == (code | sign));
  }
  CHECK(values.back() == format.largest());
  CHECK(values[1] == format.smallest());
}

TEST_CASE("a tie goes to the even code, and what is no tie to the nearer value",
          "[numerics][quick]") {
  const Format& format = any_small_format();
  const double sign = GENERATE(1.0, -1.0);
  CAPTURE(format.id, sign);
  const std::vector<double> values = table_of(format);

  for (std::size_t code = 0; code + 1 < values.size(); ++code) {
    const double low = values[code], high = values[code + 1];
    const double halfway = low + (high - low) / 2.0;
    const double even = code % 2 == 0 ? low : high;
    const auto nearest = [&](double x) { return double{round_to(format, sign * x)} * sign; };
    REQUIRE(nearest(halfway) == even);
    REQUIRE(nearest(std::nextafter(halfway, 0.0)) == low);
    REQUIRE(nearest(std::nextafter(halfway, kInfinity)) == high);
    REQUIRE(std::signbit(round_to(format, sign * halfway)) == (sign < 0.0));
  }
}

TEST_CASE("a pair that only its lower half takes off a tie is rounded once", "[numerics][quick]") {
  const Format& format = any_small_format();
  const double sign = GENERATE(1.0, -1.0);
  CAPTURE(format.id, sign);
  const std::vector<double> values = table_of(format);

  for (std::size_t code = 1; code + 1 < values.size(); ++code) {
    const double low = values[code], high = values[code + 1];
    const double halfway = low + (high - low) / 2.0, little = low * 0x1p-90;
    const auto nearest = [&](double hi, double lo) {
      return double{round_to(format, reference::Pair{sign * hi, sign * lo})} * sign;
    };
    REQUIRE(nearest(halfway, little) == high);
    REQUIRE(nearest(halfway, -little) == low);
    REQUIRE(nearest(halfway, 0.0) == (code % 2 == 0 ? low : high));
    REQUIRE(nearest(low, little) == low);
    REQUIRE(nearest(high, -little) == high);
  }
}

TEST_CASE("fp32 rounds as the machine does, a pair as its exact sum", "[numerics][quick]") {
  const Format& fp32 = format_of(FormatId::fp32);
  const auto recipe = reference::parse_recipe("n_q=1000 n_kv=1 d=4 dist=pow2 seed=3");
  const auto noise = reference::parse_recipe("n_q=1000 n_kv=1 d=4 dist=uniform seed=4");
  const auto sizes = reference::make_problem(recipe).Q, parts = reference::make_problem(noise).Q;

  for (std::size_t e = 0; e < sizes.elements().size(); ++e) {
    const double x = double{sizes.elements()[e]} * (1.0 + double{parts.elements()[e]} * 0x1.8p-25);
    REQUIRE(same_bits(round_to(fp32, x), static_cast<float>(x)));
    REQUIRE(same_bits(round_to(fp32, x * 0x1p-140), static_cast<float>(x * 0x1p-140)));
    REQUIRE(same_bits(decode(fp32, encode(fp32, sizes.elements()[e])), sizes.elements()[e]));
    REQUIRE(encode(fp32, sizes.elements()[e]) == std::bit_cast<std::uint32_t>(sizes.elements()[e]));
  }
  // Halfway between 1 and the next float, and 2^-80 of it beyond: double alone would see the tie.
  CHECK(round_to(fp32, 1.0 + 0x1p-24) == 1.0f);
  CHECK(round_to(fp32, reference::Pair{1.0 + 0x1p-24, 0x1p-80}) == 1.0f + 0x1p-23f);
  CHECK(round_to(fp32, reference::Pair{1.0 + 0x3p-24, -0x1p-80}) == 1.0f + 0x1p-23f);
}

TEST_CASE("overflow gives Inf where the format says so, and its largest value where it saturates",
          "[numerics][quick]") {
  for (const Format& format : numerics::all_formats()) {
    CAPTURE(format.id);
    // The first number that rounds beyond: halfway to the next value that would be.
    const double step = std::ldexp(1.0, format.largest_exponent() - format.fraction_bits);
    const double limit = format.largest() + step / 2.0;
    // Where the largest value's code is odd the tie goes beyond it; e4m3's 448 has an even code.
    const double beyond = format.infinities ? limit : std::nextafter(limit, kInfinity);
    const bool saturates = format.overflow == numerics::Overflow::saturates;
    const double expected = saturates ? format.largest() : kInfinity;

    CHECK(round_to(format, std::nextafter(beyond, 0.0)) == format.largest());
    for (const double x : {beyond, 1e300, kInfinity}) {
      CHECK(round_to(format, x) == expected);
      CHECK(round_to(format, -x) == -expected);
    }
  }
}

TEST_CASE("fp8 without saturation overflows to Inf in e5m2 and to NaN in e4m3",
          "[numerics][quick]") {
  Format e4m3 = format_of(FormatId::e4m3), e5m2 = format_of(FormatId::e5m2);
  e4m3.overflow = e5m2.overflow = numerics::Overflow::infinity;

  CHECK(round_to(e4m3, 464.0) == 448.0f);
  CHECK(std::isnan(round_to(e4m3, 464.1)));
  CHECK(std::isnan(round_to(e4m3, -kInfinity)));
  CHECK(std::isinf(round_to(e5m2, 61440.0)));
  CHECK(round_to(e5m2, 61439.0) == 57344.0f);
}

TEST_CASE("NaN stays NaN, and zeros keep their sign", "[numerics][quick]") {
  for (const Format& format : numerics::all_formats()) {
    CAPTURE(format.id);

    CHECK(std::isnan(round_to(format, double{kNaN})));
    CHECK(std::isnan(decode(format, encode(format, kNaN))));
    CHECK(same_bits(round_to(format, 0.0), 0.0f));
    CHECK(same_bits(round_to(format, -0.0), -0.0f));
    CHECK(same_bits(round_to(format, -format.smallest() / 2.0), -0.0f));
    CHECK(same_bits(round_to(format, -1e-300), -0.0f));
    CHECK(double{round_to(format, 0.75 * format.smallest())} == format.smallest());
  }
}

TEST_CASE("the formats are those of their specifications", "[numerics][quick]") {
  struct Known {
    const char* id;
    int bits;
    double largest, smallest_normal, smallest, u;
  };
  for (const Known& known : {Known{"fp32", 32, 0x1.fffffep127, 0x1p-126, 0x1p-149, 0x1p-24},
                             Known{"tf32", 19, 0x1.ffcp127, 0x1p-126, 0x1p-136, 0x1p-11},
                             Known{"bf16", 16, 0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-8},
                             Known{"fp16", 16, 65504.0, 0x1p-14, 0x1p-24, 0x1p-11},
                             Known{"e4m3", 8, 448.0, 0x1p-6, 0x1p-9, 0x1p-4},
                             Known{"e5m2", 8, 57344.0, 0x1p-14, 0x1p-16, 0x1p-3}}) {
    CAPTURE(known.id);
    const Format* const format = numerics::find_format(known.id);

    REQUIRE(format != nullptr);
    CHECK(format->bits() == known.bits);
    CHECK(format->largest() == known.largest);
    CHECK(format->smallest_normal() == known.smallest_normal);
    CHECK(format->smallest() == known.smallest);
    CHECK(format->u() == known.u);
  }
  CHECK(numerics::find_format("fp64") == nullptr);
  CHECK(numerics::all_formats().size() == 6);
}
