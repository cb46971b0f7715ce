#include "numerics/bounds.hpp"

#include "kernels/tiling.hpp"
#include "numerics/low_precision.hpp"
#include "numerics/ulp.hpp"
#include "reference/finite.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

namespace fa1::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFloatMax = std::numeric_limits<float>::max();
constexpr double kLogError =
    2.0; ///< of logf, relative, in u: one ulp by glibc's and CUDA's manuals
constexpr double kWeightThatMatters = 0x1p-30;
/// Weights that nothing is known about: large, yet 0 times it is 0 (a key whose value is o itself
/// moves nothing).
constexpr double kAnything = 1e290;

struct Score {
  double s = 0.0;   ///< scale * sum q k
  double abs = 0.0; ///< scale * sum |q k|
};

// The hot loops once more for wider vectors, chosen at start; lanes are columns or fixed partial
// sums and nothing is fused, so the bits do not depend on the choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define FA1_FOR_EACH_VECTOR_UNIT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FA1_FOR_EACH_VECTOR_UNIT
#endif

/// Products of floats are exact in double; eight partial sums keep the adders busy.
FA1_FOR_EACH_VECTOR_UNIT
void dot(const float* q, const float* k, std::size_t d, double* sum, double* abs_sum) {
  constexpr std::size_t kLanes = 8;
  using Floats [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float))]] = float;
  using Doubles [[gnu::vector_size(kLanes * sizeof(double))]] = double;
  Doubles s{}, a{};
  std::size_t i = 0;
  for (; i + kLanes <= d; i += kLanes) {
    const Doubles x = __builtin_convertvector(*reinterpret_cast<const Floats*>(q + i), Doubles);
    const Doubles y = __builtin_convertvector(*reinterpret_cast<const Floats*>(k + i), Doubles);
    const Doubles product = x * y;
    s += product;
    a += product < 0.0 ? -product : product;
  }
  for (std::size_t l = 0; i + l < d; ++l) {
    const double product = double{q[i + l]} * double{k[i + l]};
    s[l] += product;
    a[l] += std::fabs(product);
  }
  *sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  *abs_sum = ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

/// What one key adds to the sums of every column, before and after o is known.
FA1_FOR_EACH_VECTOR_UNIT
void add_value(const float* __restrict v, std::size_t dv, double p, double* __restrict o,
               double* __restrict weighted) {
  for (std::size_t i = 0; i < dv; ++i) {
    const double value = v[i];
    o[i] += p * value;
    weighted[i] += p * std::fabs(value);
  }
}

struct Factors {
  double shift, numerator, stat_shift, stat_numerator;
};

struct ColumnSums {
  std::vector<double> shift, numerator, stat_shift, stat_numerator, farthest;
};

FA1_FOR_EACH_VECTOR_UNIT
void add_distances(const float* __restrict v, std::size_t dv, Factors f, const double* __restrict o,
                   const double* __restrict doubt, double* __restrict shift,
                   double* __restrict numerator, double* __restrict stat_shift,
                   double* __restrict stat_numerator, double* __restrict farthest) {
  for (std::size_t i = 0; i < dv; ++i) {
    const double value = v[i], size = std::fabs(value);
    const double distance = std::fabs(value - o[i]) + doubt[i];
    shift[i] += f.shift * distance;
    numerator[i] += f.numerator * size;
    stat_shift[i] += f.stat_shift * distance;
    stat_numerator[i] += f.stat_numerator * size;
    farthest[i] = farthest[i] < distance ? distance : farthest[i];
  }
}

Score score(std::span<const float> q, std::span<const float> k, double scale,
            double& largest_unscaled) {
  double sum = 0.0, abs = 0.0;
  dot(q.data(), k.data(), q.size(), &sum, &abs);
  largest_unscaled = std::max(largest_unscaled, abs);
  return {scale * sum, std::fabs(scale) * abs};
}

std::string obstacle_in_inputs(const reference::Problem& problem, std::int64_t n_kv,
                               double largest_weight) {
  const float v = reference::largest_magnitude(problem.V.elements());
  if (!reference::all_finite(problem.Q.elements()))
    return "Q holds NaN or Inf";
  if (!reference::all_finite(problem.K.elements()))
    return "K holds NaN or Inf";
  if (!std::isfinite(v))
    return "V holds NaN or Inf";
  if (double{v} * static_cast<double>(n_kv) * largest_weight >= kFloatMax)
    return largest_weight == 1.0 ? "n_kv * max|v| reaches FLT_MAX"
                                 : "n_kv * max|v| * the largest weight reaches FLT_MAX";
  return {};
}

