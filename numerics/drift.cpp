#include "numerics/drift.hpp"

#include "numerics/ulp.hpp"

#include <algorithm>
#include <cmath>

namespace fa1::numerics {
namespace {

/// The power of two above x > 0.
double top_of(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent);
}

/// The integral of round(s) over s from 0 to x.
double rounded_area(double x) {
  const double n = std::floor(x + 0.5);
  return n * (x - n + 0.5) + n * (n - 1.0) / 2.0;
}

/// E round(a + rho U), U uniform in [-1/2, 1/2].
double mean_of_rounded(double a, double rho) {
  if (rho == 0.0)
    return std::nearbyint(a);
  return (rounded_area(a + rho / 2.0) - rounded_area(a - rho / 2.0)) / rho;
}

} // namespace

float sum_of_equals(float v, std::int64_t count) {
  float sum = 0.0f;
  while (count > 0) {
    // Two additions as they are: the first settles how a tie is broken, the second shows the step.
    const double before = sum;
    const float first = sum + v;
    if (--count == 0)
      return first;
    sum = first + v;
    --count;
    const double step = double{sum} - double{first}, top = top_of(double{sum});
    if (step == 0.0)
      return sum;
    if (before == 0.0 || top_of(before) != top)
      continue;
    // All that follow in this binade are alike; the one that leaves it is added as it is.
    const double alike = std::ceil((top - double{v} - double{sum}) / step);
    if (alike > 0.0) {
      const auto steps = std::min(count, static_cast<std::int64_t>(alike));
      sum = static_cast<float>(double{sum} + static_cast<double>(steps) * step);
      count -= steps;
    }
  }
  return sum;
}

double deferred_drift(float v, std::int64_t Bc, std::int64_t tiles) {
  const float A = sum_of_equals(sum_of_equals(v, Bc), tiles);
  const float O = A / static_cast<float>(Bc * tiles);
  return double{O} / double{v} - 1.0;
}

double normalised_drift(float v, std::int64_t Bc, std::int64_t tiles) {
  const double pv = sum_of_equals(v, Bc), width = static_cast<double>(Bc);
  double O = pv / width;
  for (std::int64_t t = 1; t < tiles; ++t) {
    const double l = width * static_cast<double>(t + 1);
    const double g = ulp_of(l * O), q = ulp_of(O);
    const double r = std::nearbyint(pv / g) * g - pv;
    const double rho = g <= q ? 0.0 : std::min(1.0, g / (l * q));
    O += q * mean_of_rounded((pv - width * O + r) / (l * q), rho);
  }
  return O / double{v} - 1.0;
}

} // namespace fa1::numerics
