#include "reference/certified.hpp"

#include "reference/certified_parts.hpp"
#include "reference/certified_simd.hpp"
#include "reference/certified_wide.hpp"
#include "reference/double_double.hpp"
#include "reference/finite.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

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

/// Keys [first, last); `finite` is written in place.
void survey_piece(const Problem& problem, std::int64_t bh, std::int64_t first, std::int64_t last,
                  std::vector<char>& finite, Keys& piece) {
  for (std::int64_t j = first; j < last; ++j) {
    const auto row = problem.K.row(bh, j);
    const bool is_finite = all_finite(row);
    finite[static_cast<std::size_t>(j)] = is_finite;
    piece.all_finite = piece.all_finite && is_finite;
    if (is_finite)
      piece.largest_norm = std::max(piece.largest_norm, norm_above(row));
    const auto values = problem.V.row(bh, j);
    if (!all_finite(values))
      for (std::int64_t c = 0; c < problem.shape.dv; ++c)
        if (!std::isfinite(values[static_cast<std::size_t>(c)]))
          piece.special_values.emplace_back(j, c);
  }
}

Keys survey(const Problem& problem, std::int64_t bh, unsigned threads) {
  constexpr std::int64_t kPiece = 1024;
  const std::int64_t n = problem.shape.n_kv;
  Keys keys;
  keys.finite.resize(static_cast<std::size_t>(n));
  std::vector<Keys> pieces(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
  in_parallel(pieces.size(), threads, [&](std::size_t i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * kPiece;
    survey_piece(problem, bh, first, std::min(n, first + kPiece), keys.finite, pieces[i]);
  });
  for (const Keys& piece : pieces) {
    keys.all_finite = keys.all_finite && piece.all_finite;
    keys.largest_norm = std::max(keys.largest_norm, piece.largest_norm);
    keys.special_values.insert(keys.special_values.end(), piece.special_values.begin(),
                               piece.special_values.end());
  }
  return keys;
}

std::int64_t rounded_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// The sums over the keys seen so far, of every row: what chunks are added to.
struct Sums {
  Sums(const Shape& shape)
      : O(shape.batch_heads, shape.n_q, shape.dv),
        rows(static_cast<std::size_t>(shape.batch_heads * shape.n_q)),
        special_columns(static_cast<std::size_t>(shape.batch_heads * shape.dv), 0) {}

  struct Row {
    Pair M{-kInf, 0.0};             ///< of the scores that are not NaN
    double eta = 0.0;               ///< how far a score may be off
    bool nan = false;               ///< a score was NaN or +Inf
    Enclosed L;                     ///< sum of exp(s - M), for this very M
    std::unique_ptr<WideSums> wide; ///< holds the sums instead, once a chunk needed it
  };

  Row& row(std::int64_t bh, std::int64_t q) {
    return rows[static_cast<std::size_t>(bh * O.rows() + q)];
  }

  Tensor<Enclosed> O; ///< sum of exp(s - M) v
  std::vector<Row> rows;
  std::int64_t keys = 0;
  std::vector<char> special_columns; ///< [batch-head][column]: V holds NaN or Inf there
  Tensor<double> special;            ///< what such a column comes to; empty where there is none
};

/// One thread's workspace, and the work on one chunk of keys.
class Worker {
public:
  Worker(const simd::Kernels& kernels, const Problem& problem, bool given_scores,
         std::int64_t rows_at_once, Sums& sums)
      : kernels_(kernels), table_(simd::exp_table()), problem_(problem), sums_(sums),
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
      add_special_columns(keys, bh, first + r);
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
      if (row(r).weighed)
        add_row(bh, first + r, r);
  }

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
    Sums::Row& row = sums_.row(bh, q);
    row.nan = row.nan || now.nan || now.M.hi == kInf;
    const bool finite = std::isfinite(now.M.hi);
    if (finite && now.eta > kWidestEta) {
      add_wide_row(keys, bh, q);
      return false;
    }
    if (finite)
      row.eta = std::max(row.eta, now.eta);
    if (row.nan || !finite) { // the maximum is all that is left to know
      raise_maximum(row, now.M);
      return false;
    }
    return true;
  }

  static void raise_maximum(Sums::Row& row, const Pair& M) {
    if (row.wide != nullptr)
      row.wide->raise_maximum(M.hi, M.lo);
    else if (exceeds(M, row.M))
      row.M = M;
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
  void add_special_columns(const Keys& keys, std::int64_t bh, std::int64_t q) {
    for (const auto& [key, column] : keys.special_values) {
      const auto value = static_cast<double>(problem_.V(bh, key, column));
      sums_.special(bh, q, column) += weightless(keys, bh, q, key) ? 0.0 * value : value;
    }
  }

  /// (5) to (7) for this chunk, and (11) to what came before it.
  void add_row(std::int64_t bh, std::int64_t q, std::int64_t r) {
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
    const Enclosed of_L{L.hi, L.lo, (weights + 3.1 * (n / kGroup + 9.0) * kU2) * Y * 1.02 + tiny};
    const auto of_O = [&](std::int64_t c) {
      const std::int64_t i = r * columns_ + c;
      return Enclosed{O_hi_[i], O_lo_[i], (weights + in_blocks) * O_size_[i] * 1.02 + tiny};
    };

    Sums::Row& all = sums_.row(bh, q);
    if (all.wide != nullptr) {
      WideSums chunk(now.M.hi, now.M.lo, of_L, shape_.dv);
      for (std::int64_t c = 0; c < shape_.dv; ++c)
        chunk.set(c, of_O(c));
      all.wide->add(chunk);
      return;
    }
    const bool first = all.M.hi == -kInf; // no weight so far
    const Rescale rescale = first ? Rescale{} : rescale_to_larger(all.M, now.M);
    all.L = first ? of_L : rescale.sum(all.L, of_L);
    for (std::int64_t c = 0; c < shape_.dv; ++c) {
      Enclosed& o = sums_.O(bh, q, c);
      o = first ? of_O(c) : rescale.sum(o, of_O(c));
    }
    raise_maximum(all, now.M);
  }

  /// A factor exp(x) <= 1 and its relative error.
  struct Factor {
    Pair value{1.0, 0.0};
    double error = 0.0;
  };

  /// (11) Two sums that were taken at two maxima, together at the larger.
  struct Rescale {
    Factor before, now;

    Enclosed sum(const Enclosed& a, const Enclosed& b) const {
      const Enclosed x = product(a, before), y = product(b, now);
      const Pair z = add({x.hi, x.lo}, {y.hi, y.lo});
      return {z.hi, z.lo, (x.radius + y.radius + 3.1 * kU2 * std::fabs(z.hi)) * (1.0 + 0x1p-48)};
    }

    static Enclosed product(const Enclosed& a, const Factor& f) {
      if (f.error == 0.0) // exactly 1
        return a;
      const Pair z = multiply({a.hi, a.lo}, f.value);
      // 2^-1000: a factor below exp(-700) was taken as 0.
      return {z.hi, z.lo,
              (a.radius * (f.value.hi + 0x1p-1000) + std::fabs(z.hi) * f.error) * (1.0 + 0x1p-48) +
                  std::fabs(a.hi) * 0x1p-1000 + 0x1p-1060};
    }
  };

  Rescale rescale_to_larger(const Pair& before, const Pair& now) const {
    Rescale rescale;
    const bool rises = exceeds(now, before);
    const Pair& low = rises ? before : now;
    const Pair& high = rises ? now : before;
    const Pair difference = two_sum(low.hi, -high.hi);
    const Pair x = two_sum(difference.hi, difference.lo + (low.lo - high.lo));
    if (x.hi == 0.0 && x.lo == 0.0)
      return rescale;
    std::array<double, kGroup> e{x.hi}, e_lo{x.lo};
    kernels_.exponentials(table_, kGroup, e.data(), e_lo.data());
    const double argument =
        0x1p-52 * (std::fabs(low.lo) + std::fabs(high.lo) + std::fabs(difference.lo));
    const double used = simd::kExpBase * (1.0 + std::fabs(x.hi) * simd::kExpSlope);
    (rises ? rescale.before : rescale.now) = {{e[0], e_lo[0]}, (used + argument + 0x1p-102) * 1.01};
    return rescale;
  }

  /// Exact scores: this chunk of a row whose scores are enormous.
  void add_wide_row(const Keys& keys, std::int64_t bh, std::int64_t q) {
    Sums::Row& all = sums_.row(bh, q);
    if (all.wide == nullptr) {
      all.wide = std::make_unique<WideSums>(all.M.hi, all.M.lo, all.L, shape_.dv);
      for (std::int64_t c = 0; c < shape_.dv; ++c)
        all.wide->set(c, sums_.O(bh, q, c));
    }
    all.wide->add(WideSums(problem_, bh, q, keys.finite, !all.nan));
  }

  const simd::Kernels& kernels_;
  const simd::ExpTable& table_;
  const Problem& problem_;
  Sums& sums_;
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
};

} // namespace