/// |s^ - s|: roundings, and products or a scaling that underflow (2^-150 each, d + 1 of them before
/// and after the scale).
double score_error(double gamma_dot, double abs, double scale, std::int64_t d) {
  if (gamma_dot == 0.0 || abs == 0.0) // no product, no error
    return 0.0;
  return gamma_dot * abs + (std::fabs(scale) * static_cast<double>(d) + 1.0) * 0x1p-150;
}

/// What the arithmetic of a kernel does to key j of N, in counts of roundings.
struct OfKey {
  double numerator = 0.0;   ///< n_j
  double denominator = 0.0; ///< n'_j
  double weight = 0.0; ///< of eps_j: in numerator and denominator alike, besides score and argument
  bool apart = false;  ///< the argument counts in each by itself: weights are made twice
};

class Roundings {
public:
  Roundings(const kernels::Arithmetic& arithmetic, std::int64_t keys, std::int64_t d,
            bool scores_exact)
      : known_(arithmetic.known), N_(static_cast<double>(keys)),
        Bc_(arithmetic.known ? arithmetic.Bc : 1), tiles_(kernels::parts(keys, Bc_)),
        width_(static_cast<double>(std::min<std::int64_t>(keys, Bc_))),
        a_(arithmetic.contracted ? 2.0 : 3.0), order_(arithmetic.order),
        carried_(arithmetic.carried) {
    const double dot = static_cast<double>(d) + (known_ ? 1.0 : kUnknownDot);
    gamma_dot = scores_exact ? 0.0 : gamma(dot);
    stat_dot = scores_exact ? 0.0 : kU * std::sqrt(dot);
    c = exp_error_of(arithmetic);
    mu = known_ ? arithmetic.exp_underflow : std::max(arithmetic.exp_underflow, 0x1p-126);
    lag = known_ ? 0.0 : kUnknownLag;
    products = 3.0 * tiles() + 2.0;
    gives_LSE = arithmetic.gives_LSE;
    largest_weight = arithmetic.largest_weight();
    if (!known_)
      return;
    if (order_ == Order::lagging)
      lag = 2.0 * kernels::Arithmetic::kLag;
    if (order_ == Order::tile_maximum || order_ == Order::ranges)
      underflows = 4.0;
    if (order_ != Order::every_tile)
      products = 5.0 * tiles() + 12.0;
    weights_apart = order_ == Order::two_fetches;
    divided_weights = order_ == Order::rows_of_S;
  }

  std::int64_t tile_width() const { return Bc_; }
  double tiles() const { return static_cast<double>(tiles_); }

  /// Numbers are rounded before they are multiplied, see low_precision.hpp.
  void multiply_low(const LowPrecision& low, const reference::Problem& problem) {
    const double inputs = low.q.relative + low.k.relative + low.q.relative * low.k.relative;
    gamma_dot += inputs * (1.0 + gamma_dot);
    stat_dot += inputs;
    score_floor =
        std::fabs(double{problem.scale}) * static_cast<double>(problem.shape.d) *
        (low.q.tiny * reference::largest_magnitude(problem.K.elements()) +
         low.k.tiny * reference::largest_magnitude(problem.Q.elements()) + low.q.tiny * low.k.tiny);
    p_low = low.p;
    v_low = low.v;
  }

