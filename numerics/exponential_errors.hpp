/// What a sweep over fp32 arguments finds out about an exponential; the same text on the CPU and in CUDA.
///
/// Subject   a function float -> float that is to be b^x, b = e or 2
/// Arguments all 2^32 encodings in ascending order: float_at(0) ... float_at(2^32 - 1) are the NaN with a sign, -Inf,
///           the negative numbers, -0, +0, the positive numbers, +Inf, the NaN without a sign
/// ulp       of the exact value b^x: the spacing of floats there, as ulp_of() in ulp.hpp; never below 2^-149
/// Errors    normal      2^-126 <= b^x < 2^128 - 2^103, where rounding to nearest is finite: |y - b^x| in ulp, and
///                       relative to b^x in u = 2^-24; an answer Inf counts as 2^128 there
///           underflow   b^x < 2^-126: |y - b^x| in 2^-149; a relative error says nothing there
///           overflow    2^128 - 2^103 <= b^x: Inf is the right answer; all others are counted (`late`)
/// Falls     neighbours x < x' among the arguments asked with f(x) > f(x')
/// Truth     exact_power(), relative error at most kTruthError, so that
///             errors in ulp, and underflow in 2^-149, are known to 2^-27.8, those in u to 2^-27.8, too
///           `not_nearest` counts answers that are proved not to be the float nearest to b^x, `near_tie` those whose
///           error is 1/2 ulp within that radius, which may be either
///
/// Derivation of kTruthError. v = 2^-53 is half an ulp of a double in [1, 2). |x| > 1000 (base 2) or 700 (base e) is
/// answered as at that limit: b^x is then below 2^-1000 or above 2^1000 and so is the answer, which is as good as 0 and
/// Inf. Otherwise, with k the integer nearest to x log2 b (up to a rounding that moves |r| by less than 2^-40):
///   base e   r = (x - k L1) - k L2, ln 2 = L1 + L2 (1 + 2^-53), L1 of 42 bits. k has at most 10 bits, so k L1 is
///            exact. k = 0: r = x. Otherwise |x| > 0.34, so x and k L1 are multiples of 2^-42 and their difference,
///            below 0.4, is exact. |k L2| < 2^-32; its rounding and L2's do not count (2^-84); the last subtraction
///            rounds |r| < 1/2: v/4.
///   base 2   x - k is exact: below 2^23 both are multiples of the last place of x, from 2^23 on there is no such x.
///            r = (x - k) ln 2, |r| < 1/2: ln 2 is rounded by at most 2^-55, times 1/2, and the product by v/4: v/2.
/// |r| <= 0.34658. b^x = 2^k e^r and e^r = 1 + (r + r^2 h(r)), h = 1/2 + r/6 + ... + r^11/13!, by Horner's rule:
///   cut off  r^14/14! (1 + r/15 + ...) < 2^-57.7 < 0.04 v
///   h        |h| <= 0.57, its last product 0.063. That rounds by 0.04 v, carries 0.12 v from inside (1.5 v of 0.19
///            times |r|), coefficients included; the sum rounds by v/2: 0.66 v
///   r^2 h    r^2 <= 0.1202 rounds by v/16, times h 0.036 v; 0.1202 0.66 v = 0.08 v; the product, below 1/8, v/16:
///            0.18 v
///   r + .    |.| <= 0.4143: v/4
///   1 + .    v where e^r >= 1, v/2 where it is in [0.7071, 1)
/// The sum is 1.47 v for e^r >= 1 and (0.97 v) / 0.7071 = 1.37 v below, relative; with r's own v/2 (which moves e^r by
/// v/2, relative) at most 1.97 v. Scaling by 2^k is exact. kTruthError = 2.25 v. Fused products only leave roundings
/// out, so the bound holds for every contraction. x integer, base 2: exact.
/// Requires  rounding to nearest, doubles
/// Source    definition of an ulp: Muller, "On the definition of ulp(x)", 2005 (Goldberg's, extended to subnormals)
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FA1_BOTH_SIDES __host__ __device__
#else
#define FA1_BOTH_SIDES
#endif

