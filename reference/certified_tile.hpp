/// The arithmetic of the certified truth on a GPU, step by step; the same text for nvcc and the CPU.
///
/// Computes  what one thread does with one score, one weight, one element of O. The loops around it,
///           in the same order everywhere, are those of certified_cuda.cu and certified_tiles.cpp
/// Layout    a tile is kKeys keys by kColumns columns of V; a row's sums over a tile are made by
///           kLanes lanes of kEach keys each (key_of)
/// Requires  rounding to nearest; nothing contracted (-ffp-contract=off, nvcc: -fmad=false)
/// Error     (12) to (19) of CERTIFIED.md; all constants of the radius stand here
/// Source    as in certified_simd.hpp
#pragma once

#include "reference/double_double.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace fa1::reference::tile {

inline constexpr int kKeys = 64;
inline constexpr int kColumns = 64;
inline constexpr int kLanes = 16;
inline constexpr int kEach = kKeys / kLanes; ///< keys (columns) of a tile that one lane has
inline constexpr int kSteps = 512;           ///< of the exponential's table: 2^(i/512)

inline constexpr double kU2 = 0x1p-106;           ///< u^2
inline constexpr double kLowestArgument = -700.0; ///< below, the weight is set to 0
inline constexpr double kNoScore = -std::numeric_limits<double>::infinity();
/// exp(x) is off by at most kExp, relative, for |x| <= 700.
inline constexpr double kExp = 0x1.34p-93;
/// Scores within +-kUnshifted need no maximum: exp of them neither overflows nor vanishes.
inline constexpr double kUnshifted = 256.0;
/// Scores beyond are left to the CPU.
inline constexpr double kWidest = 0x1p32;

/// Keys, and columns, are dealt to lanes in pairs, so that lanes side by side load 16 bytes each.
FA1_HOST_DEVICE inline int key_of(int lane, int i) {
  return 2 * lane + (i & 1) + (i >> 1) * (kKeys / 2);
}

/// What a row's scores start from and are off by.
struct Row {
  double anchor = 1.5; ///< (12): 1.5 * 2^E
  double shift = 0.0;  ///< M^, a multiple of the grid of the anchor
  double eta = 0.0;    ///< how far a score may be off
};

/// What a row comes to beside O: L = sum exp(s - M^), and the largest s - M^.
struct RowSums {
  Pair L;
  Pair largest;
};

