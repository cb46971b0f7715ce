#include "numerics/stage_budget.hpp"

#include "kernels/tiling.hpp"
#include "numerics/bounds.hpp"
#include "numerics/order_mirror.hpp"
#include "numerics/ulp.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace fa1::numerics {
namespace {

using kernels::Order;
using reference::Problem;
using reference::Tensor;

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// The copies in double: exact, all stages inexact, each alone inexact, each alone exact.
constexpr std::size_t kExact = 0, kAll = 1, kAlone = 2, kLeft = kAlone + kBudgetStages,
                      kCopies = kLeft + kBudgetStages;

using Copies = std::array<double, kCopies>;

/// 1 where the copy commits the stage's errors, 0 where not.
constexpr PerStage<Copies> inexact_copies() {
  PerStage<Copies> commits{};
  for (std::size_t stage = 0; stage < kBudgetStages; ++stage) {
    commits[stage][kAll] = 1.0;
    commits[stage][kAlone + stage] = 1.0;
    for (std::size_t other = 0; other < kBudgetStages; ++other)
      commits[stage][kLeft + other] = other == stage ? 0.0 : 1.0;
  }
  return commits;
}
constexpr PerStage<Copies> kCommits = inexact_copies();

constexpr std::size_t index_of(BudgetStage stage) { return static_cast<std::size_t>(stage); }

/// A number of the recurrence: as fp32 has it, and in every copy.
struct Number {
  float f = 0.0f;
  Copies x{};

  Number() = default;
  Number(float value, double copies) : f(value) { x.fill(copies); }
};

/// fl(x op y) / (x op y) - 1; the operation on floats done in double is exact or rounded to 2^-53.
double committed(float got, double exact) {
  const double value = got;
  return value == exact ? 0.0 : value / exact - 1.0;
}

class Arithmetic {
public:
  explicit Arithmetic(const PerStage<FormatId>& rounded) : rounded_(rounded) {}

  float rounded(BudgetStage stage, float x) const {
    const FormatId format = rounded_[index_of(stage)];
    return format == FormatId::fp32 ? x : round_to(format_of(format), x);
  }

  Number product(BudgetStage stage, const Number& a, const Number& b) const {
    Number y;
    y.f = rounded(stage, a.f * b.f);
    const double d = committed(y.f, double{a.f} * double{b.f});
    const Copies& commits = kCommits[index_of(stage)];
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = a.x[i] * b.x[i] * (1.0 + d * commits[i]);
    return y;
  }
  Number product(BudgetStage stage, const Number& a, float b) const {
    return product(stage, a, Number(b, double{b}));
  }
  Number sum(BudgetStage stage, const Number& a, const Number& b) const {
    Number y;
    y.f = rounded(stage, a.f + b.f);
    const double d = committed(y.f, double{a.f} + double{b.f});
    const Copies& commits = kCommits[index_of(stage)];
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = (a.x[i] + b.x[i]) * (1.0 + d * commits[i]);
    return y;
  }
  Number quotient(BudgetStage stage, const Number& a, const Number& b) const {
    Number y;
    y.f = rounded(stage, a.f / b.f);
    const double d = committed(y.f, double{a.f} / double{b.f});
    const Copies& commits = kCommits[index_of(stage)];
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = a.x[i] / b.x[i] * (1.0 + d * commits[i]);
    return y;
  }
  /// exp(a - b)
  Number exp_of_difference(BudgetStage argument, BudgetStage exp, const Number& a,
                           const Number& b) const {
    const Number difference = sum(argument, a, negated(b));
    Number y;
    y.f = rounded(exp, std::exp(difference.f));
    const double d = committed(y.f, std::exp(double{difference.f}));
    const Copies& commits = kCommits[index_of(exp)];
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = std::exp(difference.x[i]) * (1.0 + d * commits[i]);
    return y;
  }
  /// A dot product of exact factors: a copy has it either exact or as fp32 has it.
  Number dot(std::span<const float> q, std::span<const float> k) const {
    Number y;
    double exact = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      const float term = rounded(BudgetStage::dot, q[i] * k[i]);
      y.f = rounded(BudgetStage::dot, y.f + term);
      exact += double{q[i]} * double{k[i]};
    }
    const Copies& commits = kCommits[index_of(BudgetStage::dot)];
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = commits[i] == 0.0 ? exact : double{y.f};
    return y;
  }

private:
  static Number negated(const Number& a) {
    Number y;
    y.f = -a.f;
    for (std::size_t i = 0; i < kCopies; ++i)
      y.x[i] = -a.x[i];
    return y;
  }

  const PerStage<FormatId>& rounded_;
};

const Number& larger(const Number& a, const Number& b) { return b.f > a.f ? b : a; }

