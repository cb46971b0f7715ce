#include "reference/certified.hpp"

#include "reference/certified_simd.hpp"

#include <boost/multiprecision/mpfr.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

// Numbers like (2), (3) refer to the derivation in CERTIFIED.md. All constants of the radius are
// here and in certified_simd.hpp; radii are computed in double, with factors like 1.01 that cover
// their own rounding.

namespace fa1::reference {
namespace {

using simd::kBlock;
using simd::kGroup;

constexpr double kU2 = 0x1p-106;       ///< u^2
constexpr double kWidestEta = 0x1p-40; ///< above, scores are done again in MPFR
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kRows = 32;                            ///< that share the tiles of K and V
constexpr std::int64_t kStoredScores = std::int64_t{1} << 19; ///< a thread; more are computed twice

struct Pair {
  double hi = 0.0;
  double lo = 0.0;
};

/// a + b and its error, exactly (Knuth's TwoSum).
Pair two_sum(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;
  return {sum, (a - (sum - back)) + (b - back)};
}

/// (9) Relative error below 2^-102.
Pair divide(const Pair& a, const Pair& b) {
  const double quotient = a.hi / b.hi;
  const double rest = std::fma(-quotient, b.hi, a.hi) + (a.lo - quotient * b.lo);
  return two_sum(quotient, rest / b.hi);
}

/// Doubles at an address that a vector load likes.
class Doubles {
public:
  explicit Doubles(std::int64_t count)
      : data_(static_cast<double*>(::operator new (static_cast<std::size_t>(count) * sizeof(double),
                                                   std::align_val_t{64}))) {
    std::fill_n(data_.get(), count, 0.0);
  }
  double* operator+(std::int64_t offset) const { return data_.get() + offset; }
  double& operator[](std::int64_t at) const { return data_.get()[at]; }

private:
  struct Free {
    void operator()(double* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<double, Free> data_;
};

/// What all rows of one batch-head share.
struct Keys {
  std::vector<char> finite;  ///< per key: every entry of its K row is finite
  bool all_finite = true;    ///< the same for all of them
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
    keys.all_finite = keys.all_finite && finite;
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

std::int64_t rounded_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// One thread's workspace, and the work.
class Worker {
public:
  Worker(const simd::Kernels& kernels, const Problem& problem, bool given_scores,
         std::int64_t rows_at_once, Truth& truth)
      : kernels_(kernels), table_(simd::exp_table()), problem_(problem), truth_(truth),
        shape_(problem.shape), given_(given_scores), padded_(rounded_up(shape_.n_kv, kBlock)),
        columns_(rounded_up(shape_.dv, kGroup)), stored_(rows_at_once * padded_ <= kStoredScores),
        stride_(stored_ ? padded_ : kBlock), rows_(static_cast<std::size_t>(rows_at_once)),
        key_tile_(shape_.d * kBlock), value_tile_(kBlock * columns_),
        queries_(rows_at_once * shape_.d), s_hi_(rows_at_once * stride_),
        s_lo_(rows_at_once * stride_), O_hi_(rows_at_once * columns_),
        O_lo_(rows_at_once * columns_), O_size_(rows_at_once * columns_) {}

  void rows(const Keys& keys, std::int64_t bh, std::int64_t first, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r)
      start_row(keys, bh, first + r, r);
    for (std::int64_t block = 0; block < padded_; block += kBlock) {
      score_block(keys, bh, first, count, block);
      const std::int64_t at = stored_ ? block : 0;
      for (std::int64_t r = 0; r < count; ++r)
        kernels_.raise_maximum(s_hi_ + (r * stride_ + at), s_lo_ + (r * stride_ + at), row(r).M.hi,
                               row(r).M.lo);
    }
    bool any = false;
    for (std::int64_t r = 0; r < count; ++r) {
      row(r).M.hi += 0.0; // -0 and 0 tie: always 0
      row(r).weighed = settle_maximum(keys, bh, first + r, row(r));
      any = any || row(r).weighed;
    }
    if (!any)
      return;
    for (std::int64_t block = 0; block < padded_; block += kBlock) {
      if (!stored_)
        score_block(keys, bh, first, count, block);
      value_block(bh, block);
      const std::int64_t at = stored_ ? block : 0;
      for (std::int64_t r = 0; r < count; ++r)
        if (row(r).weighed &&
            kernels_.weigh(table_, s_hi_ + (r * stride_ + at), s_lo_ + (r * stride_ + at),
                           row(r).M.hi, row(r).M.lo, weights_, row(r).L))
          kernels_.add_values(weights_, value_tile_ + 0, columns_, O_hi_ + r * columns_,
                              O_lo_ + r * columns_, O_size_ + r * columns_);
    }
    for (std::int64_t r = 0; r < count; ++r)
      if (row(r).weighed) {
        finish_row(bh, first + r, r);
        overrule_special_columns(keys, bh, first + r);
      }
  }

