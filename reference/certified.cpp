#include "reference/certified.hpp"

#include <boost/multiprecision/mpfr.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

// The radius, derived
// -------------------
// u = 2^-53 (double), v = 2^-64 (long double), both with rounding to nearest. A = |scale| * sum_i
// |q_i k_i|, bounded by G = |scale| * |q| * |k| (Cauchy and Schwarz), which costs two norms instead
// of a second dot product.
//
// (1) Scores. The product of two floats is exact in double, and nothing here can overflow or
// underflow: all
//     numbers are 0 or between 2^-447 and 2^400. A sum is kept as hi + lo; TwoSum makes every step
//     of hi exact up to an error e_i with |e_i| <= u * (partial sum), and lo adds the e_i in
//     double. So the error of a dot product is at most gamma_d * d * u * sum|q k|. Times scale: hi
//     = top (29 bits) + rest (24 bits), so that top * scale and rest * scale are exact; lo * scale
//     and rest * scale + lo * scale are rounded, with errors at most u * (2^-28 + 2 d u) * A.
//     Altogether   |s^ - s| <= eta = (2^-79 + d (d + 4) 2^-105) * G.
// (2) Shift. O and LSE do not depend on the number subtracted from the scores, so M^ = max s^ is as
// good as M; the
//     errors of M itself enter only m (by eta) and l (by the factor exp(+-eta)).
// (3) Argument. x = s^ - M^, from an exact difference of the leading parts; one rounding that
// counts: x is off by at
//     most v|x| + 2.1 eta.
// (4) Weight w = exp(x): see exp_nonpositive, at most 4 v relative. Together w is off by the factor
//     1 + (4 + |x|) v + 2.1 eta at most, second order excluded; y = w * (5 + |x|) leaves one v for
//     it. For x < -700, w = 0 is off by less than 2^-1009.
// (5) Sums. w = w1 (29 bits) + w2 (at most 2^-28 w), so that w1 * V is exact; TwoSum as in (1), lo
// also takes w2 * V.
//     The error is at most tau * sum w|V| with tau = (n + 4) u (n u + 2^-28) * 1.01.
//     With B = sum y|V| (hence sum w|V| <= B / 5):  E = (v B + (2.1 eta + tau + 2v) B / 5) * 1.02 +
//     tiny, where tiny covers weights set to 0 and all underflow: fewer than 8 (n + 1) terms of
//     less than 2^-1000 * 2^128.
// (6) Division. |N^/L^ - N/L| <= (E_N + |N^/L^| E_L) / (L^ - E_L), and one rounding v|o|. hi + lo
// holds a long
//     double exactly.
// (7) Logarithm. With any y near ln L:  t = L exp(-y) - 1 is known to 6 v, and ln L = y + t up to
// t^2. Radii are computed in double with factors like 1.01 that cover their own roundings. Rows
// where eta exceeds kWidestEta (scores beyond about 2^44) are done again in MPFR, with exact
// scores: see exact_row.

namespace fa1::reference {
namespace {

static_assert(std::numeric_limits<double>::digits == 53 &&
                  std::numeric_limits<long double>::digits >= 64,
              "the proof above needs a long double of at least 64 bits");

constexpr double kU = 0x1p-53;
constexpr double kV = 0x1p-64;
constexpr double kWidestEta = 0x1p-34;
constexpr double kLowestArgument = -700.0; ///< exp of it is 2^-1009.9
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr std::int64_t kLanes = 4;
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));
using SignBits = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));
constexpr std::int64_t kSign = std::numeric_limits<std::int64_t>::min();
using FloatLanes = float __attribute__((vector_size(kLanes * sizeof(float))));

struct Pair {
  double hi = 0.0;
  double lo = 0.0;
};