double norm_above(std::span<const float> row) {
  std::array<double, 4> squares{}; // at most 2^264 in sum, at least 2^-298 if not 0
  for (std::size_t i = 0; i < row.size(); ++i)
    squares[i % 4] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  const double sum = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  return std::sqrt(sum) * (1.0 + 0x1p-20);
}

Enclosed log_sum(const simd::Kernels& kernels, const Pair& M, const Enclosed& L, double relative) {
  // Few bits, so that libraries whose logarithms differ in the last place agree here.
  const auto y = static_cast<double>(static_cast<float>(std::log(std::max(L.hi, 1.0))));
  std::array<double, kGroup> e{-y}, e_lo{};
  kernels.exponentials(simd::exp_table(), kGroup, e.data(), e_lo.data());
  // t = L exp(-y) - 1, and ln(1 + t)
  const double product = L.hi * e[0];
  const double error = std::fma(L.hi, e[0], -product) + (L.hi * e_lo[0] + L.lo * e[0]);
  const Pair t = two_sum(product - 1.0, error);
  const double x = t.hi;
  const double series = t.lo + x * x * (-0.5 + x * (1.0 / 3.0 - x * 0.25));
  const Pair log = add({y, 0.0}, two_sum(x, series));
  const Pair total = add(M, log);
  const double used = simd::kExpBase * (1.0 + y * simd::kExpSlope) + 0x1p-95;
  const double series_error = x * x * 0x1p-50 + std::fabs(x * x * x * x * x);
  const double rounded = 0x1p-104 * (std::fabs(total.hi) + std::fabs(M.hi) + y);
  return {total.hi, total.lo, (1.01 * relative + used + series_error + rounded) * 1.01};
}