namespace fa1::numerics {

enum class Base { e, two };

inline constexpr double kTruthError = 0x1.2p-52;
inline constexpr double kTruthErrorUlp = 0x1.2p-28; ///< of errors in ulp, in u and in 2^-149
inline constexpr std::uint64_t kEncodings = std::uint64_t{1} << 32;

template <class To, class From> FA1_BOTH_SIDES inline To same_encoding(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

FA1_BOTH_SIDES inline float float_at(std::uint32_t index) {
  return same_encoding<float>(index < 0x80000000u ? ~index : index - 0x80000000u);
}
FA1_BOTH_SIDES inline std::uint32_t index_of(float x) {
  const auto bits = same_encoding<std::uint32_t>(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits + 0x80000000u;
}

/// b^x; NaN for NaN.
template <Base base> FA1_BOTH_SIDES inline double exact_power(float x) {
  constexpr double kLimit = base == Base::two ? 1000.0 : 700.0;
  constexpr double kMagic = 0x1.8p52; // its last place is 1, so that k is in the low bits
  const double wide = x, below = wide > kLimit ? kLimit : wide;
  const double limited = below < -kLimit ? -kLimit : below;
  double shifted, r;
  if constexpr (base == Base::two) {
    shifted = limited + kMagic;
    r = (limited - (shifted - kMagic)) * 0x1.62e42fefa39efp-1;
  } else {
    shifted = limited * 0x1.71547652b82fep+0 + kMagic;
    const double k = shifted - kMagic;
    r = (limited - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c76730p-45;
  }
  double h = 1.0 / 6227020800.0; // 1/13!
  h = h * r + 1.0 / 479001600.0;
  h = h * r + 1.0 / 39916800.0;
  h = h * r + 1.0 / 3628800.0;
  h = h * r + 1.0 / 362880.0;
  h = h * r + 1.0 / 40320.0;
  h = h * r + 1.0 / 5040.0;
  h = h * r + 1.0 / 720.0;
  h = h * r + 1.0 / 120.0;
  h = h * r + 1.0 / 24.0;
  h = h * r + 1.0 / 6.0;
  h = h * r + 0.5;
  const double power = 1.0 + (r + (r * r) * h);
  // 2^k power: k is added to the exponent, which stays that of a normal number
  return same_encoding<double>(same_encoding<std::uint64_t>(power) +
                               (same_encoding<std::uint64_t>(shifted) << 52));
}

/// The largest of some errors; the first argument that has it.
struct LargestError {
  double error = -1.0;  ///< below 0: none was measured
  std::uint32_t at = 0; ///< index of the argument
  float got = 0.0f;

  FA1_BOTH_SIDES void see(double other, std::uint32_t index, float y) {
    if (!(other <= error) && error == error) { // NaN stays
      error = other;
      at = index;
      got = y;
    }
  }
  bool operator==(const LargestError&) const = default;
  FA1_BOTH_SIDES void see(const LargestError& later) {
    if (!(later.error < 0.0))
      see(later.error, later.at, later.got);
  }
};

/// Index of an argument, or of none.
inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

/// Of errors in ulp of a normal exact value: [0, 1/8), [1/8, 1/4), ... up to 1, then [1, 3/2), [3/2, 2), [2, 3),
/// [3, 4), then [4, 8), [8, 16), ...; the last takes the rest and NaN.
inline constexpr int kErrorBins = 34;

FA1_BOTH_SIDES inline int error_bin(double ulps) {
  if (ulps < 1.0)
    return static_cast<int>(ulps * 8.0);
  const auto bits = same_encoding<std::uint64_t>(ulps);
  const int exponent = static_cast<int>(bits >> 52) - 1023; // NaN: 1024
  if (exponent < 2)
    return 8 + 2 * exponent + static_cast<int>(bits >> 51 & 1);
  return 10 + exponent < kErrorBins ? 10 + exponent : kErrorBins - 1;
}
/// Where bin i begins.
inline double bin_begin(int i) {
  if (i <= 8)
    return i / 8.0;
  if (i < 12)
    return (2 + i % 2) * (i < 10 ? 0.5 : 1.0);
  return static_cast<double>(std::uint64_t{1} << (i - 10));
}

/// All that is counted, of arguments given in ascending order by see(), or joined by append().
struct ExponentialErrors {
  std::uint64_t arguments = 0; ///< NaN included
  std::uint64_t normal = 0, underflow = 0,
                overflow = 0;                     ///< by the exact value; their sum leaves NaN out
  LargestError ulp, relative;                     ///< normal: in ulp; in u
  LargestError below;                             ///< underflow: in 2^-149
  std::uint64_t histogram[kErrorBins] = {};       ///< normal
  std::uint64_t not_nearest = 0, near_tie = 0;    ///< normal and underflow
  std::uint64_t falls = 0, first_fall = kNowhere; ///< index of x', the lower end
  std::uint64_t early = 0;                        ///< Inf where a finite number is right
  std::uint64_t late = 0;                         ///< no Inf where Inf is right
  std::uint64_t flushed = 0;                      ///< 0 for b^x in [2^-149, 2^-126)
  std::uint64_t first_infinite = kNowhere, right_first_infinite = kNowhere;
  std::uint64_t last_zero = kNowhere, right_last_zero = kNowhere; ///< right: b^x <= 2^-150
  std::uint64_t tiny_not_one = 0;                ///< an answer other than 1 for x = 0 or subnormal
  std::uint64_t negative = 0;                    ///< answers with a sign, -0 among them; not of NaN
  std::uint64_t nan_arguments = 0, nan_lost = 0; ///< lost: the answer is none
  std::uint64_t nan_made = 0;                    ///< NaN of an argument that is none
  std::uint32_t first_index = 0;                 ///< where `arguments` is not 0, as the next two
  float first_answer = 0.0f, last_answer = 0.0f;

  FA1_BOTH_SIDES void see(std::uint32_t index, float x, float y, double exact) {
    follow(index, y);
    ++arguments;
    last_answer = y;
    if (x != x) {
      ++nan_arguments;
      if (y == y)
        ++nan_lost;
      return;
    }
    const auto y_bits = same_encoding<std::uint32_t>(y);
    const bool infinite = y_bits == 0x7f800000u;
    if (y != y)
      ++nan_made;
    else if (y_bits >> 31 != 0)
      ++negative;
    if (infinite && first_infinite == kNowhere)
      first_infinite = index;
    if (y == 0.0f)
      last_zero = index;
    if (exact <= 0x1p-150)
      right_last_zero = index;
    if ((same_encoding<std::uint32_t>(x) & 0x7f800000u) == 0 && y != 1.0f)
      ++tiny_not_one;
    if (exact >= 0x1p128 - 0x1p103) {
      ++overflow;
      if (right_first_infinite == kNowhere)
        right_first_infinite = index;
      if (!infinite)
        ++late;
      return;
    }
    if (infinite)
      ++early;
    const double difference = (infinite ? 0x1p128 : static_cast<double>(y)) - exact;
    const double error = difference < 0.0 ? -difference : difference;
    double ulps;
    if (exact < 0x1p-126) {
      ++underflow;
      ulps = error * 0x1p149;
      below.see(ulps, index, y);
      if (y == 0.0f && exact >= 0x1p-149)
        ++flushed;
    } else {
      ++normal;
      // 1/ulp = 2^(23 - e), e the exponent of `exact`
      ulps =
          error * same_encoding<double>((2069 - (same_encoding<std::uint64_t>(exact) >> 52)) << 52);
      ulp.see(ulps, index, y);
      relative.see(error / exact * 0x1p24, index, y);
      ++histogram[error_bin(ulps)];
    }
    if (!(ulps <= 0.5 + kTruthErrorUlp))
      ++not_nearest;
    else if (ulps > 0.5 - kTruthErrorUlp)
      ++near_tie;
  }

  /// What was counted of the arguments that follow these.
  FA1_BOTH_SIDES void append(const ExponentialErrors& later) {
    if (later.arguments == 0)
      return;
    follow(later.first_index, later.first_answer);
    if (falls == 0)
      first_fall = later.first_fall;
    falls += later.falls;
    arguments += later.arguments;
    normal += later.normal;
    underflow += later.underflow;
    overflow += later.overflow;
    ulp.see(later.ulp);
    relative.see(later.relative);
    below.see(later.below);
    for (int i = 0; i < kErrorBins; ++i)
      histogram[i] += later.histogram[i];
    not_nearest += later.not_nearest;
    near_tie += later.near_tie;
    early += later.early;
    late += later.late;
    flushed += later.flushed;
    if (first_infinite == kNowhere)
      first_infinite = later.first_infinite;
    if (right_first_infinite == kNowhere)
      right_first_infinite = later.right_first_infinite;
    if (later.last_zero != kNowhere)
      last_zero = later.last_zero;
    if (later.right_last_zero != kNowhere)
      right_last_zero = later.right_last_zero;
    tiny_not_one += later.tiny_not_one;
    negative += later.negative;
    nan_arguments += later.nan_arguments;
    nan_lost += later.nan_lost;
    nan_made += later.nan_made;
    last_answer = later.last_answer;
  }

  bool operator==(const ExponentialErrors&) const = default;

private:
  /// The answer y at `index` comes after last_answer.
  FA1_BOTH_SIDES void follow(std::uint32_t index, float y) {
    if (arguments == 0) {
      first_index = index;
      first_answer = y;
    } else if (last_answer > y && falls++ == 0) {
      first_fall = index;
    }
  }
};

/// Every `every`-th argument, from index `from` to at most index `to`.
struct ArgumentRange {
  std::uint32_t from = 0, to = 0xffffffffu;
  std::uint32_t every = 1;

  std::uint64_t count() const { return from > to ? 0 : (std::uint64_t{to} - from) / every + 1; }
};

} // namespace fa1::numerics