  /// t is the tile of key j, and R tiles after it may set a new maximum.
  OfKey of_key(std::int64_t t, double R) const {
    const double T = static_cast<double>(tiles_ - 1 - t); // later tiles
    if (!known_)
      return {4.0 * N_ + 6.0, 2.0 * N_ + 4.0, c * (2.0 + N_) + N_ + 1.0};
    switch (order_) {
    case Order::every_tile:
      break;
    case Order::tile_maximum:
      return {width_ + 3.0 + a_ * T, width_ + 1.0 + T, c * (2.0 + R) + R};
    case Order::at_end:
    case Order::lagging:
      return {width_ + 2.0 + T + R + (carried_ ? 2.0 * T : 0.0), width_ + T + R, c * (1.0 + R)};
    case Order::rows_of_S:
      return {width_ + 2.0 + T, N_ - 1.0, c};
    case Order::two_fetches:
      return {width_ + 2.0 + T + c, width_ + T + R + c * (1.0 + R), 0.0, true};
    case Order::ranges: {
      const std::int64_t ranges = kernels::ranges_used(tiles_);
      const std::int64_t range = t / kernels::parts(tiles_, kernels::kKeyRanges);
      const std::int64_t end = kernels::tiles_of_range(tiles_, range).second;
      const auto tiles_in = static_cast<double>(end - 1 - t); // later ones
      const auto merges = static_cast<double>(range == 0 ? ranges - 1 : ranges - range);
      return {width_ + 2.0 + 2.0 * tiles_in + 3.0 * merges, width_ + 2.0 * tiles_in + merges,
              c * (1.0 + tiles_in + merges) + merges};
    }
    }
    return {width_ + 2.0 + a_ * T, width_ + T, c * (1.0 + R) + R};
  }
  /// R_j for the statistical expectation.
  double rescalings(double rises) const { return known_ ? rises : N_ + 1.0; }

  double gamma_dot, stat_dot; ///< of a score
  double c, mu;               ///< of an exponential
  double lag;                 ///< added to |s_j - M| in the sum of the arguments
  double underflows = 3.0;    ///< times N mu
  double products;            ///< that may underflow, besides N
  double largest_weight = 1.0;
  bool gives_LSE = false, weights_apart = false, divided_weights = false;
  double score_floor = 0.0; ///< of eta: what inputs below the normal range of their format add
  Rounding p_low, v_low;    ///< of p and V where they are multiplied

private:
  using Order = kernels::Order;
  static constexpr double kUnknownDot = 5.0, kUnknownLag = 6.0;

  bool known_;
  double N_;
  std::int64_t Bc_, tiles_;
  double width_, a_;
  Order order_;
  bool carried_;
};

/// The scores of one row against the keys of a chunk.
struct Scores {
  std::vector<double> s, abs, eta, p; ///< p: exp(s - M)

  void compute(const reference::Problem& chunk, std::int64_t bh, std::int64_t r, double gamma_dot,
               double floor = 0.0) {
    const auto q = chunk.Q.row(bh, r);
    const auto N = static_cast<std::size_t>(chunk.shape.n_kv);
    const double scale = chunk.scale;
    for (auto* values : {&s, &abs, &eta, &p})
      values->resize(N);
    for (std::size_t j = 0; j < N; ++j) {
      const Score x =
          score(q, chunk.K.row(bh, static_cast<std::int64_t>(j)), scale, largest_unscaled);
      s[j] = x.s;
      abs[j] = x.abs;
      eta[j] = score_error(gamma_dot, x.abs, scale, chunk.shape.d) + floor;
      largest_scaled = std::max(largest_scaled, x.abs);
    }
  }
  /// Keys so far below the maximum that they weigh nothing in any kernel may lie beyond fp32.
  void change(const ScoreChange& by, std::int64_t d, std::int64_t r, double stat_dot) {
    double lowest_maximum = -kInfinity;
    for (std::size_t j = 0; j < s.size(); ++j) {
      const BoundedScore x =
          change_score(by, {s[j], abs[j], eta[j]}, d, r, static_cast<std::int64_t>(j));
      s[j] = x.s;
      abs[j] = x.size + x.expected / stat_dot;
      eta[j] = x.eta;
      lowest_maximum = std::max(lowest_maximum, x.s - x.eta);
    }
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (s[j] + eta[j] + kFar < lowest_maximum) {
        s[j] = lowest_maximum - kFar;
        abs[j] = eta[j] = 0.0;
      }
      largest_scaled = std::max(largest_scaled, abs[j]);
    }
  }
  void weigh(double M) {
    for (std::size_t j = 0; j < s.size(); ++j)
      p[j] = std::exp(s[j] - M);
  }

  double largest_unscaled = 0.0, largest_scaled = 0.0; ///< sum |q k|, ever
};