  std::int64_t exact_rows() const { return exact_rows_; }

private:
  struct Row {
    bool finite = true;  ///< the query and the scale
    bool nan = false;    ///< one of its scores
    bool weighed = true; ///< in double-double
    double eta = 0.0;    ///< how far a score may be off
    Pair M{-kInf, 0.0};
    simd::WeightSums L{};
  };

  Row& row(std::int64_t r) { return rows_[static_cast<std::size_t>(r)]; }

  bool finite_query(std::int64_t bh, std::int64_t q) const {
    return std::isfinite(problem_.scale) && all_finite(problem_.Q.row(bh, q));
  }

  /// (1) to (3)
  void start_row(const Keys& keys, std::int64_t bh, std::int64_t q, std::int64_t r) {
    row(r) = Row{};
    row(r).finite = finite_query(bh, q);
    anchors_[static_cast<std::size_t>(r)] = 1.5;
    for (std::int64_t i = 0; i < shape_.d; ++i)
      queries_[r * shape_.d + i] = row(r).finite ? static_cast<double>(problem_.Q(bh, q, i)) : 0.0;
    std::fill_n(O_hi_ + r * columns_, columns_, 0.0);
    std::fill_n(O_lo_ + r * columns_, columns_, 0.0);
    std::fill_n(O_size_ + r * columns_, columns_, 0.0);
    if (given_ || !row(r).finite)
      return;
    const auto d = static_cast<double>(shape_.d);
    const double P = norm_above(problem_.Q.row(bh, q)) * keys.largest_norm;
    anchors_[static_cast<std::size_t>(r)] = std::ldexp(1.5, std::ilogb(std::max(P, 0x1p-300)) + 2);
    row(r).eta = (2.0 * d * d + 10.0 * d + 8.0) * kU2 *
                 std::fabs(static_cast<double>(problem_.scale)) * P * 1.01;
  }

  /// A score with NaN or Inf among its factors, by the rules of IEEE 754: NaN, +Inf or -Inf.
  double special_score(std::int64_t bh, std::int64_t q, std::int64_t key) const {
    double dot = 0.0;
    for (std::int64_t i = 0; i < shape_.d; ++i)
      dot +=
          static_cast<double>(problem_.Q(bh, q, i)) * static_cast<double>(problem_.K(bh, key, i));
    return static_cast<double>(problem_.scale) * dot;
  }

  /// The fp32 score in the order of the contract.
  float computed_score(std::int64_t bh, std::int64_t q, std::int64_t key) const {
    const auto query = problem_.Q.row(bh, q), k = problem_.K.row(bh, key);
    float dot = 0.0f;
    for (std::size_t i = 0; i < query.size(); ++i)
      dot += query[i] * k[i];
    return dot * problem_.scale;
  }

  /// Scores of rows [first, first + count) against a block of keys; -Inf where there is no key.
  void score_block(const Keys& keys, std::int64_t bh, std::int64_t first, std::int64_t count,
                   std::int64_t block) {
    const std::int64_t width = std::min(kBlock, shape_.n_kv - block), d = shape_.d;
    const std::int64_t at = stored_ ? block : 0;
    const auto set = [&](std::int64_t r, std::int64_t j, double hi) {
      s_hi_[r * stride_ + at + j] = hi;
      s_lo_[r * stride_ + at + j] = 0.0;
      row(r).nan = row(r).nan || std::isnan(hi);
    };
    if (given_) {
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t j = 0; j < width; ++j)
          set(r, j, static_cast<double>(computed_score(bh, first + r, block + j)));
    } else {
      for (std::int64_t j = 0; j < kBlock; j += kGroup) { // kGroup keys: one cache line of the tile
        std::array<const float*, kGroup> from{};
        for (std::int64_t l = 0; l < kGroup; ++l)
          if (j + l < width && keys.finite[static_cast<std::size_t>(block + j + l)])
            from[static_cast<std::size_t>(l)] = problem_.K.row(bh, block + j + l).data();
        const bool whole = std::ranges::find(from, nullptr) == from.end();
        for (std::int64_t i = 0; i < d; ++i) {
          double* const to = key_tile_ + (i * kBlock + j);
          if (whole)
            for (std::size_t l = 0; l < kGroup; ++l)
              to[l] = static_cast<double>(from[l][i]);
          else
            for (std::size_t l = 0; l < kGroup; ++l)
              to[l] = from[l] != nullptr ? static_cast<double>(from[l][i]) : 0.0;
        }
      }
      kernels_.scores(key_tile_ + 0, d, queries_ + 0, anchors_.data(), count,
                      std::isfinite(problem_.scale) ? static_cast<double>(problem_.scale) : 0.0,
                      s_hi_ + at, s_lo_ + at, stride_);
      for (std::int64_t r = 0; r < count; ++r)
        if (!row(r).finite || !keys.all_finite)
          for (std::int64_t j = 0; j < width; ++j)
            if (!row(r).finite || !keys.finite[static_cast<std::size_t>(block + j)])
              set(r, j, special_score(bh, first + r, block + j));
    }
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t j = width; j < kBlock; ++j)
        set(r, j, -kInf);
  }

