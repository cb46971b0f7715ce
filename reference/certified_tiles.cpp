#include "reference/certified_tiles.hpp"

#include "reference/certified.hpp"
#include "reference/certified_parts.hpp"
#include "reference/certified_simd.hpp"
#include "reference/finite.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

// Numbers like (12) refer to CERTIFIED.md.

namespace fa1::reference::tile {
namespace {

/// The exponential's table as the tiles want it.
const std::array<Pair, kSteps>& table() {
  static const std::array<Pair, kSteps> pairs = [] {
    static_assert(kSteps == simd::kSteps);
    std::array<Pair, kSteps> made;
    const simd::ExpTable& from = simd::exp_table();
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = {from.hi[i], from.lo[i]};
    return made;
  }();
  return pairs;
}

/// One row of Q against one batch-head's keys and values: what a group of kLanes threads does.
class RowWork {
public:
  RowWork(const Plan& plan, const Problem& problem, std::int64_t bh)
      : plan_(plan), problem_(problem), bh_(bh), query_(static_cast<std::size_t>(plan.shape.d)),
        numerators_(static_cast<std::size_t>(plan.shape.dv)), sizes_(numerators_.size()) {}

  /// O is written, L and the largest argument come back; row.shift is set.
  RowSums run(std::int64_t q, Row& row, Tensor<Enclosed>& O) {
    const Shape& shape = plan_.shape;
    for (std::size_t i = 0; i < query_.size(); ++i)
      query_[i] = taken(problem_.Q(bh_, q, static_cast<std::int64_t>(i)), plan_.scale);
    row.shift = plan_.shifted ? shift_of(row, maximum()) : 0.0;
    std::ranges::fill(numerators_, Pair{});
    std::ranges::fill(sizes_, 0.0);
    std::array<Pair, kLanes> L{};
    std::array<Pair, kLanes> largest;
    largest.fill({kNoScore, 0.0});
    for (std::int64_t t = 0; t < plan_.tiles; ++t)
      add_tile(t * kKeys, row, L, largest);
    for (std::size_t step = 1; step < kLanes; step *= 2) // as lanes exchange theirs
      for (std::size_t lane = 0; lane < kLanes; lane += 2 * step) {
        L[lane] = add(L[lane], L[lane + step]);
        if (exceeds(largest[lane + step], largest[lane]))
          largest[lane] = largest[lane + step];
      }
    for (std::int64_t c = 0; c < shape.dv; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const Result o = output(numerators_[at], sizes_[at], L[0], row.eta, plan_.tiles);
      O(bh_, q, c) = {o.hi, o.lo, o.radius};
    }
    return {L[0], largest[0]};
  }

private:
  double key(std::int64_t j, std::size_t i) const {
    return taken(problem_.K(bh_, j, static_cast<std::int64_t>(i)), 1.0);
  }

  /// Of the scores in plain double.
  double maximum() const {
    double largest = kNoScore;
    for (std::int64_t j = 0; j < plan_.shape.n_kv; ++j) {
      double dot = 0.0;
      for (std::size_t i = 0; i < query_.size(); ++i)
        dot = std::fma(query_[i], key(j, i), dot);
      largest = std::max(largest, dot);
    }
    return largest;
  }

