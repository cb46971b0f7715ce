/// The inner loops of certify(), for every vector unit the machine may have.
///
/// Computes  scores, weights and weighted sums of one block of keys, in double-double
/// Layout    K as tiles [d][kBlock] and V as tiles [kBlock][columns], both in double, finite, padded
///           with zeros; columns a multiple of kGroup
/// Error     derived in CERTIFIED.md; the constants that belong to these loops stand here
/// Bits      the same on every vector unit: lanes are keys or columns, sums over keys run in one
///           order, and products are fused only where they are exact. The tests run all units
/// Source    Dekker 1971, Knuth (TwoSum); Joldes, Muller and Popescu 2017 (addition); Tang 1989
///           (exponential from a table)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fa1::reference {

struct Problem;
struct Truth;

namespace simd {

inline constexpr std::int64_t kBlock = 64; ///< keys of a tile
inline constexpr std::int64_t kGroup = 8;  ///< no vector has more doubles
inline constexpr int kSteps = 512;         ///< of the exponential's table: 2^(i/512)

/// exp(x) is off by at most kExpBase * (1 + |x| kExpSlope), relative, for -700 <= x <= 0, and by
/// 2^-1074 more where the low part underflows.
inline constexpr double kExpBase = 0x1p-94;
inline constexpr double kExpSlope = 0x1p-9;
inline constexpr double kLowestArgument = -700.0; ///< below, the weight is set to 0; exp: 2^-1009.9

struct ExpTable {
  alignas(64) double hi[kSteps];
  alignas(64) double lo[kSteps];
};

/// w = leading + trailing + low, of 29, 24 and 53 bits; size >= w (1 + |x| kExpSlope), 29 bits.
struct Weights {
  alignas(64) double leading[kBlock];
  alignas(64) double trailing[kBlock];
  alignas(64) double low[kBlock];
  alignas(64) double size[kBlock];
};

/// Sums of w and size over keys j with j mod kGroup alike.
struct WeightSums {
  alignas(64) double hi[kGroup];
  alignas(64) double lo[kGroup];
  alignas(64) double size[kGroup];
};

struct Kernels {
  /// hi + lo = scale * sum_i q_i k_i for every key of the tile; row r of q at q + r * d, its
  /// results at hi + r * stride. anchors[r] = 1.5 * 2^E with 2^(E-1) above every partial sum.
  void (*scores)(const double* tile, std::int64_t d, const double* q, const double* anchors,
                 std::int64_t rows, double scale, double* hi, double* lo, std::int64_t stride);
  /// The largest hi + lo of a block where it is above M; NaN is passed over.
  void (*raise_maximum)(const double* hi, const double* lo, double& M_hi, double& M_lo);
  /// Weights of a block, added to the sums; false where all of them are 0.
  bool (*weigh)(const ExpTable& table, const double* hi, const double* lo, double M_hi, double M_lo,
                Weights& weights, WeightSums& sums);
  /// hi + lo += sum of w V, size += sum of size |V|, for every column.
  void (*add_values)(const Weights& weights, const double* tile, std::int64_t columns, double* hi,
                     double* lo, double* size);
  /// exp(x_hi + x_lo) in place, count a multiple of kGroup; 0 where x_hi < kLowestArgument.
  void (*exponentials)(const ExpTable& table, std::int64_t count, double* hi, double* lo);
};

struct Unit {
  std::string name;
  Kernels kernels;
};

/// 2^(i/512), rounded correctly to hi + lo.
const ExpTable& exp_table();

/// The widest vector unit of this machine.
const Unit& best_unit();

/// All that were compiled and run here, for tests; not to be called while others certify.
std::vector<Unit> all_units();

/// certify() and certify_scores() on a given unit.
Truth certify_on(const Unit& unit, const Problem& problem, bool given_scores, unsigned threads);

} // namespace simd
} // namespace fa1::reference