bool operator<(const Pair& a, const Pair& b) {
  return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

/// hi + term becomes hi + error, exactly (Knuth's TwoSum).
template <class Real>
[[gnu::always_inline]] inline void add_exactly(Real& hi, const Real& term, Real& error) {
  const Real sum = hi + term;
  const Real back = sum - hi;
  error = (hi - (sum - back)) + (term - back);
  hi = sum;
}

Pair two_sum(double a, double b) {
  Pair sum{a, 0.0};
  add_exactly(sum.hi, b, sum.lo);
  return sum;
}

/// Sums over keys for kLanes columns of V, or a part of them.
struct Sums {
  Lanes hi{}, lo{}; ///< sum w V
  Lanes B{};        ///< sum y |V|, in double
};

/// The weights of a block of keys: w = w1 + w2, and y = w (5 + |x|).
struct Weights {
  const double* w1;
  const double* w2;
  const double* y;
};

/// hi + lo += sum_i q[i] k[i], kLanes keys at a time.
void add_products(const float* q, const Lanes* k, std::int64_t d, Lanes& hi_sum, Lanes& lo_sum) {
  Lanes hi = hi_sum, lo = lo_sum, error;
  for (std::int64_t i = 0; i < d; ++i) {
    const Lanes term = static_cast<double>(q[i]) * k[i];
    add_exactly(hi, term, error);
    lo += error;
  }
  hi_sum = hi;
  lo_sum = lo;
}

/// sums += weights times `width` columns of V, whose rows are `stride` apart.
template <bool kFull>
void add_values(const float* values, std::int64_t width, std::int64_t stride, std::int64_t count,
                const Weights& weights, Sums& sums) {
  Lanes hi = sums.hi, lo = sums.lo, B = sums.B, error;
  for (std::int64_t j = 0; j < count; ++j, values += stride) {
    FloatLanes narrow{};
    if constexpr (kFull)
      __builtin_memcpy(&narrow, values, sizeof narrow);
    else
      for (std::int64_t lane = 0; lane < width; ++lane)
        narrow[lane] = values[lane];
    const Lanes value = __builtin_convertvector(narrow, Lanes);
    const Lanes term = weights.w1[j] * value;
    add_exactly(hi, term, error);
    lo += error + weights.w2[j] * value;
    B += weights.y[j] * reinterpret_cast<Lanes>(reinterpret_cast<SignBits>(value) & ~kSign);
  }
  sums.hi = hi;
  sums.lo = lo;
  sums.B = B;
}

/// The leading 29 bits, so that a product with a float is exact.
double leading_bits(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~((std::uint64_t{1} << 24) - 1));
}

Pair pair_of(long double x) {
  const auto hi = static_cast<double>(x);
  return {hi, static_cast<double>(x - hi)};
}

constexpr int kDegree = 17;
/// 1 / k!, rounded once: 17! is exact in 64 bits.
constexpr auto kTaylor = [] {
  std::array<long double, kDegree + 1> c{};
  long double factorial = 1.0L;
  for (int k = 0; k <= kDegree; ++k) {
    factorial *= k == 0 ? 1.0L : static_cast<long double>(k);
    c[static_cast<std::size_t>(k)] = 1.0L / factorial;
  }
  return c;
}();

/// exp(x) for -700 <= x <= 0, relative error at most 4 * 2^-64.
///
/// x = k ln 2 + r, |r| <= 0.3467: k * ln2_high is exact (11 + 48 bits), the difference to x as well
/// (a multiple of 2^-65 below 1/2), and the correction rounds once, 0.35 v. Taylor to degree 17
/// leaves 2^-80. Horner: with P_k = 1/k! + r P_(k+1), at |r| <= 0.3467, the error obeys E_k <=
/// v|P_k| + 0.3467 (v|P_(k+1)| + E_(k+1)) + v/k! (the coefficient; none for k < 3), which gives E_3
/// <= 0.7 v, E_2 <= 0.9 v, E_1 <= 1.75 v and E_0 <= 2.45 v for r > 0, where exp(r) >= 1; for r < 0,
/// |P_0| <= 1 and |P_1| <= 1, |P_2| <= 1/2, so E_0 <= 1.9 v against exp(r) >= 0.707. Both stay
/// below 2.7 v relative; with r's error below 3.1 v.
long double exp_nonpositive(long double x) {
  constexpr long double kLn2High = 0xb17217f7d1cfp-48L;
  constexpr long double kLn2Low = 0x7.9abc9e3b39803f2f6af40f34p-52L;
  constexpr long double kLog2E = 0x1.71547652b82fe1777d0ffda0dp+0L;
  const auto k = static_cast<int>(x * kLog2E - 0.5L);
  const long double r =
      (x - static_cast<long double>(k) * kLn2High) - static_cast<long double>(k) * kLn2Low;
  long double p = kTaylor[kDegree];
  for (std::size_t i = kDegree; i-- > 0;)
    p = p * r + kTaylor[i];
  return p * static_cast<long double>(
                 std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52));
}

