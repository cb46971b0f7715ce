#include "numerics/bounds.hpp"

#include "numerics/ulp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa1::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFloatMax = std::numeric_limits<float>::max();
constexpr double kWeightThatMatters = 0x1p-30;
/// Weights that nothing is known about: large, yet 0 times it is 0 (a key whose value is o itself
/// moves nothing).
constexpr double kAnything = 1e290;

struct Score {
  double s = 0.0;   ///< scale * sum q k
  double abs = 0.0; ///< scale * sum |q k|
};

/// Products of floats are exact in double; four partial sums keep the adders busy.
Score score(std::span<const float> q, std::span<const float> k, double scale,
            double& largest_unscaled) {
  double s[4] = {}, a[4] = {};
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double product = double{q[i]} * double{k[i]};
    s[i % 4] += product;
    a[i % 4] += std::fabs(product);
  }
  const double abs = (a[0] + a[1]) + (a[2] + a[3]);
  largest_unscaled = std::max(largest_unscaled, abs);
  return {scale * ((s[0] + s[1]) + (s[2] + s[3])), std::fabs(scale) * abs};
}

std::string obstacle_in_inputs(const reference::Problem& problem) {
  const auto finite = [](const reference::Tensor<float>& t) {
    return std::ranges::all_of(t.elements(), [](float x) { return std::isfinite(x); });
  };
  if (!finite(problem.Q))
    return "Q holds NaN or Inf";
  if (!finite(problem.K))
    return "K holds NaN or Inf";
  if (!finite(problem.V))
    return "V holds NaN or Inf";
  double largest = 0.0;
  for (const float v : problem.V.elements())
    largest = std::max(largest, std::fabs(double{v}));
  if (largest * static_cast<double>(problem.shape.n_kv) >= kFloatMax)
    return "n_kv * max|v| reaches FLT_MAX";
  return {};
}

/// |s^ - s|: roundings, and products or a scaling that underflow (2^-150 each, d + 1 of them before
/// and after the scale).
double score_error(double gamma_dot, double abs, double scale, std::int64_t d) {
  if (gamma_dot == 0.0 || abs == 0.0) // no product, no error
    return 0.0;
  return gamma_dot * abs + (std::fabs(scale) * static_cast<double>(d) + 1.0) * 0x1p-150;
}

/// Everything about one query row that its columns share.
struct Row {
  std::vector<double> shift;      ///< p_j (e^eps_j - 1)
  std::vector<double> numerator;  ///< p_j e^eps_j gamma_{n_j}
  std::vector<double> p;          ///< exact weight
  std::vector<double> stat_shift; ///< p_j * expected |ln w_j|
  std::vector<double> stat_numerator;
  double denominator = 0.0; ///< sum_j p_j e^eps_j gamma_{n'_j}
  double stat_denominator = 0.0;
  double kept = 0.0; ///< sum_j p_j e^-eps_j (1 - gamma_{n'_j})
  double shift_sum = 0.0;
  double eta = 0.0;
  double spread = 0.0;
  double l_exact = 0.0;
};

} // namespace

double gamma(double n) { return n * kU < 1.0 ? n * kU / (1.0 - n * kU) : kInfinity; }

double largest_score(const reference::Problem& problem) {
  double unscaled = 0.0;
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < problem.shape.n_q; ++row)
      for (std::int64_t j = 0; j < problem.shape.n_kv; ++j)
        score(problem.Q.row(bh, row), problem.K.row(bh, j), 1.0, unscaled);
  return unscaled * std::fabs(double{problem.scale});
}