  void add_tile(std::int64_t first, const Row& row, std::array<Pair, kLanes>& L,
                std::array<Pair, kLanes>& largest) {
    std::array<Pair, kKeys> weights{};
    const std::int64_t width = std::min<std::int64_t>(kKeys, plan_.shape.n_kv - first);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < kEach; ++i) {
        const int j = key_of(lane, i);
        if (j >= width)
          continue;
        double acc = row.anchor - row.shift, lo = 0.0;
        for (std::size_t c = 0; c < query_.size(); ++c)
          accumulate(query_[c], key(first + j, c), acc, lo);
        const Pair x = argument(acc, lo);
        const auto at = static_cast<std::size_t>(lane);
        if (exceeds(x, largest[at]))
          largest[at] = x;
        const Pair w = weight(x, table().data());
        L[at] = grown(L[at], w.hi, w.lo);
        weights[static_cast<std::size_t>(j)] = w;
      }
    for (std::int64_t c = 0; c < plan_.shape.dv; ++c) {
      const auto value = [&](std::int64_t j) { return taken(problem_.V(bh_, first + j, c), 1.0); };
      double b = 0.0;
      for (std::int64_t j = 0; j < width; ++j)
        b = std::fma(weights[static_cast<std::size_t>(j)].hi, std::fabs(value(j)), b);
      double acc = anchor_of(b), lo = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        const Pair& w = weights[static_cast<std::size_t>(j)];
        accumulate(w.hi, value(j), acc, lo);
        lo = std::fma(w.lo, value(j), lo);
      }
      sizes_[static_cast<std::size_t>(c)] += b;
      Pair& N = numerators_[static_cast<std::size_t>(c)];
      N = grown(N, since_anchor(acc), lo);
    }
  }

  const Plan& plan_;
  const Problem& problem_;
  std::int64_t bh_;
  std::vector<double> query_;
  std::vector<Pair> numerators_; ///< sum w v, by column
  std::vector<double> sizes_;    ///< sum w |v|
};

} // namespace

Plan plan_of(const Problem& problem, unsigned threads) {
  const Shape& shape = problem.shape;
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  Plan plan{shape,
            (shape.n_kv + kKeys - 1) / kKeys,
            false,
            std::isfinite(problem.scale) ? static_cast<double>(problem.scale) : 0.0,
            std::vector<Row>(rows),
            std::vector<char>(rows, 0)};
  if (!std::isfinite(problem.scale) || shape.n_kv == 0)
    return plan;
  std::vector<double> G(rows, 0.0);
  in_parallel(static_cast<std::size_t>(shape.batch_heads), threads, [&](std::size_t at) {
    const auto bh = static_cast<std::int64_t>(at);
    double norm = 0.0;
    for (std::int64_t j = 0; j < shape.n_kv; ++j) {
      const auto k = problem.K.row(bh, j);
      if (!all_finite(k) || !all_finite(problem.V.row(bh, j)))
        return;
      norm = std::max(norm, norm_above(k));
    }
    for (std::int64_t q = 0; q < shape.n_q; ++q) {
      const auto row = static_cast<std::size_t>(bh * shape.n_q + q);
      if (!all_finite(problem.Q.row(bh, q)))
        continue;
      G[row] = std::fabs(plan.scale) * norm_above(problem.Q.row(bh, q)) * norm;
      plan.covered[row] = G[row] <= kWidest;
    }
  });
  for (std::size_t row = 0; row < rows; ++row)
    plan.shifted = plan.shifted || (plan.covered[row] != 0 && G[row] > kUnshifted);
  for (std::size_t row = 0; row < rows; ++row)
    plan.rows[row] = row_of(plan.covered[row] != 0 ? G[row] : 0.0, plan.shifted, shape.d);
  return plan;
}