/// What all rows of one batch-head share.
struct Keys {
  std::vector<char> finite;  ///< per key: every entry of its K row is finite
  double largest_norm = 0.0; ///< of the finite keys, rounded up
  std::vector<std::pair<std::int64_t, std::int64_t>>
      special_values; ///< (key, column) where V is NaN or Inf
};

double norm_above(std::span<const float> row) {
  double squares = 0.0; // at most 2^264, at least 2^-298 if not 0
  for (const float x : row)
    squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares) * (1.0 + 0x1p-20);
}

bool all_finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
}

Keys survey(const Problem& problem, std::int64_t bh) {
  const Shape& shape = problem.shape;
  Keys keys;
  keys.finite.resize(static_cast<std::size_t>(shape.n_kv));
  for (std::int64_t j = 0; j < shape.n_kv; ++j) {
    const auto row = problem.K.row(bh, j);
    const bool finite = all_finite(row);
    keys.finite[static_cast<std::size_t>(j)] = finite;
    if (finite)
      keys.largest_norm = std::max(keys.largest_norm, norm_above(row));
    const auto values = problem.V.row(bh, j);
    if (!all_finite(values))
      for (std::int64_t c = 0; c < shape.dv; ++c)
        if (!std::isfinite(values[static_cast<std::size_t>(c)]))
          keys.special_values.emplace_back(j, c);
  }
  return keys;
}

/// A score with NaN or Inf among its factors, by the rules of IEEE 754: NaN, +Inf or -Inf.
double special_score(const Problem& problem, std::int64_t bh, std::int64_t row, std::int64_t key) {
  double dot = 0.0;
  for (std::int64_t i = 0; i < problem.shape.d; ++i)
    dot += static_cast<double>(problem.Q(bh, row, i)) * static_cast<double>(problem.K(bh, key, i));
  return static_cast<double>(problem.scale) * dot;
}

/// One thread's workspace, and the work.
class Worker {
public:
  Worker(const Problem& problem, Truth& truth)
      : problem_(problem), truth_(truth), shape_(problem.shape) {}

  void rows(const Keys& keys, std::int64_t bh, std::int64_t first, std::int64_t count) {
    scores(keys, bh, first, count);
    for (std::int64_t r = 0; r < count; ++r)
      row(keys, bh, first + r, scores_.data() + r * shape_.n_kv);
  }

  std::int64_t exact_rows() const { return exact_rows_; }

private:
  bool finite_query(std::int64_t bh, std::int64_t q) const {
    return std::isfinite(problem_.scale) && all_finite(problem_.Q.row(bh, q));
  }

  void scores(const Keys& keys, std::int64_t bh, std::int64_t first, std::int64_t count) {
    const std::int64_t n = shape_.n_kv, d = shape_.d;
    scores_.resize(static_cast<std::size_t>(count * n));
    columns_.resize(static_cast<std::size_t>(d));
    const auto scale = static_cast<double>(problem_.scale);
    for (std::int64_t j = 0; j < n; j += kLanes) {
      const std::int64_t width = std::min(kLanes, n - j);
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const float* key = problem_.K.row(bh, j + std::min(lane, width - 1)).data();
        for (std::int64_t i = 0; i < d; ++i)
          columns_[static_cast<std::size_t>(i)][lane] = static_cast<double>(key[i]);
      }
      for (std::int64_t r = 0; r < count; ++r) {
        Lanes hi{}, lo{};
        add_products(problem_.Q.row(bh, first + r).data(), columns_.data(), d, hi, lo);
        Pair* const out = scores_.data() + r * n + j;
        for (std::int64_t lane = 0; lane < width; ++lane) {
          const double top = leading_bits(hi[lane]);
          const double rest = hi[lane] - top;
          out[lane] = two_sum(top * scale, rest * scale + lo[lane] * scale);
        }
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const bool finite = finite_query(bh, first + r);
      for (std::int64_t j = 0; j < n; ++j)
        if (!finite || !keys.finite[static_cast<std::size_t>(j)])
          scores_[static_cast<std::size_t>(r * n + j)] = {special_score(problem_, bh, first + r, j),
                                                          0.0};
    }
  }