/// Does the next tile set a new maximum, given that every score may be off by its eta?
class Maximum {
public:
  bool may_rise(const Scores& scores, std::size_t first, std::size_t last) {
    double high = -kInfinity, low = -kInfinity;
    for (std::size_t j = first; j < last; ++j) {
      high = std::max(high, scores.s[j] + scores.eta[j]);
      low = std::max(low, scores.s[j] - scores.eta[j]);
    }
    const bool rises = !first_tile_ && high > floor_;
    first_tile_ = false;
    floor_ = std::max(floor_, low);
    return rises;
  }

private:
  double floor_ = -kInfinity;
  bool first_tile_ = true;
};

/// One query row: first what there is (survey), then what the roundings make of it (weigh). Each
/// takes all keys in order, in any number of chunks that begin at a tile's border.
class RowBound {
public:
  RowBound(const Roundings& roundings, std::size_t dv)
      : roundings_(roundings), o_(dv), weighted_(dv), doubt_(dv) {
    for (auto* sum : {&sums_.shift, &sums_.numerator, &sums_.stat_shift, &sums_.stat_numerator,
                      &sums_.farthest})
      sum->resize(dv);
  }

  void survey(const reference::Problem& chunk, std::int64_t bh, Scores& scores) {
    const std::size_t N = scores.s.size();
    double M = M_;
    for (std::size_t j = 0; j < N; ++j) {
      M = std::max(M, scores.s[j]);
      M_high_ = std::max(M_high_, scores.s[j] + scores.eta[j]);
      lowest_ = std::min(lowest_, scores.s[j]);
      largest_eta_ = std::max(largest_eta_, scores.eta[j]);
    }
    if (M > M_) { // earlier sums were taken at a lower maximum
      const double factor = std::exp(M_ - M);
      l_ *= factor;
      for (std::size_t i = 0; i < o_.size(); ++i) {
        o_[i] *= factor;
        weighted_[i] *= factor;
      }
      M_ = M;
    }
    for_each_tile(N, [&](std::size_t first, std::size_t last) {
      rises_ += maximum_.may_rise(scores, first, last) ? 1.0 : 0.0;
    });
    scores.weigh(M_);
    for (std::size_t j = 0; j < N; ++j) {
      const double p = scores.p[j];
      const auto v = chunk.V.row(bh, static_cast<std::int64_t>(j));
      l_ += p;
      add_value(v.data(), v.size(), p, o_.data(), weighted_.data());
    }
    keys_ += N;
  }

  /// Between the two.
  void settle() {
    for (std::size_t i = 0; i < o_.size(); ++i) {
      o_[i] /= l_;
      weighted_[i] /= l_;
    }
    log_l_ = std::log(l_);
    maximum_ = {};
    tile_ = 0;
    // The sums above were made in double: so far may o be off. One key is exact.
    for (std::size_t i = 0; i < o_.size(); ++i)
      doubt_[i] = static_cast<double>(keys_ - 1) * 0x1p-50 * weighted_[i];
  }

  double maximum() const { return M_; }

