/// Number formats as data, and one correct rounding into each of them.
///
/// Computes  round_to   the value of a format nearest to x, ties to even, subnormals kept; rounded
///                      once, also from the unevaluated sum of a Pair: the pair is first rounded to
///                      odd in double, which no format of at most 51 bits can tell from the sum
///           encode     the code of a value of the format: sign, biased exponent, fraction
///           decode     the way back
/// Requires  encode: a value of the format (round_to gives one), an Inf only where the format has
///           one. Pair: |lo| at most half an ulp of hi. Rounding to nearest, nothing flushed
/// Error     half an ulp of the format; a value of the format is returned as it is
/// Special   every value of every format is an fp32 number, so float holds them all.
///           NaN gives NaN (the payload is not kept); -0 and what rounds to it give -0.
///           Overflow: what would round beyond `largest` with an unbounded exponent, and Inf:
///             infinity    +-Inf; NaN in a format without infinities
///             saturates   +-largest, of an Inf too; this is satfinite of PTX ISA `cvt`
///           NaN codes: all ones in the exponent and a fraction that is not 0; in a format without
///           infinities all ones in exponent and fraction and nothing else (e4m3: 0x7f and 0xff)
/// Source    IEEE 754-2019; bfloat16 and TF32 as in the CUDA C++ Programming Guide; OCP 8-bit
///           Floating Point Specification 1.0 (e4m3, e5m2)
#pragma once

#include "reference/double_double.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace fa1::numerics {

enum class Overflow { infinity, saturates };

struct Format {
  std::string_view id;
  int exponent_bits = 0;
  int fraction_bits = 0; ///< without the leading one
  int bias = 0;
  bool infinities =
      true; ///< false: the largest exponent holds numbers too, and one NaN of each sign
  Overflow overflow = Overflow::infinity; ///< what round_to does; the codes do not depend on it
  std::string_view says;

  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int least_exponent() const { return 1 - bias; } ///< of a normal number
  int largest_exponent() const { return (1 << exponent_bits) - 1 - bias - (infinities ? 1 : 0); }
  double u() const; ///< unit roundoff: half the distance from 1 to the next value
  double smallest_normal() const;
  double smallest() const; ///< the smallest positive value, subnormal
  double largest() const;
};

enum class FormatId : std::uint8_t { fp32, tf32, bf16, fp16, e4m3, e5m2 };

/// In the order of FormatId.
std::span<const Format> all_formats();
const Format& format_of(FormatId id);

/// The format of that name, or null.
const Format* find_format(std::string_view id);

/// `infinity`, `saturates`.
std::string_view name_of(Overflow overflow);

float round_to(const Format& format, double x);
float round_to(const Format& format, const reference::Pair& x);

std::uint32_t encode(const Format& format, float value);
float decode(const Format& format, std::uint32_t code);

} // namespace fa1::numerics