  void row(const Keys& keys, std::int64_t bh, std::int64_t q, const Pair* scores) {
    const std::int64_t n = shape_.n_kv, dv = shape_.dv;
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    if (n == 0) {
      truth_.m[at] = truth_.LSE[at] = {-kInf, 0.0, 0.0};
      return; // O and l are 0 already
    }

    const auto d = static_cast<double>(shape_.d);
    double G = 0.0; // a query with NaN or Inf has special scores only: no rounding in them
    if (finite_query(bh, q))
      G = std::fabs(static_cast<double>(problem_.scale)) * norm_above(problem_.Q.row(bh, q)) *
          keys.largest_norm;
    const double eta = (0x1p-79 + d * (d + 4.0) * 0x1p-105) * G * 1.01;

    bool nan = false;
    Pair M{-kInf, 0.0};
    for (std::int64_t j = 0; j < n; ++j) {
      nan = nan || std::isnan(scores[j].hi);
      if (M < scores[j])
        M = scores[j];
    }
    if (std::isfinite(M.hi) && eta > kWidestEta) {
      exact_row(keys, bh, q, scores, nan);
      return;
    }
    truth_.m[at] = {M.hi, M.lo, std::isfinite(M.hi) ? eta : 0.0};
    if (nan || std::isinf(M.hi)) {
      set_nan(bh, q);
      return;
    }
    weigh(bh, q, scores, M, eta);
    for (std::int64_t c = 0; c < dv; ++c)
      overrule_special_column(keys, bh, q, c, scores);
  }

  void set_nan(std::int64_t bh, std::int64_t q) {
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    truth_.l[at] = truth_.LSE[at] = {kNaN, 0.0, 0.0};
    for (Enclosed& o : truth_.O.row(bh, q))
      o = {kNaN, 0.0, 0.0};
  }

  /// NaN and Inf of V: a weight of 0 (score -Inf) times Inf is NaN, and so are Inf and -Inf
  /// together.
  void overrule_special_column(const Keys& keys, std::int64_t bh, std::int64_t q, std::int64_t c,
                               const Pair* scores) {
    bool any = false;
    double sum = 0.0;
    for (const auto& [key, column] : keys.special_values)
      if (column == c) {
        any = true;
        const auto value = static_cast<double>(problem_.V(bh, key, c));
        sum += std::isinf(scores[key].hi) ? 0.0 * value : value;
      }
    if (any)
      truth_.O(bh, q, c) = {sum, 0.0, 0.0};
  }

  /// Points (3) to (7) for a row whose scores are finite or -Inf, with a finite maximum.
  void weigh(std::int64_t bh, std::int64_t q, const Pair* scores, const Pair& M, double eta) {
    const std::int64_t n = shape_.n_kv, dv = shape_.dv;
    const std::int64_t groups = (dv + kLanes - 1) / kLanes;
    sums_.assign(static_cast<std::size_t>(groups), Sums{});
    Pair L;
    double B = 0.0;
    constexpr std::int64_t kBlock = 256; // weights of a block stay in the first-level cache
    std::array<double, kBlock> w1, w2, y;
    for (std::int64_t start = 0; start < n; start += kBlock) {
      const std::int64_t count = std::min(kBlock, n - start);
      for (std::int64_t j = 0; j < count; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const Pair& s = scores[start + j];
        w1[at] = w2[at] = y[at] = 0.0;
        if (s.hi - M.hi < kLowestArgument - 1.0)
          continue;
        const Pair difference = two_sum(s.hi, -M.hi);
        const long double x = static_cast<long double>(difference.hi) +
                              (static_cast<long double>(difference.lo) +
                               (static_cast<long double>(s.lo) - static_cast<long double>(M.lo)));
        if (x < static_cast<long double>(kLowestArgument))
          continue;
        const long double w = exp_nonpositive(x);
        const double top = leading_bits(static_cast<double>(w));
        w1[at] = top;
        w2[at] = static_cast<double>(w - top);
        y[at] = static_cast<double>(w) * (5.0 - static_cast<double>(x));
        double error;
        add_exactly(L.hi, top, error);
        L.lo += error + w2[at];
        B += y[at];
      }
      const Weights weights{w1.data(), w2.data(), y.data()};
      for (std::int64_t g = 0; g < groups; ++g) {
        const float* values = problem_.V.row(bh, start).data() + g * kLanes;
        const std::int64_t width = std::min(kLanes, dv - g * kLanes);
        Sums& sums = sums_[static_cast<std::size_t>(g)];
        if (width == kLanes)
          add_values<true>(values, width, dv, count, weights, sums);
        else
          add_values<false>(values, width, dv, count, weights, sums);
      }
    }

    const auto N = static_cast<double>(n);
    const double tau = (N + 4.0) * kU * (N * kU + 0x1p-28) * 1.01;
    const double tiny = (N + 1.0) * 0x1p-869;
    const auto error_of = [&](double b) {
      return (kV * b + (2.1 * eta + tau + 2.0 * kV) * b / 5.0) * 1.02 + tiny;
    };
    const double E_L = error_of(B);
    const long double sum = static_cast<long double>(L.hi) + static_cast<long double>(L.lo);
    const double L_below = (L.hi - E_L) * (1.0 - 0x1p-20);

    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    const Pair l = pair_of(sum);
    truth_.l[at] = {l.hi, l.lo, (E_L + 1.01 * eta * l.hi) * 1.01};
    set_lse(at, M, sum, eta, E_L / L_below);
    for (std::int64_t c = 0; c < dv; ++c) {
      const Sums& column = sums_[static_cast<std::size_t>(c / kLanes)];
      const std::int64_t lane = c % kLanes;
      const long double o =
          (static_cast<long double>(column.hi[lane]) + static_cast<long double>(column.lo[lane])) /
          sum;
      const Pair parts = pair_of(o);
      const double size = std::fabs(parts.hi);
      const double radius = (error_of(column.B[lane]) + size * E_L) / L_below + kV * size;
      truth_.O(bh, q, c) = {parts.hi, parts.lo, radius * 1.01};
    }
  }