FA1_HOST_DEVICE inline std::uint64_t bits_of(double x) {
  std::uint64_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

FA1_HOST_DEVICE inline double from_bits(std::uint64_t bits) {
  double x = 0.0;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// acc += a b rounded to the grid of acc's anchor, what is cut off goes to lo, rounded once.
FA1_HOST_DEVICE inline void accumulate(double a, double b, double& acc, double& lo) {
  const double next = std::fma(a, b, acc);
  const double step = next - acc; // exact: both are multiples of the grid in one binade
  lo += std::fma(a, b, -step);
  acc = next;
}

inline constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
inline constexpr std::uint64_t kHalf = std::uint64_t{1} << 51; ///< 1.5 in place of 1

/// What was added since the anchor, exactly: acc has not left its binade, so that it tells which.
FA1_HOST_DEVICE inline double since_anchor(double acc) {
  return acc - from_bits((bits_of(acc) & kExponent) | kHalf);
}

/// sum += hi + lo, where |lo| is at most some u |hi| or u times what sum is bounded by; (17), (18)
FA1_HOST_DEVICE inline Pair grown(const Pair& sum, double hi, double lo) {
  const Pair s = two_sum(sum.hi, hi);
  return two_sum(s.hi, sum.lo + (s.lo + lo));
}

/// The anchor for a row whose scores are below G in magnitude; `shifted`: M^ may be up to G, too.
inline Row row_of(double G, bool shifted, std::int64_t d) {
  const double W = std::fmax((shifted ? 2.0 : 1.0) * G * (1.0 + 0x1p-19), 0x1p-300);
  const auto n = static_cast<double>(d);
  return {std::ldexp(1.5, std::ilogb(W) + 2), 0.0, (2.0 * n * n + 6.0 * n + 8.0) * kU2 * W * 1.01};
}

/// On the grid of the row's anchor.
FA1_HOST_DEVICE inline double shift_of(const Row& row, double maximum) {
  const double on_grid = row.anchor + maximum;
  return on_grid - row.anchor;
}

/// s - M^, where the sum of the products began at anchor - M^.
FA1_HOST_DEVICE inline Pair argument(double acc, double lo) {
  return two_sum(since_anchor(acc), lo);
}

/// exp(x), |x| <= 700; the algorithm of certified_simd.cpp with fused steps. Letters of CERTIFIED.md.
FA1_HOST_DEVICE inline Pair exponential(const Pair& x, const Pair* table) {
  constexpr double c1 = 0x2c5c85fdfp-43, c2 = 0x11cf79abcp-77, c3 = 0x1.3c7673007e5edp-78;
  constexpr double c6 = 0x1.5555555555555p-3, c6_lo = 0x1.5555555555555p-57;
  const double shifted = std::fma(x.hi, 0x1.71547652b82fep+9, 0x1.8p52);
  const double k = shifted - 0x1.8p52;
  const Pair a = two_sum(std::fma(-k, c1, x.hi), -(k * c2));
  const double rest = a.lo + std::fma(-k, c3, x.lo);
  const double r = a.hi + rest;
  const double r_lo = rest - (r - a.hi);

  double q = std::fma(1.0 / 40320.0, r, 1.0 / 5040.0);
  q = std::fma(q, r, 1.0 / 720.0);
  q = std::fma(q, r, 1.0 / 120.0);
  q = std::fma(q, r, 1.0 / 24.0);
  const double v = std::fma(r, q, c6_lo);
  const double u = r * c6;
  const double z = std::fma(r, v, std::fma(r_lo, c6, std::fma(r, c6, -u)));
  const double f = 0.5 + u;
  const double f_lo = (u - (f - 0.5)) + z;
  const double s = r * r;
  const double s_lo = std::fma(r + r, r_lo, std::fma(r, r, -s));
  const double p = s * f;
  const double p_lo = std::fma(s_lo, f, std::fma(s, f_lo, std::fma(s, f, -p)));
  const double E = r + p;
  const double E_lo = (p - (E - r)) + (p_lo + r_lo);

  const std::uint64_t bits = bits_of(shifted); // k in the low bits
  const std::uint64_t index = bits & (kSteps - 1);
  const double T = table[index].hi, T_lo = table[index].lo;
  const double power = from_bits(((bits - index) << 43) + (std::uint64_t{1023} << 52));
  const double m = T * E;
  const double m_lo = std::fma(T_lo, E, std::fma(T, E_lo, std::fma(T, E, -m)));
  const double sum = T + m;
  const double low = (m - (sum - T)) + (T_lo + m_lo);
  const double w = sum + low;
  return {w * power, (low - (w - sum)) * power};
}

/// The weight of a key; 0 below kLowestArgument.
FA1_HOST_DEVICE inline Pair weight(const Pair& x, const Pair* table) {
  const bool counts = x.hi >= kLowestArgument;
  const Pair w = exponential({counts ? x.hi : 0.0, counts ? x.lo : 0.0}, table);
  return {counts ? w.hi : 0.0, counts ? w.lo : 0.0};
}

/// The anchor of a tile's sums of w v in one column, where b is the computed sum of the w |v|:
/// 1.5 * 2^E with b' < 2^(E-1) <= 2 b', b' = b (1 + 2^-20) + 2^-800.
FA1_HOST_DEVICE inline double anchor_of(double b) {
  const double above = std::fma(b, 1.0 + 0x1p-20, 0x1p-800);
  return from_bits((bits_of(above) & kExponent) + (std::uint64_t{2} << 52) + kHalf);
}

struct Result {
  double hi, lo, radius;
};

/// (18): what all errors of L come to. `tiles` of keys.
FA1_HOST_DEVICE inline double error_of_L(double L, double eta, std::int64_t tiles) {
  const auto t = static_cast<double>(tiles);
  const double tiny = (kKeys * t + 64.0) * 0x1p-869;
  return (kExp + eta + 5.0 * (kEach * t + 8.0) * kU2) * L * 1.02 + tiny;
}

/// (19): O of one element from N = sum w v, B = sum w |v| and L.
FA1_HOST_DEVICE inline Result output(const Pair& N, double B, const Pair& L, double eta,
                                     std::int64_t tiles) {
  const auto t = static_cast<double>(tiles);
  const double tiny = (kKeys * t + 64.0) * 0x1p-869;
  const double E_L = error_of_L(L.hi, eta, tiles);
  const double E_N = (kExp + eta + (17600.0 + 3.0 * (t + 1.0)) * kU2) * B * 1.02 + tiny;
  const double L_below = (L.hi - E_L) * (1.0 - 0x1p-20);
  const Pair o = divide(N, L);
  const double size = std::fabs(o.hi);
  return {o.hi, o.lo, ((E_N + size * E_L) / L_below + 0x1p-102 * size) * 1.01};
}

} // namespace fa1::reference::tile
