/// The error of fp32 outputs against the truth.
///
/// error_of          got - truth with its sign, in double; the truth's own radius is not in it.
///                   NaN where either is NaN (decide NaN and Inf before any metric: see
///                   verdict.hpp)
/// l_at              the exact l taken at a computed maximum m: truth.l times exp(M - m), and how far
///                   that may be off
/// summarize         max, RMS and mean of the errors of O in three units, and their distribution in
///                   ulp
/// Units             u * sum_j p_j |v_j| with u = 2^-24 (relative), ulp of the truth (ulp.hpp),
///                   fraction of the bound
#pragma once

#include "numerics/bounds.hpp"
#include "reference/problem.hpp"

#include <array>
#include <cmath>
#include <cstdint>

namespace fa1::numerics {

/// A maximum that NaN can enter and never leaves.
inline void raise(double& maximum, double value) {
  if (!std::isnan(maximum) && !(value <= maximum))
    maximum = value;
}

double error_of(float got, const reference::Enclosed& truth);

reference::Enclosed l_at(double m, const reference::Truth& truth, std::size_t row);

/// Counts of |error| in ulp: [0], (0, 1/2], (1/2, 1], (1, 2], (2, 4], ... ; the last bin takes the
/// rest and NaN.
inline constexpr std::size_t kUlpBins = 24;

struct ErrorSummary {
  std::int64_t elements = 0;
  double max_relative = 0.0;  ///< max |error| / (u sum p|v|)
  double rms_relative = 0.0;  ///< root mean square of the same
  double mean_relative = 0.0; ///< mean of the same with its sign
  double max_ulp = 0.0;
  double max_fraction = 0.0;    ///< max |error| / bound
  double median_fraction = 0.0; ///< median |error| / bound
  double max_expected = 0.0;    ///< max |error| / statistical expectation
  double bound_relative = 0.0;  ///< bound / (u sum p|v|), RMS over the elements
  /// statistical expectation in the same unit, RMS over the elements
  double expected_relative = 0.0;
  /// max |error of l| / (u l), l taken at the computed maximum; NaN where the kernel gives none
  double max_l_relative = 0.0;
  std::array<std::int64_t, kUlpBins> ulp_histogram{};
};

ErrorSummary summarize(const reference::State& state, const reference::Truth& truth,
                       const Bounds& bounds);

} // namespace fa1::numerics
