/// Does a truth with its radius agree with an interval that contains the exact value?
///
/// Computes  containment and sharpness of `Enclosed` against MPFI intervals
/// Error     none: the comparison is itself made in outward rounded intervals
/// Special   NaN agrees with NaN, an infinity with the same infinity, both with radius 0
#pragma once

#include "reference/attention.hpp"

#include <cmath>

namespace fa1::reference {

/// |hi + lo - x| <= radius for every x of the interval.
template <unsigned Digits> bool encloses(const Enclosed& truth, const Interval<Digits>& exact) {
  if (!std::isfinite(truth.hi) || std::isnan(truth.lo))
    return false;
  const Interval<Digits> value = Interval<Digits>(truth.hi) + Interval<Digits>(truth.lo);
  const Interval<Digits> distance = abs(Interval<Digits>(exact - value));
  return upper(distance) <= Interval<Digits>(truth.radius);
}

/// Is the interval itself narrow against the radius? Otherwise it cannot contradict it.
template <unsigned Digits> bool sharp(const Interval<Digits>& exact, const Enclosed& truth) {
  return Interval<Digits>(upper(exact) - lower(exact)) <= Interval<Digits>(truth.radius / 8.0);
}

inline bool is_exactly(const Enclosed& truth, double value) {
  const bool same = std::isnan(value)
                        ? std::isnan(truth.hi)
                        : truth.hi == value && std::signbit(truth.hi) == std::signbit(value);
  return same && truth.lo == 0.0 && truth.radius == 0.0;
}

} // namespace fa1::reference