struct Running {
  Number m{static_cast<float>(kMinusInf), kMinusInf}, l;
  std::vector<Number> O;
};

struct Tile {
  std::vector<Number> s, p, pv;
  Number m, sum_p;
};

/// One query row, in the orders of numerics/order_mirror.cpp.
class RowBudget {
public:
  RowBudget(const Problem& problem, const BudgetRun& run, std::int64_t bh, std::int64_t row)
      : problem_(problem), run_(run), at_(run.rounded), bh_(bh), row_(row) {}

  Running result() {
    const std::int64_t tiles = kernels::parts(problem_.shape.n_kv, run_.Bc);
    Running state = none();
    switch (run_.order) {
    case Order::every_tile:
    case Order::tile_maximum:
      for (std::int64_t j = 0; j < tiles; ++j)
        normalised_tile(j, state);
      break;
    case Order::at_end:
    case Order::lagging:
      summed_tiles(0, tiles, state);
      break;
    case Order::two_fetches:
      for (std::int64_t j = 0; j < tiles; ++j)
        sum_weights(j, state);
      for (std::int64_t j = 0; j < tiles; ++j)
        add_values(weighted_tile(j, state.m), state);
      divide(state);
      break;
    case Order::rows_of_S:
      for (std::int64_t j = 0; j < tiles; ++j)
        state.m = larger(state.m, scores(j).m);
      for (std::int64_t j = 0; j < tiles; ++j)
        for (const Number& p : weighted_tile(j, state.m).p)
          state.l = at_.sum(BudgetStage::sum, state.l, p);
      for (std::int64_t j = 0; j < tiles; ++j) {
        Tile tile = weighted_tile(j, state.m);
        for (Number& p : tile.p)
          p = at_.quotient(BudgetStage::division, p, state.l);
        sum_values(tile, j);
        add_values(tile, state);
      }
      break;
    case Order::ranges:
      for (std::int64_t range = 0; range < kernels::kKeyRanges; ++range) {
        const auto [first, end] = kernels::tiles_of_range(tiles, range);
        if (first == end)
          continue;
        Running own = none();
        summed_tiles(first, end, own);
        if (range == 0)
          state = own;
        else
          merge(state, own);
      }
      break;
    }
    return state;
  }

  /// sum_j p_j |v_j| of the exact weights, once the scores have been seen.
  std::vector<double> weighted() const {
    double M = kMinusInf, l = 0.0;
    for (const double s : exact_scores_)
      M = std::max(M, s);
    std::vector<double> sums(static_cast<std::size_t>(problem_.shape.dv));
    for (std::size_t j = 0; j < exact_scores_.size(); ++j) {
      const double p = std::exp(exact_scores_[j] - M);
      l += p;
      const auto v = problem_.V.row(bh_, static_cast<std::int64_t>(j));
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += p * std::fabs(double{v[i]});
    }
    for (double& sum : sums)
      sum /= l;
    return sums;
  }

private:
  Running none() const {
    Running state;
    state.O.resize(static_cast<std::size_t>(problem_.shape.dv));
    return state;
  }

  Tile scores(std::int64_t j) {
    Tile tile;
    tile.m = none().m;
    const std::int64_t key0 = j * run_.Bc;
    const std::int64_t end = std::min(key0 + run_.Bc, problem_.shape.n_kv);
    for (std::int64_t c = key0; c < end; ++c) {
      const Number dot = at_.dot(problem_.Q.row(bh_, row_), problem_.K.row(bh_, c));
      tile.s.push_back(at_.product(BudgetStage::scale, dot, problem_.scale));
      tile.m = larger(tile.m, tile.s.back());
      if (c == static_cast<std::int64_t>(exact_scores_.size()))
        exact_scores_.push_back(tile.s.back().x[kExact]);
    }
    return tile;
  }

  void weigh(Tile& tile, const Number& m) const {
    for (const Number& s : tile.s) {
      tile.p.push_back(at_.exp_of_difference(BudgetStage::argument, BudgetStage::exp, s, m));
      tile.sum_p = at_.sum(BudgetStage::sum, tile.sum_p, tile.p.back());
    }
  }

  void sum_values(Tile& tile, std::int64_t j) const {
    tile.pv.resize(static_cast<std::size_t>(problem_.shape.dv));
    for (std::size_t c = 0; c < tile.p.size(); ++c) {
      const auto v = problem_.V.row(bh_, j * run_.Bc + static_cast<std::int64_t>(c));
      for (std::size_t i = 0; i < tile.pv.size(); ++i)
        tile.pv[i] =
            at_.sum(BudgetStage::pv, tile.pv[i], at_.product(BudgetStage::pv, tile.p[c], v[i]));
    }
  }