  /// `scores` with their p.
  void weigh(const reference::Problem& chunk, std::int64_t bh, const Scores& scores) {
    const double c = roundings_.c;
    for_each_tile(scores.s.size(), [&](std::size_t first, std::size_t last) {
      rises_ -= maximum_.may_rise(scores, first, last) ? 1.0 : 0.0;
      const double R = roundings_.rescalings(rises_);
      const OfKey n = roundings_.of_key(tile_, rises_);
      double gamma_numerator = gamma(n.numerator), gamma_denominator = gamma(n.denominator);
      double stat_numerator = kU * std::sqrt(n.numerator);
      double stat_denominator = kU * std::sqrt(n.denominator);
      const double p_low = roundings_.p_low.relative, v_low = roundings_.v_low.relative;
      if (p_low + v_low > 0.0) {
        gamma_numerator = (1.0 + gamma_numerator) * (1.0 + p_low) * (1.0 + v_low) - 1.0;
        gamma_denominator = (1.0 + gamma_denominator) * (1.0 + p_low) - 1.0;
        stat_numerator += p_low + v_low;
      }
      for (std::size_t j = first; j < last; ++j) {
        const double eta = scores.eta[j], gap = M_ - scores.s[j];
        const double argument = std::max(0.0, M_high_ - scores.s[j] + eta) + roundings_.lag;
        if (n.apart) {
          gamma_numerator = gamma(n.numerator + (1.0 + kU) * argument);
          gamma_denominator = gamma(n.denominator + (1.0 + kU) * argument);
          stat_numerator = kU * std::sqrt(n.numerator + argument * argument);
          stat_denominator = kU * std::sqrt(n.denominator + argument * argument);
        }
        const double left = 1.0 - std::min(1.0, gamma_denominator);
        const double eps = eta + kU * (1.0 + kU) * ((n.apart ? 0.0 : argument) + n.weight);
        const double p = scores.p[j] / l_;
        // p_j (e^eps_j - 1), p_j e^eps_j and p_j e^-eps_j, finite however far the key lies
        double shift = 0.0, raised = 0.0, lowered = 0.0;
        if (eps < 1.0) {
          const double grown = std::expm1(eps);
          shift = p * grown;
          raised = p + shift;
          lowered = p / (1.0 + grown);
        } else {
          shift = raised = std::min(kAnything, std::exp(eps - gap - log_l_));
          lowered = std::exp(-gap - std::min(eps, kAnything) - log_l_);
        }
        const double numerator = raised * gamma_numerator;
        const double stat_shift = p * (roundings_.stat_dot * scores.abs[j] +
                                       kU * std::sqrt(c * c * (1.0 + R) + R + gap * gap));
        denominator_ += raised * gamma_denominator;
        kept_ += lowered * left;
        shift_sum_ += shift;
        stat_denominator_ += p * stat_denominator;
        if (p > kWeightThatMatters)
          eta_ = std::max(eta_, eta);

        const auto v = chunk.V.row(bh, static_cast<std::int64_t>(j));
        add_distances(v.data(), v.size(), {shift, numerator, stat_shift, p * stat_numerator},
                      o_.data(), doubt_.data(), sums_.shift.data(), sums_.numerator.data(),
                      sums_.stat_shift.data(), sums_.stat_numerator.data(), sums_.farthest.data());
      }
      ++tile_;
    });
  }

  void finish(Bounds& bounds, std::int64_t bh, std::int64_t r) const {
    const auto keys = static_cast<double>(keys_);
    const auto at = static_cast<std::size_t>(bh * bounds.O.rows() + r);
    for (std::size_t i = 0; i < o_.size(); ++i) {
      // Where weights are made or rounded apart, they do not move numerator and denominator alike.
      const double apart = sums_.farthest[i] + std::fabs(o_[i]);
      const double underflow =
          roundings_.underflows * keys * roundings_.mu * roundings_.largest_weight *
              (sums_.farthest[i] + (roundings_.weights_apart ? 2.0 * std::fabs(o_[i]) : 0.0)) +
          (roundings_.divided_weights ? keys * apart * 0x1p-150 : 0.0) +
          keys * roundings_.p_low.tiny * apart + 2.0 * (1.0 + shift_sum_) * roundings_.v_low.tiny +
          (keys + roundings_.products) * 0x1p-150;
      const auto column = static_cast<std::int64_t>(i);
      const double sum =
          sums_.shift[i] + sums_.numerator[i] + std::fabs(o_[i]) * denominator_ + underflow;
      bounds.O(bh, r, column) =
          kept_ > 0.0 && sum < kAnything ? sum / kept_ * kEvaluationSlack : kInfinity;
      bounds.expected(bh, r, column) = sums_.stat_shift[i] + sums_.stat_numerator[i] +
                                       std::fabs(o_[i]) * stat_denominator_ + underflow;
      bounds.weighted(bh, r, column) = weighted_[i];
    }
    const double relative =
        (shift_sum_ + denominator_ +
         roundings_.underflows * keys * roundings_.mu * roundings_.largest_weight) *
        kEvaluationSlack;
    bounds.l[at] = relative < kAnything ? relative : kInfinity;
    bounds.LSE[at] = relative < 1.0 ? -std::log1p(-relative) : kInfinity;
    if (roundings_.gives_LSE) {
      const double log_l = log_l_ + bounds.LSE[at] + largest_eta_;
      bounds.LSE[at] +=
          kU * kEvaluationSlack * (kLogError * log_l + std::fabs(M_ + log_l_) + bounds.LSE[at]);
      bounds.l[at] = std::expm1(bounds.LSE[at]);
    }
    bounds.m[at] = largest_eta_;
    bounds.eta[at] = eta_;
    bounds.spread[at] = M_ - lowest_;
  }

private:
  template <class OnTile> void for_each_tile(std::size_t N, const OnTile& on_tile) const {
    const auto Bc = static_cast<std::size_t>(roundings_.tile_width());
    for (std::size_t first = 0; first < N; first += Bc)
      on_tile(first, std::min(N, first + Bc));
  }

