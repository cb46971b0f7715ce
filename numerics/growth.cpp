#include "numerics/growth.hpp"

#include "numerics/bounds.hpp"
#include "numerics/error.hpp"
#include "numerics/expectation.hpp"
#include "numerics/ulp.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

namespace fa1::numerics {
namespace {

using reference::Problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Mean square of a rounding's relative error, in u^2.
constexpr double kRounding = 1.0 / (8.0 * std::numbers::ln2);

/// What 1 / T-th and Bc^2 / N-th of a rounding's mean square are met with.
double of_carries(const NearUniform& r) { return (r.carried + (r.l_inexact ? 1.0 : 0.0)) / 3.0; }
double of_sums(const NearUniform& r) { return (r.sum_inexact ? 2.0 : 1.0) / 3.0; }

/// Where a N / Bc + b Bc^2 / N is least.
double best_tile(double keys, double a, double b) {
  return std::cbrt(a / (2.0 * b)) * std::pow(keys, 2.0 / 3.0);
}

} // namespace

GrowthPoint growth_point(const Problem& problem, const reference::State& state,
                         const reference::Truth& truth, const kernels::Arithmetic& arithmetic) {
  const Bounds bounds = online_softmax(problem, arithmetic);
  const ErrorSummary error = summarize(state, truth, bounds);
  const Expectation expected = expected_error(problem, arithmetic);
  double squares = 0.0;
  const auto weighted = bounds.weighted.elements();
  for (std::size_t e = 0; e < weighted.size(); ++e)
    squares += expected.O.elements()[e] / std::pow(kU * weighted[e], 2);
  double softmax = 0.0;
  for (const double spread : bounds.spread)
    raise(softmax, softmax_bound(problem.shape.n_kv, spread));
  return {.rms = error.rms_relative,
          .max = error.max_relative,
          .predicted = std::sqrt(squares / static_cast<double>(weighted.size())),
          .bound = error.bound_relative,
          .softmax = softmax};
}

GrowthPoint pooled(std::span<const GrowthPoint> points) {
  GrowthPoint all;
  for (const GrowthPoint& point : points) {
    all.rms += point.rms * point.rms;
    all.predicted += point.predicted * point.predicted;
    all.bound += point.bound * point.bound;
    raise(all.max, point.max);
    raise(all.softmax, point.softmax);
  }
  for (double* mean : {&all.rms, &all.predicted, &all.bound})
    *mean = std::sqrt(*mean / static_cast<double>(points.size()));
  return all;
}

double near_uniform_rms(double keys, double Bc, const NearUniform& roundings) {
  const double T = std::ceil(keys / Bc);
  return std::sqrt(kRounding * (of_carries(roundings) * T + of_sums(roundings) * Bc * Bc / keys));
}

double near_uniform_best_tile(double keys, const NearUniform& roundings) {
  return best_tile(keys, of_carries(roundings), of_sums(roundings));
}

TileFit fit_over_tiles(double keys, std::span<const double> Bc, std::span<const double> rms) {
  // Normal equations of A x + B y = 1, x = (N / Bc) / rms^2 and y = (Bc^2 / N) / rms^2.
  double xx = 0.0, xy = 0.0, yy = 0.0, x1 = 0.0, y1 = 0.0;
  TileFit fit{kNaN, kNaN, kNaN, kNaN};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < Bc.size(); ++i) {
    const double square = rms[i] * rms[i];
    const double x = keys / Bc[i] / square, y = Bc[i] * Bc[i] / keys / square;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
    if (rms[i] < least) {
      least = rms[i];
      fit.least_at = Bc[i];
    }
  }
  const double determinant = xx * yy - xy * xy;
  if (!(determinant > 0.0))
    return fit;
  fit.A = (x1 * yy - y1 * xy) / determinant;
  fit.B = (y1 * xx - x1 * xy) / determinant;
  if (fit.A > 0.0 && fit.B > 0.0)
    fit.best = best_tile(keys, fit.A, fit.B);
  return fit;
}

// ---------------------------------------------------------------------------------------------------
// Grades
// ---------------------------------------------------------------------------------------------------