PartialTruth finished(const Plan& plan, Tensor<Enclosed> O, const std::vector<RowSums>& sums,
                      const std::vector<double>& shifts, unsigned threads) {
  const std::size_t rows = plan.rows.size();
  PartialTruth partial{{std::move(O), std::vector<Enclosed>(rows), std::vector<Enclosed>(rows),
                        std::vector<Enclosed>(rows), "double-double, in tiles"},
                       plan.covered};
  const simd::Kernels& kernels = simd::best_unit().kernels;
  constexpr std::size_t kPiece = 1024;
  in_parallel((rows + kPiece - 1) / kPiece, threads, [&](std::size_t piece) {
    for (std::size_t row = piece * kPiece; row < std::min(rows, (piece + 1) * kPiece); ++row) {
      if (plan.covered[row] == 0)
        continue;
      const Pair &L = sums[row].L, &x = sums[row].largest;
      const double eta = plan.rows[row].eta;
      // (20): L at the row's own maximum
      const Pair top = two_sum(shifts[row], x.hi);
      const Pair m = two_sum(top.hi, top.lo + x.lo);
      const Pair factor = exponential({-x.hi, -x.lo}, table().data());
      const Pair l = multiply(L, factor);
      const double radius =
          (error_of_L(L.hi, eta, plan.tiles) * factor.hi + l.hi * (kExp + 0x1p-102)) *
          (1.0 + 0x1p-40);
      const double l_below = (l.hi - radius) * (1.0 - 0x1p-20);
      partial.truth.m[row] = {m.hi + 0.0, m.lo, eta};
      partial.truth.l[row] = {l.hi, l.lo, (radius + 1.01 * eta * l.hi) * 1.01};
      partial.truth.LSE[row] = log_sum(kernels, m, {l.hi, l.lo, radius}, radius / l_below);
    }
  });
  return partial;
}

PartialTruth certify_tiles(const Problem& problem, unsigned threads) {
  Plan plan = plan_of(problem, threads);
  const Shape& shape = problem.shape;
  Tensor<Enclosed> O(shape.batch_heads, shape.n_q, shape.dv);
  std::vector<RowSums> sums(plan.rows.size());
  in_parallel(plan.rows.size(), threads, [&](std::size_t row) {
    if (plan.covered[row] == 0)
      return;
    const auto bh = static_cast<std::int64_t>(row) / shape.n_q;
    RowWork work(plan, problem, bh);
    sums[row] = work.run(static_cast<std::int64_t>(row) % shape.n_q, plan.rows[row], O);
  });
  std::vector<double> shifts(plan.rows.size());
  std::ranges::transform(plan.rows, shifts.begin(), &Row::shift);
  return finished(plan, std::move(O), sums, shifts, threads);
}

Truth completed(const Problem& problem, PartialTruth partial, unsigned threads) {
  const Shape& shape = problem.shape;
  Truth truth = std::move(partial.truth);
  std::int64_t left = 0;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    std::vector<std::int64_t> rows;
    for (std::int64_t q = 0; q < shape.n_q; ++q)
      if (partial.covered[static_cast<std::size_t>(bh * shape.n_q + q)] == 0)
        rows.push_back(q);
    if (rows.empty())
      continue;
    const auto count = static_cast<std::int64_t>(rows.size());
    Problem part{{1, count, shape.n_kv, shape.d, shape.dv},
                 problem.scale,
                 Tensor<float>(1, count, shape.d),
                 Tensor<float>(1, shape.n_kv, shape.d),
                 Tensor<float>(1, shape.n_kv, shape.dv)};
    for (std::int64_t i = 0; i < count; ++i)
      std::ranges::copy(problem.Q.row(bh, rows[static_cast<std::size_t>(i)]),
                        part.Q.row(0, i).begin());
    for (std::int64_t j = 0; j < shape.n_kv; ++j) {
      std::ranges::copy(problem.K.row(bh, j), part.K.row(0, j).begin());
      std::ranges::copy(problem.V.row(bh, j), part.V.row(0, j).begin());
    }
    const Truth other = certify(part, threads);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t q = rows[static_cast<std::size_t>(i)];
      const auto to = static_cast<std::size_t>(bh * shape.n_q + q),
                 from = static_cast<std::size_t>(i);
      truth.l[to] = other.l[from];
      truth.m[to] = other.m[from];
      truth.LSE[to] = other.LSE[from];
      std::ranges::copy(other.O.row(0, i), truth.O.row(bh, q).begin());
    }
    left += count;
  }
  if (left > 0)
    truth.method += "; " + std::to_string(left) + " rows by certify()";
  return truth;
}

} // namespace fa1::reference::tile