  const Roundings& roundings_;
  double M_ = -kInfinity, M_high_ = -kInfinity, lowest_ = kInfinity, largest_eta_ = 0.0;
  double l_ = 0.0, log_l_ = 0.0;
  std::vector<double> o_, weighted_; ///< sum_j p_j v_j and sum_j p_j |v_j|
  std::vector<double> doubt_;        ///< how far o_ may be off
  std::size_t keys_ = 0;
  std::int64_t tile_ = 0;
  Maximum maximum_;
  double rises_ = 0.0; ///< of all tiles, then of those still to come

  double denominator_ = 0.0; ///< sum_j p_j e^eps_j gamma_{n'_j}
  double kept_ = 0.0;        ///< sum_j p_j e^-eps_j (1 - gamma_{n'_j})
  double shift_sum_ = 0.0, stat_denominator_ = 0.0, eta_ = 0.0;
  ColumnSums sums_;
};

void bound_row(const Roundings& roundings, const reference::Problem& problem, std::int64_t bh,
               std::int64_t r, Scores& scores, Bounds& bounds) {
  RowBound row(roundings, static_cast<std::size_t>(problem.shape.dv));
  row.survey(problem, bh, scores);
  row.settle();
  row.weigh(problem, bh, scores);
  row.finish(bounds, bh, r);
}

std::string overflow_in_scores(const Scores& scores, const reference::Shape& shape,
                               std::int64_t row) {
  if (scores.largest_unscaled * (1.0 + gamma(static_cast<double>(shape.d))) >= kFloatMax ||
      scores.largest_scaled >= kFloatMax)
    return "sum |q k| reaches FLT_MAX in row " + std::to_string(row);
  return {};
}

Bounds empty_bounds(const reference::Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  return {reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
          reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
          std::vector<double>(rows),
          std::vector<double>(rows),
          std::vector<double>(rows),
          std::vector<double>(rows),
          std::vector<double>(rows),
          reference::Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
          {}};
}

} // namespace

double exp_error_of(const kernels::Arithmetic& arithmetic) {
  static const double widest =
      kernels::exp_error_of("", "CUDA", "expf")->c(); // none is documented worse
  return arithmetic.known ? arithmetic.exp_error : std::max(arithmetic.exp_error, widest);
}

double gamma(double n) { return n * kU < 1.0 ? n * kU / (1.0 - n * kU) : kInfinity; }

std::string obstacle_of(const reference::Problem& problem, const kernels::Arithmetic& arithmetic) {
  const reference::Shape& shape = problem.shape;
  std::string obstacle = obstacle_in_inputs(problem, shape.n_kv, arithmetic.largest_weight());
  Scores scores;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q && obstacle.empty(); ++r) {
      scores.compute(problem, bh, r, 0.0);
      obstacle = overflow_in_scores(scores, shape, r);
    }
  return obstacle;
}

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
  Bounds bounds = empty_bounds(shape);
  bounds.obstacle = obstacle_in_inputs(problem, shape.n_kv, arithmetic.largest_weight());
  if (!bounds.obstacle.empty() || shape.n_kv == 0)
    return bounds;
  const Roundings roundings(arithmetic, shape.n_kv, shape.d, scores_exact);
  Scores scores;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      scores.compute(problem, bh, r, roundings.gamma_dot);
      bounds.obstacle = overflow_in_scores(scores, shape, r);
      if (!bounds.obstacle.empty())
        return bounds;
      bound_row(roundings, problem, bh, r, scores, bounds);
    }
  return bounds;
}