struct Certifier::Progress {
  simd::Kernels kernels;
  bool given_scores;
  Shape shape;
  Sums sums;
};

Certifier::Certifier(const Shape& shape, bool given_scores)
    : Certifier(simd::best_unit(), shape, given_scores) {}

Certifier::Certifier(const simd::Unit& unit, const Shape& shape, bool given_scores)
    : progress_(new Progress{unit.kernels, given_scores, shape, Sums(shape)}) {}

Certifier::~Certifier() = default;

void Certifier::absorb(const Problem& chunk, unsigned threads) {
  Sums& sums = progress_->sums;
  const Shape& shape = chunk.shape;
  sums.keys += shape.n_kv;
  if (shape.n_kv == 0)
    return;
  const std::int64_t workers = std::max<std::int64_t>(threads, 1);
  const std::int64_t group =
      std::clamp<std::int64_t>((shape.n_q + workers - 1) / workers, 1, kRows);
  const std::int64_t groups = (shape.n_q + group - 1) / group;
  for (std::int64_t bh = 0; bh < shape.batch_heads && groups > 0; ++bh) {
    const Keys keys = survey(chunk, bh, threads);
    if (!keys.special_values.empty() && sums.special.size() == 0)
      sums.special = Tensor<double>(shape.batch_heads, shape.n_q, shape.dv);
    for (const auto& [key, column] : keys.special_values)
      sums.special_columns[static_cast<std::size_t>(bh * shape.dv + column)] = 1;
    const auto lanes = static_cast<std::size_t>(std::min(workers, groups));
    std::atomic<std::int64_t> next = 0;
    in_parallel(lanes, threads, [&](std::size_t) {
      Worker worker(progress_->kernels, chunk, progress_->given_scores, group, sums);
      for (std::int64_t g = next++; g < groups; g = next++)
        worker.rows(keys, bh, g * group, std::min(group, shape.n_q - g * group));
    });
  }
}