  void value_block(std::int64_t bh, std::int64_t block) {
    const std::int64_t width = std::min(kBlock, shape_.n_kv - block);
    for (std::int64_t j = 0; j < kBlock; ++j) {
      double* const to = value_tile_ + j * columns_;
      if (j >= width) {
        std::fill_n(to, columns_, 0.0);
        continue;
      }
      const auto values = problem_.V.row(bh, block + j);
      for (std::size_t c = 0; c < values.size(); ++c)
        to[c] = std::isfinite(values[c]) ? static_cast<double>(values[c]) : 0.0;
    }
  }

  /// m, and everything of a row that is not weighed in double-double; true where it is.
  bool settle_maximum(const Keys& keys, std::int64_t bh, std::int64_t q, const Row& now) {
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    if (shape_.n_kv == 0) {
      truth_.m[at] = truth_.LSE[at] = {-kInf, 0.0, 0.0};
      return false; // O and l are 0 already
    }
    const bool finite = std::isfinite(now.M.hi);
    if (finite && now.eta > kWidestEta) {
      exact_row(keys, bh, q, now);
      return false;
    }
    truth_.m[at] = {now.M.hi, now.M.lo, finite ? now.eta : 0.0};
    if (now.nan || !finite) {
      set_nan(bh, q);
      return false;
    }
    return true;
  }

  void set_nan(std::int64_t bh, std::int64_t q) {
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    truth_.l[at] = truth_.LSE[at] = {kNaN, 0.0, 0.0};
    for (Enclosed& o : truth_.O.row(bh, q))
      o = {kNaN, 0.0, 0.0};
  }

  /// Is the weight of a key exactly 0? Never for a finite score.
  bool weightless(const Keys& keys, std::int64_t bh, std::int64_t q, std::int64_t key) const {
    if (given_)
      return std::isinf(computed_score(bh, q, key));
    if (keys.finite[static_cast<std::size_t>(key)] && finite_query(bh, q))
      return false;
    return std::isinf(special_score(bh, q, key));
  }

  /// NaN and Inf of V: a weight of 0 (score -Inf) times Inf is NaN, and so are Inf and -Inf
  /// together.
  void overrule_special_columns(const Keys& keys, std::int64_t bh, std::int64_t q) {
    for (const auto& [key, column] : keys.special_values)
      truth_.O(bh, q, column) = {0.0, 0.0, 0.0};
    for (const auto& [key, column] : keys.special_values) {
      const auto value = static_cast<double>(problem_.V(bh, key, column));
      truth_.O(bh, q, column).hi += weightless(keys, bh, q, key) ? 0.0 * value : value;
    }
  }

  /// (5) to (10)
  void finish_row(std::int64_t bh, std::int64_t q, std::int64_t r) {
    const Row& now = row(r);
    Pair L{now.L.hi[0], now.L.lo[0]};
    double Y = now.L.size[0];
    for (std::int64_t i = 1; i < kGroup; ++i) {
      L = add(L, {now.L.hi[i], now.L.lo[i]});
      Y += now.L.size[i];
    }
    const auto n = static_cast<double>(shape_.n_kv);
    const double tiny = (n + 64.0) * 0x1p-869;
    const double weights = simd::kExpBase + now.eta;
    const double in_blocks = (9100.0 + 3.1 * (n / kBlock + 1.0)) * kU2;
    const double E_L = (weights + 3.1 * (n / kGroup + 9.0) * kU2) * Y * 1.02 + tiny;
    const double L_below = (L.hi - E_L) * (1.0 - 0x1p-20);

    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    truth_.l[at] = {L.hi, L.lo, (E_L + 1.01 * now.eta * L.hi) * 1.01};
    truth_.LSE[at] = log_sum(now, L, E_L / L_below);
    for (std::int64_t c = 0; c < shape_.dv; ++c) {
      const std::int64_t i = r * columns_ + c;
      const Pair o = divide({O_hi_[i], O_lo_[i]}, L);
      const double E_N = (weights + in_blocks) * O_size_[i] * 1.02 + tiny;
      const double size = std::fabs(o.hi);
      truth_.O(bh, q, c) = {o.hi, o.lo, ((E_N + size * E_L) / L_below + 0x1p-102 * size) * 1.01};
    }
  }