Bounds low_precision_bound(const reference::Problem& problem, const LowPrecision& low,
                           bool gives_LSE, unsigned threads, const ScoreChange& change) {
  const reference::Shape& shape = problem.shape;
  kernels::Arithmetic arithmetic;
  arithmetic.known = false;
  arithmetic.gives_LSE = gives_LSE;
  Bounds bounds = empty_bounds(shape);
  bounds.obstacle = obstacle_in_inputs(problem, shape.n_kv, arithmetic.largest_weight());
  if (!bounds.obstacle.empty() || shape.n_kv == 0)
    return bounds;
  Roundings roundings(arithmetic, std::max(shape.n_kv, low.keys_visited), shape.d, false);
  roundings.multiply_low(low, problem);
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  std::vector<std::string> overflows(rows);
  reference::in_parallel(rows, threads, [&](std::size_t at) {
    const auto bh = static_cast<std::int64_t>(at) / shape.n_q;
    const auto r = static_cast<std::int64_t>(at) % shape.n_q;
    Scores scores;
    scores.compute(problem, bh, r, roundings.gamma_dot, roundings.score_floor);
    if (change.any())
      scores.change(change, shape.d, r, roundings.stat_dot);
    overflows[at] = overflow_in_scores(scores, shape, r);
    if (overflows[at].empty())
      bound_row(roundings, problem, bh, r, scores, bounds);
  });
  for (const std::string& overflow : overflows)
    if (bounds.obstacle.empty())
      bounds.obstacle = overflow;
  return bounds;
}

struct OnlineSoftmaxBound::Progress {
  Progress(const reference::Shape& whole, const kernels::Arithmetic& arithmetic, bool scores_exact)
      : shape(whole), roundings(arithmetic, whole.n_kv, whole.d, scores_exact),
        rows(static_cast<std::size_t>(whole.batch_heads * whole.n_q),
             RowBound(roundings, static_cast<std::size_t>(whole.dv))) {}

  reference::Shape shape;
  Roundings roundings;
  std::vector<RowBound> rows;
  std::string obstacle;
  bool settled = false;
  std::mutex mutex;
};

OnlineSoftmaxBound::OnlineSoftmaxBound(const reference::Shape& whole,
                                       const kernels::Arithmetic& arithmetic, bool scores_exact)
    : progress_(new Progress(whole, arithmetic, scores_exact)) {}

OnlineSoftmaxBound::~OnlineSoftmaxBound() = default;

void OnlineSoftmaxBound::survey(const reference::Problem& chunk, unsigned threads) {
  Progress& now = *progress_;
  if (now.obstacle.empty())
    now.obstacle = obstacle_in_inputs(chunk, now.shape.n_kv, now.roundings.largest_weight);
  if (!now.obstacle.empty())
    return;
  reference::in_parallel(now.rows.size(), threads, [&](std::size_t at) {
    const auto bh = static_cast<std::int64_t>(at) / now.shape.n_q;
    const auto r = static_cast<std::int64_t>(at) % now.shape.n_q;
    Scores scores;
    scores.compute(chunk, bh, r, now.roundings.gamma_dot);
    if (std::string overflow = overflow_in_scores(scores, now.shape, r); !overflow.empty()) {
      const std::lock_guard lock(now.mutex);
      if (now.obstacle.empty())
        now.obstacle = std::move(overflow);
    }
    now.rows[at].survey(chunk, bh, scores);
  });
}

void OnlineSoftmaxBound::weigh(const reference::Problem& chunk, unsigned threads) {
  Progress& now = *progress_;
  if (!now.obstacle.empty())
    return;
  if (!std::exchange(now.settled, true))
    for (RowBound& row : now.rows)
      row.settle();
  reference::in_parallel(now.rows.size(), threads, [&](std::size_t at) {
    const auto bh = static_cast<std::int64_t>(at) / now.shape.n_q;
    const auto r = static_cast<std::int64_t>(at) % now.shape.n_q;
    Scores scores;
    scores.compute(chunk, bh, r, now.roundings.gamma_dot);
    scores.weigh(now.rows[at].maximum());
    now.rows[at].weigh(chunk, bh, scores);
  });
}

Bounds OnlineSoftmaxBound::bounds() const {
  Bounds bounds = empty_bounds(progress_->shape);
  bounds.obstacle = progress_->obstacle;
  if (!bounds.obstacle.empty() || progress_->shape.n_kv == 0)
    return bounds;
  for (std::size_t at = 0; at < progress_->rows.size(); ++at) {
    const std::int64_t n_q = progress_->shape.n_q;
    progress_->rows[at].finish(bounds, static_cast<std::int64_t>(at) / n_q,
                               static_cast<std::int64_t>(at) % n_q);
  }
  return bounds;
}

} // namespace fa1::numerics
