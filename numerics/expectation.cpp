#include "numerics/expectation.hpp"

#include "numerics/bounds.hpp"
#include "numerics/ulp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fa1::numerics {
namespace {

using reference::Problem;

/// ulp_of for finite numbers, quickly: these are asked for once a multiplication.
double ulp(double y) {
  constexpr std::uint64_t kExponent = 0x7ffull << 52;
  const double binade = std::bit_cast<double>(std::bit_cast<std::uint64_t>(y) & kExponent);
  return std::max(binade * 0x1p-23, 0x1p-149);
}

/// Variance of a rounding to the float nearest y.
double r2(double y) {
  const double step = ulp(y);
  return y == 0.0 ? 0.0 : step * step / 12.0;
}

/// Variance of the rounded a + b: 0 where one is 0 or the sum needs no finer step than its parts have.
double r2_of_sum(double a, double b) {
  const double sum = a + b;
  if (a == 0.0 || b == 0.0 || sum == 0.0 || ulp(sum) <= std::min(ulp(a), ulp(b)))
    return 0.0;
  return r2(sum);
}

struct Score {
  double s = 0.0;
  double variance = 0.0;
};

Score score_of(std::span<const float> q, std::span<const float> k, double scale,
               const kernels::Arithmetic& arithmetic) {
  // Inputs are floats, so a result that is one as well was not rounded.
  const auto rounded = [](double y) { return double{static_cast<float>(y)} == y ? 0.0 : r2(y); };
  double dot = 0.0, variance = 0.0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double product = double{q[i]} * double{k[i]};
    if (!arithmetic.contracted)
      variance += rounded(product);
    dot += product;
    variance += rounded(dot);
  }
  const double s = scale * dot;
  double variance_of_s = scale * scale * variance + rounded(s);
  if (!arithmetic.known)
    variance_of_s += 2.0 * r2(s);
  return {s, variance_of_s};
}

/// The variances of one query row, with tiles of Bc keys.
class RowOf {
public:
  RowOf(const Problem& problem, const kernels::Arithmetic& arithmetic, std::size_t Bc)
      : problem_(problem), arithmetic_(arithmetic), Bc_(Bc),
        order_(arithmetic.known ? arithmetic.order : Order::every_tile) {}

  void compute(std::int64_t bh, std::int64_t row, std::span<double> O, double& l) {
    const auto N = static_cast<std::size_t>(problem_.shape.n_kv);
    const auto dv = static_cast<std::size_t>(problem_.shape.dv);
    scores_.clear();
    double M = -std::numeric_limits<double>::infinity(), L = 0.0;
    for (std::size_t j = 0; j < N; ++j) {
      scores_.push_back(score_of(problem_.Q.row(bh, row),
                                 problem_.K.row(bh, static_cast<std::int64_t>(j)),
                                 double{problem_.scale}, arithmetic_));
      M = std::max(M, scores_.back().s);
    }
    p_.resize(N);
    for (std::size_t j = 0; j < N; ++j)
      L += p_[j] = std::exp(scores_[j].s - M);
    o_.assign(dv, 0.0);
    for (std::size_t j = 0; j < N; ++j) {
      p_[j] /= L;
      for (std::size_t i = 0; i < dv; ++i)
        o_[i] += p_[j] * v(bh, j, i);
    }

    std::ranges::fill(O, 0.0);
    l = 0.0;
    constexpr double kLowest = -std::numeric_limits<double>::infinity();
    const bool rescaled_apart =
        order_ == Order::at_end || order_ == Order::lagging || order_ == Order::two_fetches;
    double m = kLowest, l_t = 0.0, P = 0.0, denominator = 0.0;
    O_t_.assign(dv, 0.0);
    moment_.assign(dv, 0.0); // sum over the keys so far of p (v - o)
    for (std::size_t first = 0; first < N; first += Bc_) {
      const std::size_t last = std::min(N, first + Bc_);
      double m_tile = kLowest;
      for (std::size_t j = first; j < last; ++j)
        m_tile = std::max(m_tile, scores_[j].s);
      const double m_new = std::max(m, m_tile);
      const double g = std::exp(m_new - M) / L;

      const double alpha = std::exp(m - m_new), carried = alpha * l_t;
      double sum_p = 0.0, h = 0.0;
      if (m_new > m && first > 0 && carried > 0.0) {
        double a = weight_variance(m, m_new, alpha);
        if (rescaled_apart)
          h += r2(carried);
        else
          a += r2(carried) / (carried * carried);
        l += a * P * P;
        for (std::size_t i = 0; i < dv; ++i) // two_fetches: of the denominator alone
          O[i] += a * std::pow(order_ == Order::two_fetches ? P * o_[i] : moment_[i], 2);
      }

      const double P_before = P;
      const std::vector<double> moment_before = moment_;
      pv_.assign(dv, 0.0);
      for (std::size_t j = first; j < last; ++j) {
        const double p = std::exp(scores_[j].s - m_new);
        h += r2_of_sum(sum_p, p);
        sum_p += p;
        const double m_used = order_ == Order::tile_maximum ? m_tile : m_new;
        const double of_weight =
            weight_variance(scores_[j].s, m_used, std::exp(scores_[j].s - m_used));
        const double e = scores_[j].variance + of_weight;
        l += p_[j] * p_[j] * e;
        for (std::size_t i = 0; i < dv; ++i) {
          const double value = v(bh, j, i), away = p_[j] * (value - o_[i]), product = p * value;
          O[i] += away * away * e + g * g * product_and_sum(product, pv_[i]);
          if (order_ == Order::two_fetches) // the weights are made twice
            O[i] += p_[j] * p_[j] *
                    (value * value * weight_variance(scores_[j].s, M, std::exp(scores_[j].s - M)) +
                     o_[i] * o_[i] * of_weight);
          if (order_ == Order::rows_of_S) // p / l
            O[i] += value * value * r2(p_[j]);
          pv_[i] += product;
          moment_[i] += away;
        }
        P += p_[j];
      }

      if (order_ == Order::tile_maximum && m_tile < m_new) { // beta, the same for the whole tile
        const double beta = weight_variance(m_tile, m_new, std::exp(m_tile - m_new));
        l += beta * std::pow(P - P_before, 2);
        h += r2(sum_p);
        for (std::size_t i = 0; i < dv; ++i)
          O[i] += beta * std::pow(moment_[i] - moment_before[i], 2) + g * g * r2(pv_[i]);
      }

      const double l_new = carried + sum_p;
      h += r2_of_sum(carried, sum_p);
      denominator += g * g * h;
      for (std::size_t i = 0; i < dv; ++i) {
        const double kept = carried * O_t_[i], sum = kept + pv_[i];
        O_t_[i] = sum / l_new;
        O[i] += g * g * product_and_sum(kept, pv_[i]) + P * P * (l_new == 1.0 ? 0.0 : r2(O_t_[i]));
      }
      l_t = l_new;
      m = m_new;
    }
    l += denominator;
    if (arithmetic_.gives_LSE) // logf, of at most an ulp, and the sum
      l += 12.0 * r2(std::log(L)) + r2(M + std::log(L));
    for (std::size_t i = 0; i < dv; ++i)
      O[i] += o_[i] * o_[i] * denominator;
  }

private:
  double v(std::int64_t bh, std::size_t j, std::size_t i) const {
    return double{problem_.V(bh, static_cast<std::int64_t>(j), static_cast<std::int64_t>(i))};
  }

