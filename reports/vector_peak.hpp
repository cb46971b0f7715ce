/// How fast this machine's widest vector unit can be at all: the floor under certify().
///
/// Computes  four operations of certify's own inner loop, two fused multiply-adds and two sums, on
///           chains that depend on nothing else, in registers alone
/// Source    reference/CERTIFIED.md, "Cost", for what certify() needs of them
#pragma once

#include <cstdint>
#include <string>

namespace fa1::reports {

struct VectorPeak {
  std::string unit;       ///< the one that certify() runs on
  std::int64_t lanes = 0; ///< doubles of one vector
  bool fused = false;     ///< the count in CERTIFIED.md is for such units

  /// Runs kOperations * rounds vector operations, on any two numbers that the compiler does not
  /// know: it must neither fold them nor see that two chains are alike.
  double (*run)(std::int64_t rounds, double a, double b) = nullptr;
  static constexpr std::int64_t kOperations = 24;
};

VectorPeak vector_peak();

/// Lane operations (operations of a vector times its lanes) that certify() needs for one query and
/// one key on a unit that fuses.
double certify_operations(std::int64_t d, std::int64_t dv);

} // namespace fa1::reports
