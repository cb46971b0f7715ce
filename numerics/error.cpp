#include "numerics/error.hpp"

#include "numerics/ulp.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fa1::numerics {
namespace {

std::size_t ulp_bin(double ulps) {
  if (ulps == 0.0)
    return 0;
  for (std::size_t bin = 1; bin + 1 < kUlpBins; ++bin)
    if (ulps <= std::ldexp(0.5, static_cast<int>(bin) - 1))
      return bin;
  return kUlpBins - 1;
}

/// 0/0 is no error; anything else over 0 is infinitely many units.
double in_units(double error, double unit) { return error == 0.0 ? 0.0 : error / unit; }

} // namespace

double error_of(float got, const reference::Enclosed& truth) {
  // got - hi is exact or rounded to 2^-53 of itself; lo is below half an ulp of hi.
  return (static_cast<double>(got) - truth.hi) - truth.lo;
}

reference::Enclosed l_at(double m, const reference::Truth& truth, std::size_t row) {
  const reference::Enclosed &M = truth.m[row], &l = truth.l[row];
  const bool same = m == M.hi; // also -Inf before any key, where a difference is NaN
  const double factor = std::exp((same ? 0.0 : M.hi - m) + M.lo);
  return {l.hi * factor, 0.0, (l.radius + l.hi * (M.radius + 0x1p-50)) * factor};
}

ErrorSummary summarize(const reference::State& state, const reference::Truth& truth,
                       const Bounds& bounds) {
  ErrorSummary summary;
  const auto O = state.O.elements();
  const auto exact = truth.O.elements();
  const auto bound = bounds.O.elements(), expected = bounds.expected.elements(),
             weighted = bounds.weighted.elements();
  for (std::size_t row = 0; row < state.l.size(); ++row) {
    const double exact_l = l_at(double{state.m[row]}, truth, row).hi;
    raise(summary.max_l_relative,
          in_units(std::fabs(double{state.l[row]} - exact_l), kU * exact_l));
  }
  std::vector<double> fractions;
  fractions.reserve(O.size());
  double squares = 0.0, sum = 0.0, bound_squares = 0.0, expected_squares = 0.0;
  for (std::size_t e = 0; e < O.size(); ++e) {
    const double error = error_of(O[e], exact[e]);
    const double unit = kU * weighted[e];
    const double relative = in_units(error, unit);
    const double ulps = in_units(std::fabs(error), ulp_of(exact[e].hi));
    fractions.push_back(in_units(std::fabs(error), bound[e]));
    raise(summary.max_relative, std::fabs(relative));
    raise(summary.max_ulp, ulps);
    raise(summary.max_fraction, fractions.back());
    raise(summary.max_expected, in_units(std::fabs(error), expected[e]));
    squares += relative * relative;
    sum += relative;
    bound_squares += std::pow(in_units(bound[e], unit), 2);
    expected_squares += std::pow(in_units(expected[e], unit), 2);
    ++summary.ulp_histogram[ulp_bin(ulps)];
  }
  summary.elements = static_cast<std::int64_t>(O.size());
  if (O.empty())
    return summary;
  const auto n = static_cast<double>(O.size());
  summary.rms_relative = std::sqrt(squares / n);
  summary.mean_relative = sum / n;
  summary.bound_relative = std::sqrt(bound_squares / n);
  summary.expected_relative = std::sqrt(expected_squares / n);
  const auto middle = fractions.begin() + static_cast<std::ptrdiff_t>(fractions.size() / 2);
  std::nth_element(fractions.begin(), middle, fractions.end());
  summary.median_fraction = *middle;
  return summary;
}

} // namespace fa1::numerics
