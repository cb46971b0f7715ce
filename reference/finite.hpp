/// Is every float a finite number?
///
/// Computes  the largest |x| through its bits, which order as the numbers do: Inf is above all of
///           them and NaN above Inf, so one comparison at the end answers
/// Special   no entries: 0, finite
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace fa1::reference {

/// NaN where there is one.
inline float largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float x : values)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

inline bool all_finite(std::span<const float> values) {
  return std::isfinite(largest_magnitude(values));
}

} // namespace fa1::reference
