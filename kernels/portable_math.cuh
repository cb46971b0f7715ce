/// An exponential and a logarithm that have the same bits on every machine: they use nothing but
/// IEEE double operations, in an order that the text fixes.
///
/// In a translation unit that includes this file before the kernels, the `expf` and `logf` of the
/// kernels in namespace fa1::kernels are these; that and no fusing of a*b+c make a build whose
/// outputs are equal bit for bit on any CPU and any GPU (the law cpu-gpu). Otherwise they are the
/// platform's.
///
/// expf      e^x for every float x, rounded from a double whose relative error is below 2^-46:
///           within 0.5 + 2^-22 ulp; relative error at most u (1 + 2^-22) where the result is
///           normal, absolute error at most 2^-150 (1 + 2^-22) below; e^-inf = 0, e^inf = inf,
///           NaN of NaN. Subnormal results are kept.
/// logf      ln x for every float x, within 0.5 + 2^-20 ulp; ln 0 = -inf, ln inf = inf, NaN of
///           negative x and of NaN
/// Requires  no contraction of a*b+c (-ffp-contract=off, -fmad=false), rounding to nearest
/// Proof     expf: n = rint(x log2 e), r = x - n ln 2 with |r| <= 0.3467. kLn2Hi has 33 bits and
///           |n| <= 151, so n kLn2Hi and the subtraction from x are exact; the rest of ln 2 costs
///           below 2^-53. The series stops at r^11 / 11!: what follows is below r^12 / 12! * 1.03 <
///           2^-47; Horner's roundings add below 2^-51. The power of two is exact.
///           logf: x = m 2^e, m in [sqrt 1/2, sqrt 2), s = (m - 1) / (m + 1), |s| < 0.1716; the series
///           2 (s + s^3 / 3 + ... + s^17 / 17) stops 2^-50 (relative) short. e = 0: the result is
///           the series, whose first term carries the relative error of m - 1, which is exact;
///           otherwise |e ln 2| >= 2 |ln m|, so nothing cancels.
///           Tests hold both against MPFR.
#pragma once

#include "kernels/simt/cuda_vocabulary.hpp"

#include <string.h> // NOLINT(modernize-deprecated-headers): memcpy without std::, as CUDA has it

namespace fa1::kernels {
namespace portable {

static inline __device__ double with_bits(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline __device__ unsigned long long bits_of(double x) {
  unsigned long long bits;
  memcpy(&bits, &x, sizeof x);
  return bits;
}

/// 2^n, for n of a normal double.
static inline __device__ double power_of_two(int n) {
  return with_bits(static_cast<unsigned long long>(n + 1023) << 52);
}

constexpr double kLn2Hi = 0x1.62e42fefp-1; ///< 33 bits
constexpr double kLn2Lo = 0x1.473de6af278edp-34;

static inline __device__ float expf(float x) {
  if (x != x)
    return x + x;
  if (x > 89.0f) // e^89 > 2^128
    return FA1_INFINITY;
  if (x < -104.0f) // e^-104 < 2^-150
    return 0.0f;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kRounder = 0x1.8p+52; // its last bit is 1
  const double wide = static_cast<double>(x);
  const double n = (wide * kLog2E + kRounder) - kRounder;
  const double r = (wide - n * kLn2Hi) - n * kLn2Lo;
  double series = 1.0 / 39916800.0;
  series = series * r + 1.0 / 3628800.0;
  series = series * r + 1.0 / 362880.0;
  series = series * r + 1.0 / 40320.0;
  series = series * r + 1.0 / 5040.0;
  series = series * r + 1.0 / 720.0;
  series = series * r + 1.0 / 120.0;
  series = series * r + 1.0 / 24.0;
  series = series * r + 1.0 / 6.0;
  series = series * r + 0.5;
  series = series * r + 1.0;
  series = series * r + 1.0;
  return static_cast<float>(series * power_of_two(static_cast<int>(n)));
}

static inline __device__ float logf(float x) {
  // NOLINTBEGIN(misc-redundant-expression): NaN is told and made without a function
  if (x != x || x < 0.0f) {
    const float nan = x - x; // 0, or NaN of NaN and of -inf
    return nan / nan;
  }
  // NOLINTEND(misc-redundant-expression)
  if (x == 0.0f)
    return -FA1_INFINITY;
  if (x == FA1_INFINITY)
    return x;
  const unsigned long long bits = bits_of(static_cast<double>(x));
  int e = static_cast<int>(bits >> 52) - 1023;
  double m = with_bits((bits & 0xfffffffffffffULL) | (1023ULL << 52));
  if (m > 1.4142135623730951) {
    m = 0.5 * m;
    e = e + 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double series = 1.0 / 17.0;
  series = series * s2 + 1.0 / 15.0;
  series = series * s2 + 1.0 / 13.0;
  series = series * s2 + 1.0 / 11.0;
  series = series * s2 + 1.0 / 9.0;
  series = series * s2 + 1.0 / 7.0;
  series = series * s2 + 1.0 / 5.0;
  series = series * s2 + 1.0 / 3.0;
  series = series * s2 + 1.0;
  const double ln_m = 2.0 * s * series;
  const double n = static_cast<double>(e);
  return static_cast<float>(n * kLn2Hi + (n * kLn2Lo + ln_m));
}

} // namespace portable

// Found before ::expf and ::logf by everything in this namespace.
using portable::expf;
using portable::logf;

} // namespace fa1::kernels
