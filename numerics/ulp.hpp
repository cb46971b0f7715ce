/// Units in the last place of fp32.
///
/// ulp_of(x)             the spacing of floats at |x|: 2^(e-23) for |x| in [2^e, 2^(e+1)), never
///                       below 2^-149; x may be any finite double, Inf and NaN give NaN
/// float_distance(a, b)  how many floats lie between a and b, counted on the encodings: neighbours
///                       are 1 apart, -0 and +0 are 0 apart, FLT_MAX and Inf are 1 apart; a NaN is
///                       kNanDistance from everything that is no NaN and 0 from another NaN
/// same_bits(a, b)       equal encodings, any NaN equal to any NaN (payload and sign of NaN are
///                       ignored)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fa1::numerics {

inline constexpr double kU = 0x1p-24; ///< unit roundoff of fp32

inline double ulp_of(double x) {
  if (!std::isfinite(x))
    return std::numeric_limits<double>::quiet_NaN();
  if (std::fabs(x) < 0x1p-126)
    return 0x1p-149;
  return std::ldexp(1.0, std::ilogb(x) - 23);
}

inline constexpr std::int64_t kNanDistance = std::numeric_limits<std::int64_t>::max();

inline std::int64_t float_distance(float a, float b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b) ? 0 : kNanDistance;
  const auto ordered = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return bits >= 0 ? std::int64_t{bits} : -std::int64_t{bits & 0x7fffffff};
  };
  const std::int64_t distance = ordered(a) - ordered(b);
  return distance < 0 ? -distance : distance;
}

inline bool same_bits(float a, float b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

} // namespace fa1::numerics