  Tile weighted_tile(std::int64_t j, const Number& m) {
    Tile tile = scores(j);
    weigh(tile, m);
    if (run_.order != Order::rows_of_S)
      sum_values(tile, j);
    return tile;
  }

  Number alpha_of(const Number& before, const Number& after) const {
    return at_.exp_of_difference(BudgetStage::alpha, BudgetStage::alpha, before, after);
  }

  /// fa1.cuh and fa1_paper.cuh: O is normalised.
  void normalised_tile(std::int64_t j, Running& state) {
    const bool own_maximum = run_.order == Order::tile_maximum;
    Tile tile = scores(j);
    const Number m_new = larger(state.m, tile.m);
    weigh(tile, own_maximum ? tile.m : m_new);
    sum_values(tile, j);
    if (own_maximum) {
      const Number beta = alpha_of(tile.m, m_new);
      tile.sum_p = at_.product(BudgetStage::l, beta, tile.sum_p);
      for (Number& pv : tile.pv)
        pv = at_.product(BudgetStage::update, beta, pv);
    }
    const Number carried = at_.product(BudgetStage::alpha, alpha_of(state.m, m_new), state.l);
    state.l = at_.sum(BudgetStage::l, carried, tile.sum_p);
    for (std::size_t i = 0; i < state.O.size(); ++i)
      state.O[i] =
          at_.quotient(BudgetStage::division,
                       at_.sum(BudgetStage::update,
                               at_.product(BudgetStage::update, carried, state.O[i]), tile.pv[i]),
                       state.l);
    state.m = m_new;
  }

  /// The others that rescale: O holds A = l O.
  void rescale(Running& state, const Number& tile_maximum) const {
    const Number& m_max = larger(state.m, tile_maximum);
    if (run_.order == Order::lagging && !(m_max.f - state.m.f > kLag))
      return;
    const Number alpha = alpha_of(state.m, m_max);
    state.l = at_.product(BudgetStage::l, alpha, state.l);
    for (Number& A : state.O)
      A = at_.product(BudgetStage::update, alpha, A);
    state.m = m_max;
  }

  /// One tile of the denominator, with the weights that it leaves in `tile`.
  Tile sum_weights(std::int64_t j, Running& state) {
    Tile tile = scores(j);
    rescale(state, tile.m);
    weigh(tile, state.m);
    state.l = at_.sum(BudgetStage::l, state.l, tile.sum_p);
    return tile;
  }

  void add_values(const Tile& tile, Running& state) const {
    for (std::size_t i = 0; i < state.O.size(); ++i)
      state.O[i] = at_.sum(BudgetStage::update, state.O[i], tile.pv[i]);
  }

  void summed_tiles(std::int64_t first, std::int64_t end, Running& state) {
    for (std::int64_t j = first; j < end; ++j) {
      Tile tile = sum_weights(j, state);
      sum_values(tile, j);
      add_values(tile, state);
    }
    divide(state);
  }

  void divide(Running& state) const {
    for (Number& A : state.O)
      A = at_.quotient(BudgetStage::division, A, state.l);
  }

  /// split_kv.cuh, merge_states.
  void merge(Running& state, const Running& other) const {
    const Number m_new = larger(state.m, other.m);
    const Number a = at_.product(BudgetStage::alpha, alpha_of(state.m, m_new), state.l);
    const Number b = at_.product(BudgetStage::alpha, alpha_of(other.m, m_new), other.l);
    state.l = at_.sum(BudgetStage::l, a, b);
    for (std::size_t i = 0; i < state.O.size(); ++i)
      state.O[i] =
          at_.quotient(BudgetStage::division,
                       at_.sum(BudgetStage::update, at_.product(BudgetStage::update, a, state.O[i]),
                               at_.product(BudgetStage::update, b, other.O[i])),
                       state.l);
    state.m = m_new;
  }

  const Problem& problem_;
  const BudgetRun& run_;
  Arithmetic at_;
  std::int64_t bh_, row_;
  std::vector<double> exact_scores_;
};

/// A of the header: scores, arguments and exponentials as eps_j of bounds.hpp, and every rounding that any
/// order makes of a numerator and of a denominator, in all tiles.
double path_of(const Problem& problem, const BudgetRun& run) {
  kernels::Arithmetic arithmetic;
  arithmetic.Bc = static_cast<int>(std::min(run.Bc, problem.shape.n_kv));
  arithmetic.order = run.order;
  const Bounds bounds = online_softmax(problem, arithmetic);
  const double c = exp_error_of(arithmetic);
  const auto tiles = static_cast<double>(kernels::parts(problem.shape.n_kv, run.Bc));
  const double in_sums = static_cast<double>(
      run.order == Order::rows_of_S ? problem.shape.n_kv : std::int64_t{arithmetic.Bc});
  double path = 0.0;
  for (std::size_t row = 0; row < bounds.m.size(); ++row) {
    const double arguments = bounds.spread[row] + 2.0 * kernels::Arithmetic::kLag;
    path = std::max(path, bounds.m[row] + kU * (arguments + c * (3.0 + tiles) + in_sums +
                                                3.0 * (tiles + kernels::kKeyRanges) + 8.0));
  }
  return path;
}

} // namespace