Bounds online_softmax(const reference::Problem& problem, const kernels::Arithmetic& arithmetic,
                      bool scores_exact) {
  const reference::Shape& shape = problem.shape;
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  Bounds bounds{reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
                reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
                std::vector<double>(rows),
                std::vector<double>(rows),
                std::vector<double>(rows),
                std::vector<double>(rows),
                std::vector<double>(rows),
                reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
                obstacle_in_inputs(problem)};
  if (!bounds.obstacle.empty() || shape.n_kv == 0)
    return bounds;

  const auto N = static_cast<std::size_t>(shape.n_kv);
  const auto Bc = static_cast<std::size_t>(arithmetic.Bc);
  const std::size_t T = (N + Bc - 1) / Bc;
  const double width = static_cast<double>(std::min(N, Bc));
  const double c = arithmetic.exp_error;
  const double a = arithmetic.contracted ? 2.0 : 3.0;
  const double gamma_dot = scores_exact ? 0.0 : gamma(static_cast<double>(shape.d) + 1.0);
  const double stat_dot = scores_exact ? 0.0 : kU * std::sqrt(static_cast<double>(shape.d) + 1.0);
  const double mu = arithmetic.exp_underflow;
  const double scale = problem.scale;

  std::vector<double> s(N), abs(N), eta_of(N), rises(T + 1);
  Row row;
  for (auto* values : {&row.shift, &row.numerator, &row.p, &row.stat_shift, &row.stat_numerator})
    values->resize(N);
  std::vector<double> o, shift_o, v_o, stat_shift_o, stat_v_o, farthest, weighted;

  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const auto q = problem.Q.row(bh, r);
      double unscaled = 0.0, scaled = 0.0, M = -kInfinity, M_high = -kInfinity, lowest = kInfinity;
      for (std::size_t j = 0; j < N; ++j) {
        const Score x = score(q, problem.K.row(bh, static_cast<std::int64_t>(j)), scale, unscaled);
        s[j] = x.s;
        abs[j] = x.abs;
        eta_of[j] = score_error(gamma_dot, x.abs, scale, shape.d);
        M = std::max(M, x.s);
        M_high = std::max(M_high, x.s + eta_of[j]);
        lowest = std::min(lowest, x.s);
        scaled = std::max(scaled, x.abs);
      }
      if (unscaled * (1.0 + gamma(static_cast<double>(shape.d))) >= kFloatMax ||
          scaled >= kFloatMax) {
        bounds.obstacle = "sum |q k| reaches FLT_MAX in row " + std::to_string(r);
        return bounds;
      }

      // rises[t]: tiles after t that may set a new maximum, given that every score may be off by
      // its eta.
      std::vector<bool> may_rise(T, false);
      double floor = -kInfinity;
      for (std::size_t t = 0; t < T; ++t) {
        double high = -kInfinity, low = -kInfinity;
        for (std::size_t j = t * Bc; j < std::min(N, (t + 1) * Bc); ++j) {
          high = std::max(high, s[j] + eta_of[j]);
          low = std::max(low, s[j] - eta_of[j]);
        }
        may_rise[t] = t > 0 && high > floor;
        floor = std::max(floor, low);
      }
      rises[T] = 0.0;
      for (std::size_t t = T; t-- > 0;)
        rises[t] = rises[t + 1] + (t + 1 < T && may_rise[t + 1] ? 1.0 : 0.0);

      row.l_exact = 0.0;
      for (std::size_t j = 0; j < N; ++j) {
        row.p[j] = std::exp(s[j] - M);
        row.l_exact += row.p[j];
      }
      row.denominator = row.stat_denominator = row.kept = row.shift_sum = row.eta = 0.0;
      row.spread = M - lowest;
      const double log_l = std::log(row.l_exact);
      for (std::size_t j = 0; j < N; ++j) {
        const std::size_t t = j / Bc;
        const double R = rises[t], later = static_cast<double>(T - 1 - t);
        const double eta = eta_of[j];
        const double eps =
            eta + kU * (1.0 + kU) * (std::max(0.0, M_high - s[j] + eta) + c * (1.0 + R) + R);
        const double p = row.p[j] /= row.l_exact;
        // p_j e^eps_j, finite however far the key lies
        const double raised = std::min(kAnything, std::exp(s[j] - M + eps - log_l));
        const double n_numerator = width + 2.0 + a * later, n_denominator = width + later;
        row.shift[j] = eps < 1.0 ? p * std::expm1(eps) : raised;
        row.numerator[j] = raised * gamma(n_numerator);
        row.denominator += raised * gamma(n_denominator);
        row.kept += std::exp(s[j] - M - std::min(eps, kAnything) - log_l) *
                    (1.0 - std::min(1.0, gamma(n_denominator)));
        row.shift_sum += row.shift[j];
        if (p > kWeightThatMatters)
          row.eta = std::max(row.eta, eta);

        const double gap = M - s[j];
        row.stat_shift[j] =
            p * (stat_dot * abs[j] + kU * std::sqrt(c * c * (1.0 + R) + R + gap * gap));
        row.stat_numerator[j] = p * kU * std::sqrt(n_numerator);
        row.stat_denominator += p * kU * std::sqrt(n_denominator);
      }

      const auto dv = static_cast<std::size_t>(shape.dv);
      for (auto* columns : {&o, &shift_o, &v_o, &stat_shift_o, &stat_v_o, &farthest, &weighted})
        columns->assign(dv, 0.0);
      for (std::size_t j = 0; j < N; ++j) {
        const auto v = problem.V.row(bh, static_cast<std::int64_t>(j));
        for (std::size_t i = 0; i < dv; ++i) {
          o[i] += row.p[j] * double{v[i]};
          weighted[i] += row.p[j] * std::fabs(double{v[i]});
        }
      }
      for (std::size_t j = 0; j < N; ++j) {
        const auto v = problem.V.row(bh, static_cast<std::int64_t>(j));
        for (std::size_t i = 0; i < dv; ++i) {
          const double distance = std::fabs(double{v[i]} - o[i]), size = std::fabs(double{v[i]});
          shift_o[i] += row.shift[j] * distance;
          v_o[i] += row.numerator[j] * size;
          stat_shift_o[i] += row.stat_shift[j] * distance;
          stat_v_o[i] += row.stat_numerator[j] * size;
          farthest[i] = std::max(farthest[i], distance);
        }
      }
      const double keys = static_cast<double>(N), tiles = static_cast<double>(T);
      const auto at = static_cast<std::size_t>(bh * shape.n_q + r);
      for (std::size_t i = 0; i < dv; ++i) {
        const double underflow =
            3.0 * keys * mu * farthest[i] + (keys + 3.0 * tiles + 2.0) * 0x1p-150;
        const auto column = static_cast<std::int64_t>(i);
        const double sum = shift_o[i] + v_o[i] + std::fabs(o[i]) * row.denominator + underflow;
        bounds.O(bh, r, column) =
            row.kept > 0.0 && sum < kAnything ? sum / row.kept * kEvaluationSlack : kInfinity;
        bounds.expected(bh, r, column) =
            stat_shift_o[i] + stat_v_o[i] + std::fabs(o[i]) * row.stat_denominator + underflow;
        bounds.weighted(bh, r, column) = weighted[i];
      }
      const double relative =
          (row.shift_sum + row.denominator + 3.0 * keys * mu) * kEvaluationSlack;
      bounds.l[at] = relative < kAnything ? relative : kInfinity;
      bounds.LSE[at] = relative < 1.0 ? -std::log1p(-relative) : kInfinity;
      bounds.m[at] = *std::ranges::max_element(eta_of);
      bounds.eta[at] = row.eta;
      bounds.spread[at] = row.spread;
    }
  return bounds;
}

} // namespace fa1::numerics