  static Pair add(const Pair& a, const Pair& b) { // relative error at most 3.1 u^2
    const Pair s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
    const Pair v = two_sum(s.hi, s.lo + t.hi);
    return two_sum(v.hi, t.lo + v.lo);
  }

  /// (10) LSE = M + ln L
  Enclosed log_sum(const Row& now, const Pair& L, double relative) const {
    // Few bits, so that libraries whose logarithms differ in the last place agree here.
    const auto y = static_cast<double>(static_cast<float>(std::log(std::max(L.hi, 1.0))));
    std::array<double, kGroup> e{-y}, e_lo{};
    kernels_.exponentials(table_, kGroup, e.data(), e_lo.data());
    // t = L exp(-y) - 1, and ln(1 + t)
    const double product = L.hi * e[0];
    const double error = std::fma(L.hi, e[0], -product) + (L.hi * e_lo[0] + L.lo * e[0]);
    const Pair t = two_sum(product - 1.0, error);
    const double x = t.hi;
    const double series = t.lo + x * x * (-0.5 + x * (1.0 / 3.0 - x * 0.25));
    const Pair log = add({y, 0.0}, two_sum(x, series));
    const Pair total = add(now.M, log);
    const double used = simd::kExpBase * (1.0 + y * simd::kExpSlope) + 0x1p-95;
    const double series_error = x * x * 0x1p-50 + std::fabs(x * x * x * x * x);
    const double rounded = 0x1p-104 * (std::fabs(total.hi) + std::fabs(now.M.hi) + y);
    return {total.hi, total.lo, (1.01 * relative + used + series_error + rounded) * 1.01};
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
  void exact_row(const Keys& keys, std::int64_t bh, std::int64_t q, const Row& now) {
    ++exact_rows_;
    const std::int64_t n = shape_.n_kv, dv = shape_.dv;
    const auto at = static_cast<std::size_t>(bh * shape_.n_q + q);
    // The query is finite, or eta would be 0; a special score is NaN or infinite.
    const auto counts = [&](std::int64_t j) {
      return keys.finite[static_cast<std::size_t>(j)] != 0;
    };
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
    if (now.nan) {
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
      if (x < simd::kLowestArgument)
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
    }
    overrule_special_columns(keys, bh, q);
  }

  const simd::Kernels& kernels_;
  const simd::ExpTable& table_;
  const Problem& problem_;
  Truth& truth_;
  const Shape& shape_;
  bool given_;
  std::int64_t padded_, columns_;
  bool stored_; ///< scores of all keys, between the two passes
  std::int64_t stride_;
  std::vector<Row> rows_;
  std::array<double, kRows> anchors_{};
  Doubles key_tile_, value_tile_, queries_;
  Doubles s_hi_, s_lo_;          ///< [row][stride_]
  Doubles O_hi_, O_lo_, O_size_; ///< [row][columns_]
  simd::Weights weights_;
  std::int64_t exact_rows_ = 0;
};

} // namespace

Truth simd::certify_on(const Unit& unit, const Problem& problem, bool given_scores,
                       unsigned threads) {
  const Shape& shape = problem.shape;
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  Truth truth{Tensor<Enclosed>(shape.batch_heads, shape.n_q, shape.dv), std::vector<Enclosed>(rows),
              std::vector<Enclosed>(rows), std::vector<Enclosed>(rows), ""};

  const std::int64_t workers = std::max<std::int64_t>(threads, 1);
  const std::int64_t group =
      std::clamp<std::int64_t>((shape.n_q + workers - 1) / workers, 1, kRows);
  const std::int64_t groups = (shape.n_q + group - 1) / group;
  std::int64_t exact_rows = 0;
  std::mutex guard;
  std::exception_ptr failure;
  for (std::int64_t bh = 0; bh < shape.batch_heads && groups > 0; ++bh) {
    const Keys keys = survey(problem, bh);
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      try {
        Worker worker(unit.kernels, problem, given_scores, group, truth);
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
    for (std::int64_t t = 1; t < std::min(workers, groups); ++t)
      others.emplace_back(work);
    work();
    others.clear(); // joins
    if (failure)
      std::rethrow_exception(failure);
  }
  truth.method = given_scores ? "fp32 scores as given, double-double from there" : "double-double";
  if (exact_rows > 0)
    truth.method += "; " + std::to_string(exact_rows) + " rows with MPFR, 1030 bits";
  return truth;
}

Truth certify(const Problem& problem, unsigned threads) {
  return simd::certify_on(simd::best_unit(), problem, false, threads);
}

Truth certify_scores(const Problem& problem, unsigned threads) {
  return simd::certify_on(simd::best_unit(), problem, true, threads);
}

} // namespace fa1::reference