std::string_view name_of(BudgetStage stage) {
  constexpr PerStage<std::string_view> names{"dot",   "scale", "argument", "exp",    "sum",
                                             "alpha", "l",     "pv",       "update", "division"};
  return names[index_of(stage)];
}

StageBudget stage_budget(const Problem& problem, const BudgetRun& run, unsigned threads) {
  const reference::Shape& shape = problem.shape;
  StageBudget budget;
  budget.O = Tensor<float>(shape.batch_heads, shape.n_q, shape.dv);
  const Tensor<double> zero(shape.batch_heads, shape.n_q, shape.dv);
  budget.exact = budget.weighted = budget.whole = budget.replayed = zero;
  budget.alone.fill(zero);
  budget.left.fill(zero);
  kernels::Arithmetic arithmetic;
  arithmetic.order = run.order;
  budget.obstacle = obstacle_of(problem, arithmetic);
  if (!budget.obstacle.empty() || shape.n_kv == 0 || shape.n_q == 0 || shape.batch_heads == 0)
    return budget;
  budget.path = path_of(problem, run);

  reference::in_parallel(static_cast<std::size_t>(shape.batch_heads * shape.n_q), threads,
                         [&](std::size_t job) {
                           const auto bh = static_cast<std::int64_t>(job) / shape.n_q;
                           const auto r = static_cast<std::int64_t>(job) % shape.n_q;
                           RowBudget row(problem, run, bh, r);
                           const Running state = row.result();
                           std::ranges::copy(row.weighted(), budget.weighted.row(bh, r).begin());
                           for (std::int64_t i = 0; i < shape.dv; ++i) {
                             const Number& o = state.O[static_cast<std::size_t>(i)];
                             const double exact = o.x[kExact];
                             budget.O(bh, r, i) = o.f;
                             budget.exact(bh, r, i) = exact;
                             budget.whole(bh, r, i) = double{o.f} - exact;
                             budget.replayed(bh, r, i) = o.x[kAll] - exact;
                             for (std::size_t stage = 0; stage < kBudgetStages; ++stage) {
                               budget.alone[stage](bh, r, i) = o.x[kAlone + stage] - exact;
                               budget.left[stage](bh, r, i) = o.x[kLeft + stage] - exact;
                             }
                           }
                         });
  return budget;
}

BudgetSummary summarize(const StageBudget& budget) {
  BudgetSummary summary;
  const auto whole = budget.whole.elements(), weighted = budget.weighted.elements();
  summary.elements = budget.whole.size();
  if (whole.empty())
    return summary;
  const auto n = static_cast<double>(whole.size());
  const auto in_units = [&](const Tensor<double>& errors, std::size_t e) {
    const double error = errors.elements()[e];
    return error == 0.0 ? 0.0 : error / (kU * weighted[e]);
  };

  double squares = 0.0, unaccounted = 0.0;
  PerStage<double> alone{}, left{}, common{}, means{};
  for (std::size_t e = 0; e < whole.size(); ++e) {
    const double all = in_units(budget.whole, e);
    double sum_of_parts = 0.0;
    for (std::size_t stage = 0; stage < kBudgetStages; ++stage) {
      const double part = in_units(budget.alone[stage], e);
      const double rest = in_units(budget.left[stage], e);
      sum_of_parts += part;
      alone[stage] += part * part;
      left[stage] += rest * rest;
      common[stage] += part * all;
      means[stage] += part;
    }
    squares += all * all;
    summary.mean += all / n;
    unaccounted += (sum_of_parts - all) * (sum_of_parts - all);
    summary.largest_unaccounted =
        std::max(summary.largest_unaccounted, std::fabs(sum_of_parts - all));
  }
  summary.rms = std::sqrt(squares / n);
  summary.unaccounted = squares == 0.0 ? 0.0 : std::sqrt(unaccounted / squares);
  for (std::size_t stage = 0; stage < kBudgetStages; ++stage)
    summary.stages[stage] = {std::sqrt(alone[stage] / n), std::sqrt(left[stage] / n),
                             squares == 0.0 ? 0.0 : common[stage] / squares, means[stage] / n};
  return summary;
}

} // namespace fa1::numerics