Truth Certifier::truth() const {
  Sums& sums = progress_->sums;
  const Shape& shape = progress_->shape;
  Truth truth{Tensor<Enclosed>(shape.batch_heads, shape.n_q, shape.dv),
              std::vector<Enclosed>(sums.rows.size()), std::vector<Enclosed>(sums.rows.size()),
              std::vector<Enclosed>(sums.rows.size()), ""};
  std::int64_t wide_rows = 0;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t q = 0; q < shape.n_q; ++q) {
      const auto at = static_cast<std::size_t>(bh * shape.n_q + q);
      const Sums::Row& row = sums.rows[at];
      Enclosed &l = truth.l[at], &m = truth.m[at], &LSE = truth.LSE[at];
      m = {row.M.hi, row.M.lo, std::isfinite(row.M.hi) ? row.eta : 0.0};
      if (row.wide != nullptr) {
        ++wide_rows;
        m = row.wide->maximum(row.eta);
      }
      if (sums.keys == 0) {
        LSE = m;
        continue; // O and l are 0 already
      }
      if (row.nan || m.hi == -kInf) {
        l = LSE = {kNaN, 0.0, 0.0};
        std::ranges::fill(truth.O.row(bh, q), Enclosed{kNaN, 0.0, 0.0});
        continue;
      }
      if (row.wide != nullptr) {
        l = row.wide->denominator(row.eta);
        LSE = row.wide->log_sum();
        for (std::int64_t c = 0; c < shape.dv; ++c)
          truth.O(bh, q, c) = row.wide->output(c);
      } else {
        const Enclosed& L = row.L;
        const double L_below = (L.hi - L.radius) * (1.0 - 0x1p-20);
        l = {L.hi, L.lo, (L.radius + 1.01 * row.eta * L.hi) * 1.01};
        LSE = log_sum(progress_->kernels, row.M, L, L.radius / L_below);
        for (std::int64_t c = 0; c < shape.dv; ++c) { // (9)
          const Enclosed& N = sums.O(bh, q, c);
          const Pair o = divide({N.hi, N.lo}, {L.hi, L.lo});
          const double size = std::fabs(o.hi);
          truth.O(bh, q, c) = {o.hi, o.lo,
                               ((N.radius + size * L.radius) / L_below + 0x1p-102 * size) * 1.01};
        }
      }
      for (std::int64_t c = 0; c < shape.dv; ++c)
        if (sums.special_columns[static_cast<std::size_t>(bh * shape.dv + c)] != 0)
          truth.O(bh, q, c) = {sums.special(bh, q, c), 0.0, 0.0};
    }
  truth.method =
      progress_->given_scores ? "fp32 scores as given, double-double from there" : "double-double";
  if (wide_rows > 0)
    truth.method += "; " + std::to_string(wide_rows) + " rows with MPFR, 1030 bits";
  return truth;
}

Truth simd::certify_on(const Unit& unit, const Problem& problem, bool given_scores,
                       unsigned threads) {
  Certifier certifier(unit, problem.shape, given_scores);
  certifier.absorb(problem, threads);
  return certifier.truth();
}

Truth certify(const Problem& problem, unsigned threads) {
  return simd::certify_on(simd::best_unit(), problem, false, threads);
}

Truth certify_scores(const Problem& problem, unsigned threads) {
  return simd::certify_on(simd::best_unit(), problem, true, threads);
}

} // namespace fa1::reference
