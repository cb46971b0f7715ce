#include "numerics/formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace fa1::numerics {
namespace {

constexpr std::array kFormats{
    Format{"fp32", 8, 23, 127, true, Overflow::infinity,
           "IEEE binary32: inputs, outputs, carries and every intermediate of the kernels here; "
           "every tensor is [batch_heads][rows][columns], row-major and contiguous"},
    Format{"tf32", 8, 10, 127, true, Overflow::infinity,
           "what NVIDIA tensor cores keep of an fp32 operand; 19 bits, here with subnormals and "
           "rounded to nearest"},
    Format{"bf16", 8, 7, 127, true, Overflow::infinity, "bfloat16: the upper half of an fp32"},
    Format{"fp16", 5, 10, 15, true, Overflow::infinity, "IEEE binary16"},
    Format{"e4m3", 4, 3, 7, false, Overflow::saturates,
           "fp8 for values: no infinities, one NaN of each sign"},
    Format{"e5m2", 5, 2, 15, true, Overflow::saturates,
           "fp8 for range: as fp16 with a shorter "
           "fraction, but overflow saturates"},
};

constexpr int kDoubleFraction = 52;
constexpr int kDoubleBias = 1023;

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kDoubleBias)
                               << kDoubleFraction);
}

std::uint32_t low_ones(int count) { return (std::uint32_t{1} << count) - 1; }

} // namespace

double Format::u() const { return power_of_two(-fraction_bits - 1); }

double Format::smallest_normal() const { return power_of_two(least_exponent()); }

double Format::smallest() const { return power_of_two(least_exponent() - fraction_bits); }

double Format::largest() const {
  // Without infinities the fraction of all ones is taken by NaN.
  const double fraction = 2.0 - power_of_two(-fraction_bits) * (infinities ? 1.0 : 2.0);
  return fraction * power_of_two(largest_exponent());
}

std::span<const Format> all_formats() { return kFormats; }

const Format& format_of(FormatId id) { return kFormats[static_cast<std::size_t>(id)]; }

const Format* find_format(std::string_view id) {
  const auto* const found = std::ranges::find(kFormats, id, &Format::id);
  return found == kFormats.end() ? nullptr : found;
}

std::string_view name_of(Overflow overflow) {
  return overflow == Overflow::infinity ? "infinity" : "saturates";
}

float round_to(const Format& format, double x) {
  if (std::isnan(x))
    return std::numeric_limits<float>::quiet_NaN();
  const double largest = format.largest();
  double rounded = std::fabs(x);
  if (rounded < 2.0 * largest) {
    // Adding 2^52 steps leaves a whole number of steps, ties to even: a step is the spacing
    // of the format at |x|, and |x| is below 2^25 of them.
    const auto exponent =
        static_cast<int>(std::bit_cast<std::uint64_t>(rounded) >> kDoubleFraction) - kDoubleBias;
    const int step = std::max(exponent, format.least_exponent()) - format.fraction_bits;
    const double shift = power_of_two(step + kDoubleFraction);
    rounded = (rounded + shift) - shift;
  }
  if (rounded > largest) {
    if (format.overflow == Overflow::saturates)
      rounded = largest;
    else if (format.infinities)
      rounded = std::numeric_limits<double>::infinity();
    else
      rounded = std::numeric_limits<double>::quiet_NaN();
  }
  return static_cast<float>(std::copysign(rounded, x));
}

float round_to(const Format& format, const reference::Pair& x) {
  if (x.lo == 0.0 || !std::isfinite(x.hi))
    return round_to(format, x.hi);
  // To odd: of the two doubles around the sum, the one whose last bit is set.
  auto bits = std::bit_cast<std::uint64_t>(x.hi);
  if ((bits & 1) == 0) {
    const bool outwards = std::signbit(x.lo) == std::signbit(x.hi);
    bits = outwards ? bits + 1 : bits - 1;
  }
  return round_to(format, std::bit_cast<double>(bits));
}

std::uint32_t encode(const Format& format, float value) {
  const std::uint32_t sign = std::signbit(value) ? 1u << (format.bits() - 1) : 0u;
  const std::uint32_t exponents = low_ones(format.exponent_bits) << format.fraction_bits;
  if (std::isnan(value)) // the quiet one: the first bit of the fraction, or all of them
    return sign | exponents |
           (format.infinities ? 1u << (format.fraction_bits - 1) : low_ones(format.fraction_bits));
  if (std::isinf(value))
    return sign | exponents;
  const double size = std::fabs(double{value});
  const double smallest_normal = format.smallest_normal();
  if (size < smallest_normal) // subnormals and zero count in steps
    return sign | static_cast<std::uint32_t>(size / format.smallest());
  const int exponent = std::ilogb(size);
  const double fraction =
      (size * power_of_two(-exponent) - 1.0) * power_of_two(format.fraction_bits);
  return sign | static_cast<std::uint32_t>(exponent + format.bias) << format.fraction_bits |
         static_cast<std::uint32_t>(fraction);
}

float decode(const Format& format, std::uint32_t code) {
  const bool negative = (code >> (format.bits() - 1) & 1) != 0;
  const std::uint32_t fraction = code & low_ones(format.fraction_bits);
  const std::uint32_t exponent = code >> format.fraction_bits & low_ones(format.exponent_bits);
  const bool top = exponent == low_ones(format.exponent_bits);
  double size = 0.0;
  if (top && format.infinities)
    size = fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  else if (top && fraction == low_ones(format.fraction_bits))
    size = std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    size = fraction * format.smallest();
  else
    size = (1.0 + fraction * power_of_two(-format.fraction_bits)) *
           power_of_two(static_cast<int>(exponent) - format.bias);
  return static_cast<float>(negative ? -size : size);
}

} // namespace fa1::numerics