namespace {

/// unit(o) of one row's elements, in `unit`, and sum p|v| in `plain`.
void units_of_row(const Problem& problem, std::int64_t bh, std::int64_t row,
                  const reference::Truth& truth, std::span<double> unit, std::span<double> plain) {
  const auto keys = static_cast<std::size_t>(problem.shape.n_kv);
  const auto q = problem.Q.row(bh, row);
  std::vector<double> s(keys, 0.0), kappa(keys, 0.0);
  for (std::size_t j = 0; j < keys; ++j) {
    const auto k = problem.K.row(bh, static_cast<std::int64_t>(j));
    for (std::size_t i = 0; i < q.size(); ++i) {
      const double product = double{q[i]} * double{k[i]} * double{problem.scale};
      s[j] += product;
      kappa[j] += std::fabs(product);
    }
  }
  const double M = *std::ranges::max_element(s);
  double L = 0.0;
  for (double& x : s)
    L += x = std::exp(x - M);
  std::ranges::fill(unit, 0.0);
  std::ranges::fill(plain, 0.0);
  for (std::size_t j = 0; j < keys; ++j) {
    const double p = s[j] / L;
    const auto v = problem.V.row(bh, static_cast<std::int64_t>(j));
    for (std::size_t c = 0; c < unit.size(); ++c) {
      const double o = truth.O(bh, row, static_cast<std::int64_t>(c)).hi;
      plain[c] += p * std::fabs(double{v[c]});
      unit[c] += 2.0 * p * std::fabs(double{v[c]} - o) * kappa[j];
    }
  }
  for (std::size_t c = 0; c < unit.size(); ++c)
    unit[c] += plain[c];
}

double over(double error, double unit) { return error == 0.0 ? 0.0 : error / (kU * unit); }

} // namespace

GradedError graded_error(const Problem& problem, const reference::State& state,
                         const reference::Truth& truth) {
  const reference::Shape& shape = problem.shape;
  GradedError result;
  result.keys = static_cast<double>(shape.n_kv);
  result.limit = 4.0 * result.keys + static_cast<double>(shape.d) + 6.0;
  if (shape.n_kv == 0)
    return result;
  std::vector<double> unit(static_cast<std::size_t>(shape.dv)), plain(unit.size());
  double largest_unit = 0.0, largest_error = 0.0;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      units_of_row(problem, bh, row, truth, unit, plain);
      double row_unit = 0.0, row_error = 0.0;
      for (std::size_t c = 0; c < unit.size(); ++c) {
        const auto column = static_cast<std::int64_t>(c);
        const double error =
            std::fabs(error_of(state.O(bh, row, column), truth.O(bh, row, column)));
        raise(result.element, over(error, unit[c]));
        raise(result.without_condition, over(error, plain[c]));
        raise(row_unit, unit[c]);
        raise(row_error, error);
      }
      raise(result.row, over(row_error, row_unit));
      raise(largest_unit, row_unit);
      raise(largest_error, row_error);
    }
  result.problem = over(largest_error, largest_unit);
  return result;
}

Grade grade(std::span<const GradedError> errors) {
  std::map<double, GradedError> by_keys;
  for (const GradedError& error : errors) {
    GradedError& worst = by_keys.try_emplace(error.keys, error).first->second;
    for (double GradedError::*which : {&GradedError::element, &GradedError::row,
                                       &GradedError::problem, &GradedError::without_condition})
      raise(worst.*which, error.*which);
    raise(worst.limit, error.limit);
  }
  const auto slope_of = [&](double GradedError::*which) {
    std::vector<double> x, y;
    for (const auto& [keys, error] : by_keys) {
      x.push_back(keys);
      y.push_back(error.*which);
    }
    return log_log_slope(x, y);
  };
  Grade result;
  result.plain_slope = slope_of(&GradedError::without_condition);
  for (const auto& [letter, which] :
       {std::pair{'A', &GradedError::element}, std::pair{'B', &GradedError::row},
        std::pair{'C', &GradedError::problem}}) {
    const Slope slope = slope_of(which);
    double part = 0.0;
    for (const auto& [keys, error] : by_keys)
      raise(part, error.*which / error.limit);
    if (letter == 'A') {
      result.slope = slope;
      result.part = part;
    }
    if (part <= 1.0 && slope.high <= 1.0) {
      result.letter = letter;
      result.slope = slope;
      result.part = part;
      break;
    }
  }
  return result;
}

} // namespace fa1::numerics