  /// LSE = M + ln sum, point (7); `relative` bounds the relative error of the sum.
  void set_lse(std::size_t at, const Pair& M, long double sum, double eta, double relative) {
    const long double guess = std::max(0.0L, std::log(sum));
    const long double t = sum * exp_nonpositive(-guess) - 1.0L;
    const long double log = guess + t;
    const double log_error =
        static_cast<double>(t * t) + 8.0 * kV + kV * std::fabs(static_cast<double>(log));
    const Pair parts = pair_of(log);
    const Pair leading = two_sum(M.hi, parts.hi);
    const Pair total = two_sum(leading.hi, leading.lo + (M.lo + parts.lo));
    const double joined = 0x1p-100 * (std::fabs(M.hi) + std::fabs(parts.hi));
    truth_.LSE[at] = {total.hi, total.lo, (eta + 1.01 * relative + log_error + joined) * 1.01};
  }

  // -------------------------------------------------------------------------------------------------
  // Rows with enormous scores

  /// 1030 bits: every finite score is a multiple of 2^-447 below 2^400 and a sum of such, hence
  /// exact.
  using Exact = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<310>,
                                              boost::multiprecision::et_off>;
  /// 167 bits for what follows the exponential.
  using Wide = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<50>,
                                             boost::multiprecision::et_off>;

  Exact exact_score(std::int64_t bh, std::int64_t q, std::int64_t key) const {
    Exact dot = 0;
    for (std::int64_t i = 0; i < shape_.d; ++i)
      dot += Exact(static_cast<double>(problem_.Q(bh, q, i)) *
                   static_cast<double>(problem_.K(bh, key, i)));
    return dot * Exact(problem_.scale);
  }

  template <class Number> static Pair split(const Number& x) {
    const auto hi = x.template convert_to<double>();
    return {hi, Number(x - Number(hi)).template convert_to<double>()};
  }

