/// Unevaluated sums hi + lo of two doubles, and what their arithmetic costs.
///
/// Requires  rounding to nearest, no overflow; a translation unit compiled with -ffp-contract=off
///           (nvcc: -fmad=false)
/// Error     stated at each operation, u = 2^-53; derived in CERTIFIED.md under the numbers given
/// Source    Knuth (TwoSum); Joldes, Muller and Popescu 2017 (addition)
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define FA1_HOST_DEVICE __host__ __device__
#else
#define FA1_HOST_DEVICE
#endif

namespace fa1::reference {

struct Pair {
  double hi = 0.0;
  double lo = 0.0;
};

/// a + b and its error, exactly.
FA1_HOST_DEVICE inline Pair two_sum(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;
  return {sum, (a - (sum - back)) + (b - back)};
}

/// (7) Relative error at most 3.1 u^2.
FA1_HOST_DEVICE inline Pair add(const Pair& a, const Pair& b) {
  const Pair s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  const Pair v = two_sum(s.hi, s.lo + t.hi);
  return two_sum(v.hi, t.lo + v.lo);
}

/// (11) Relative error below 2^-102.
FA1_HOST_DEVICE inline Pair multiply(const Pair& a, const Pair& b) {
  const double product = a.hi * b.hi;
  return two_sum(product, std::fma(a.hi, b.hi, -product) + (a.hi * b.lo + a.lo * b.hi));
}

/// (9) Relative error below 2^-102.
FA1_HOST_DEVICE inline Pair divide(const Pair& a, const Pair& b) {
  const double quotient = a.hi / b.hi;
  const double rest = std::fma(-quotient, b.hi, a.hi) + (a.lo - quotient * b.lo);
  return two_sum(quotient, rest / b.hi);
}

/// Is a the larger? Both normalised: |lo| at most half an ulp of hi.
FA1_HOST_DEVICE inline bool exceeds(const Pair& a, const Pair& b) {
  return a.hi > b.hi || (a.hi == b.hi && a.lo > b.lo);
}

} // namespace fa1::reference