  /// sum + product: the rounded product, unless it is fused, and the rounded sum.
  double product_and_sum(double product, double sum) const {
    if (product == 0.0)
      return 0.0;
    return arithmetic_.contracted ? r2(product + sum) : r2(product) + r2_of_sum(product, sum);
  }

  /// Of exp(s - m), relative: the rounded argument and the exponential, which is exact at 0.
  double weight_variance(double s, double m, double p) const {
    const double gap = s - m;
    if (gap == 0.0 || p == 0.0)
      return 0.0;
    const double c = exp_error_of(arithmetic_);
    double variance = r2_of_sum(s, -m) + c * c * r2(p) / (p * p);
    if (!arithmetic_.known)
      variance += 2.0 * r2(m) + std::pow(0.5 * kU * gap, 2);
    return variance;
  }

  using Order = kernels::Order;

  const Problem& problem_;
  const kernels::Arithmetic& arithmetic_;
  std::size_t Bc_;
  Order order_;
  std::vector<Score> scores_;
  std::vector<double> p_, o_, O_t_, pv_, moment_;
};

} // namespace

Expectation expected_error(const Problem& problem, const kernels::Arithmetic& arithmetic) {
  const reference::Shape& shape = problem.shape;
  Expectation result{reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
                     std::vector<double>(static_cast<std::size_t>(shape.batch_heads * shape.n_q)),
                     obstacle_of(problem, arithmetic)};
  if (!result.obstacle.empty() || shape.n_kv == 0)
    return result;
  std::vector<std::size_t> widths{static_cast<std::size_t>(arithmetic.Bc)};
  if (!arithmetic.known)
    widths = {1, static_cast<std::size_t>(shape.n_kv)};
  else if (arithmetic.order == kernels::Order::rows_of_S)
    widths = {static_cast<std::size_t>(shape.n_kv)};
  std::vector<double> O(static_cast<std::size_t>(shape.dv));
  for (const std::size_t width : widths) {
    RowOf row_of(problem, arithmetic, width);
    for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
      for (std::int64_t row = 0; row < shape.n_q; ++row) {
        double l = 0.0;
        row_of.compute(bh, row, O, l);
        auto& l_max = result.l[static_cast<std::size_t>(bh * shape.n_q + row)];
        l_max = std::max(l_max, l);
        for (std::size_t i = 0; i < O.size(); ++i) {
          double& most = result.O(bh, row, static_cast<std::int64_t>(i));
          most = std::max(most, O[i]);
        }
      }
  }
  return result;
}

double squares_allowed(std::span<const double> variance_of_group) {
  double trace = 0.0, squares = 0.0, largest = 0.0;
  for (const double g : variance_of_group) {
    trace += g;
    squares += g * g;
    largest = std::max(largest, g);
  }
  return kExpectedAtMost * kExpectedAtMost *
         (trace + 2.0 * std::sqrt(kRarity * squares) + 2.0 * kRarity * largest);
}

double sum_allowed(std::span<const double> variance_of_group) {
  double variance = 0.0;
  for (const double g : variance_of_group)
    variance += g;
  return kExpectedAtMost * std::sqrt(2.0 * (kRarity + std::log(2.0)) * variance);
}

} // namespace fa1::numerics