  /// Exact scores and maximum; x = s - M is rounded to 167 bits where it is above -700, so a weight
  /// is off by less than (700 + 2) 2^-166 and a sum of n terms by (n + 1024) 2^-166 relative to its
  /// sum of moduli. The last step, to hi + lo, rounds by at most 2^-106 of hi.
  void exact_row(const Keys& keys, std::int64_t bh, std::int64_t q, const Pair* scores, bool nan) {
    ++exact_rows_;
    const std::int64_t n = shape_.n_kv, dv = shape_.dv;
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    const auto counts = [&](std::int64_t j) { return std::isfinite(scores[j].hi); };
    bool first = true;
    Exact M = 0;
    for (std::int64_t j = 0; j < n; ++j)
      if (counts(j)) {
        const Exact s = exact_score(bh, q, j);
        if (first || s > M)
          M = s;
        first = false;
      }
    const auto enclosed = [](const Pair& parts, double radius) {
      return Enclosed{parts.hi, parts.lo, radius + 0x1p-105 * std::fabs(parts.hi) + 0x1p-1070};
    };
    truth_.m[at] = enclosed(split(M), 0.0);
    if (nan) {
      set_nan(bh, q);
      return;
    }

    Wide L = 0;
    std::vector<Wide> sums(static_cast<std::size_t>(dv), Wide(0));
    std::vector<double> moduli(static_cast<std::size_t>(dv), 0.0);
    for (std::int64_t j = 0; j < n; ++j) {
      if (!counts(j))
        continue;
      const Exact x = exact_score(bh, q, j) - M;
      if (x < kLowestArgument)
        continue;
      const Wide w = exp(Wide(x));
      L += w;
      for (std::int64_t c = 0; c < dv; ++c) {
        const float value = problem_.V(bh, j, c);
        if (!std::isfinite(value))
          continue; // overruled below
        sums[static_cast<std::size_t>(c)] += w * Wide(value);
        moduli[static_cast<std::size_t>(c)] +=
            w.convert_to<double>() * std::fabs(static_cast<double>(value));
      }
    }
    const auto N = static_cast<double>(n);
    const double relative = (N + 1024.0) * 0x1p-164;
    const double tiny = (N + 1.0) * 0x1p-869;
    const double size_L = L.convert_to<double>(); // at least 1: the maximum itself
    truth_.l[at] = enclosed(split(L), relative * size_L + tiny);
    truth_.LSE[at] = enclosed(split(Exact(M + Exact(log(L)))), 2.0 * relative + tiny);
    for (std::int64_t c = 0; c < dv; ++c) {
      const auto column = static_cast<std::size_t>(c);
      const Pair parts = split(Wide(sums[column] / L));
      truth_.O(bh, q, c) = enclosed(
          parts, 1.01 * relative * (moduli[column] / size_L + 2.0 * std::fabs(parts.hi)) + tiny);
      overrule_special_column(keys, bh, q, c, scores);
    }
  }

  const Problem& problem_;
  Truth& truth_;
  const Shape& shape_;
  std::vector<Pair> scores_;
  std::vector<Lanes> columns_;
  std::vector<Sums> sums_;
  std::int64_t exact_rows_ = 0;
};

} // namespace

Truth certify(const Problem& problem, unsigned threads) {
  const Shape& shape = problem.shape;
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  Truth truth{Tensor<Enclosed>(shape.batch_heads, shape.n_q, shape.dv), std::vector<Enclosed>(rows),
              std::vector<Enclosed>(rows), std::vector<Enclosed>(rows), ""};

  // Rows in a group share the conversion of K; a long row alone keeps the workspace at 16 bytes a
  // key.
  const std::int64_t group = shape.n_kv > (std::int64_t{1} << 18) ? 1 : 4;
  const std::int64_t groups = (shape.n_q + group - 1) / group;
  std::int64_t exact_rows = 0;
  std::mutex guard;
  std::exception_ptr failure;
  for (std::int64_t bh = 0; bh < shape.batch_heads && groups > 0; ++bh) {
    const Keys keys = survey(problem, bh);
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      try {
        Worker worker(problem, truth);
        for (std::int64_t g = next++; g < groups; g = next++)
          worker.rows(keys, bh, g * group, std::min(group, shape.n_q - g * group));
        const std::lock_guard lock(guard);
        exact_rows += worker.exact_rows();
      } catch (...) {
        const std::lock_guard lock(guard);
        failure = std::current_exception();
      }
    };
    std::vector<std::jthread> others;
    for (std::int64_t t = 1; t < std::min<std::int64_t>(threads, groups); ++t)
      others.emplace_back(work);
    work();
    others.clear(); // joins
    if (failure)
      std::rethrow_exception(failure);
  }
  truth.method = "double-double scores, 64-bit exponentials, compensated sums";
  if (exact_rows > 0)
    truth.method += "; " + std::to_string(exact_rows) + " rows with MPFR, 1030 bits";
  return truth;
}

} // namespace fa1::reference
