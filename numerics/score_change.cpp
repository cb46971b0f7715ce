#include "numerics/score_change.hpp"

#include "numerics/bounds.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/finite.hpp"
#include "reference/parallel.hpp"

#include <boost/multiprecision/mpfr.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace fa1::numerics {
namespace {

using reference::Problem;
using reference::Truth;
using Wide = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<50>,
                                           boost::multiprecision::et_off>;

constexpr std::int64_t kParts = 4;    ///< floats of a score
constexpr float kPartScale = 1024.0f; ///< so that no score overflows its parts

struct Changed {
  Wide s = 0;
  BoundedScore bounded;
};

Changed changed_score(const Problem& problem, const ScoreChange& change, std::int64_t row,
                      std::int64_t key) {
  Changed changed;
  double size = 0.0;
  for (std::int64_t i = 0; i < problem.shape.d; ++i) {
    const double product = double{problem.Q(0, row, i)} * double{problem.K(0, key, i)}; // exact
    changed.s += product;
    size += std::fabs(product);
  }
  const double scale = problem.scale;
  changed.s *= scale;
  size *= std::fabs(scale);
  const auto d = static_cast<double>(problem.shape.d);
  changed.bounded =
      change_score(change, {static_cast<double>(changed.s), size, gamma(d + 5.0) * size},
                   problem.shape.d, row, key);
  const double b = change.bias.size() > 0 ? change.bias(0, row, key) : 0.0;
  if (change.cap_comes_last)
    changed.s += b;
  if (change.softcap > 0.0)
    changed.s = change.softcap * tanh(Wide(changed.s / change.softcap));
  if (!change.cap_comes_last)
    changed.s += b;
  return changed;
}

void set_parts(const Wide& s, std::span<float> parts) {
  Wide left = s / double{kPartScale};
  for (float& part : parts) {
    part = static_cast<float>(left);
    left -= double{part};
  }
}

/// One row; its scores are finite.
Truth certify_row(const Problem& problem, const ScoreChange& change, EmptyRow empty_row,
                  std::int64_t row) {
  const reference::Shape& shape = problem.shape;
  std::vector<Changed> scores;
  double lowest_maximum = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < shape.n_kv; ++j) {
    const BoundedScore& bounded =
        scores.emplace_back(changed_score(problem, change, row, j)).bounded;
    lowest_maximum = std::max(lowest_maximum, bounded.s - bounded.eta);
  }
  Runs near;
  double delta = 0.0;
  for (std::int64_t j = 0; j < shape.n_kv; ++j) {
    const BoundedScore& bounded = scores[static_cast<std::size_t>(j)].bounded;
    if (bounded.s + bounded.eta + kFar < lowest_maximum)
      continue;
    if (!near.empty() && near.back().end == j)
      ++near.back().end;
    else
      near.push_back({j, j + 1});
    delta = std::max(delta, static_cast<double>(shape.d + 8) * 0x1p-160 * bounded.size +
                                0x1p-94 * std::fabs(bounded.s) + 0x1p-138);
  }
  Problem row_alone{{1, 1, shape.n_kv, shape.d, shape.dv}, problem.scale, {}, problem.K, problem.V};
  row_alone.Q = reference::Tensor<float>(1, 1, shape.d);
  Problem given = with_keys(row_alone, near);
  given.shape.d = kParts;
  given.scale = kPartScale;
  given.Q = reference::Tensor<float>(1, 1, kParts);
  std::ranges::fill(given.Q.elements(), 1.0f);
  given.K = reference::Tensor<float>(1, given.shape.n_kv, kParts);
  std::int64_t at = 0;
  for (const Run& run : near)
    for (std::int64_t j = run.first; j < run.end; ++j)
      set_parts(scores[static_cast<std::size_t>(j)].s, given.K.row(0, at++));

  Truth truth = certify(given, empty_row);
  const bool cut = given.shape.n_kv < shape.n_kv;
  const double largest = double{reference::largest_magnitude(given.V.elements())};
  for (reference::Enclosed& o : truth.O.elements())
    o.radius +=
        std::expm1(2.0 * delta) * 2.0 * largest * kEvaluationSlack + (cut ? 0x1p-1000 : 0.0);
  for (reference::Enclosed& l : truth.l)
    l.radius += std::expm1(2.0 * delta) * l.hi * kEvaluationSlack + (cut ? 0x1p-1000 : 0.0);
  for (auto* some : {&truth.m, &truth.LSE})
    for (reference::Enclosed& x : *some)
      x.radius += delta + (cut ? 0x1p-1000 : 0.0);
  return truth;
}

} // namespace

BoundedScore change_score(const ScoreChange& change, BoundedScore score, std::int64_t d,
                          std::int64_t row, std::int64_t key) {
  const auto add_bias = [&] {
    if (change.bias.size() == 0)
      return;
    const double b = change.bias(0, row, key);
    score.eta += gamma(static_cast<double>(d) + 7.0) * std::fabs(b) +
                 gamma(2.0) * (score.size + std::fabs(b) + score.eta);
    score.size += std::fabs(b);
    score.s += b;
  };
  if (change.cap_comes_last)
    add_bias();
  if (change.softcap > 0.0) {
    const double C = change.softcap, x = std::fabs(score.s) / C;
    const double D = score.eta / C + 3.0 * kU * (x + score.eta / C);
    const double t = std::tanh(std::max(0.0, x - D));
    const double slope = 1.0 - t * t + 0x1p-50;
    const double capped = C * std::tanh(score.s / C);
    const double approximated = change.tanh_approx ? 0x1p-11 * std::fabs(capped) : 0.0;
    score.eta = C * (slope * D + kTanhError) + approximated + 2.0 * kU * std::fabs(capped);
    score.expected = kU * C + approximated;
    score.size = slope * score.size + std::fabs(capped);
    score.s = capped;
  }
  if (!change.cap_comes_last)
    add_bias();
  return score;
}

Truth certify(const Problem& problem, const ScoreChange& change, EmptyRow empty_row,
              unsigned threads) {
  // NaN and Inf in Q, K and V are what they are without a change: no cap and no bias makes a number of them.
  const bool finite =
      reference::all_finite(problem.Q.elements()) && reference::all_finite(problem.K.elements());
  Truth truth = certify(problem, empty_row, threads);
  if (!change.any() || !finite || problem.shape.n_kv == 0)
    return truth;
  std::vector<Truth> rows(static_cast<std::size_t>(problem.shape.n_q));
  reference::in_parallel(rows.size(), threads, [&](std::size_t r) {
    rows[r] = certify_row(problem, change, empty_row, static_cast<std::int64_t>(r));
  });
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::ranges::copy(rows[r].O.row(0, 0), truth.O.row(0, static_cast<std::int64_t>(r)).begin());
    truth.l[r] = rows[r].l[0];
    truth.m[r] = rows[r].m[0];
    truth.LSE[r] = rows[r].LSE[0];
    truth.method = rows[r].method;
  }
  truth.method += ", from scores in MPFR";
  return truth;
}

ScoreChange change_of(const Mask& mask, std::int64_t batch, std::span<const std::int64_t> heads,
                      std::span<const std::int64_t> rows, const Runs& runs, float scale) {
  const MaskOptions& options = mask.options();
  ScoreChange change;
  change.softcap = options.softcap;
  change.tanh_approx = options.tanh_approx;
  change.cap_comes_last = options.cap_comes_last;
  if (!options.bias)
    return change;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<double> bias = mask.bias(batch, heads[r], rows[r], runs);
    if (r == 0)
      change.bias = reference::Tensor<double>(1, static_cast<std::int64_t>(rows.size()),
                                              static_cast<std::int64_t>(bias.size()));
    std::ranges::transform(
        bias, change.bias.row(0, static_cast<std::int64_t>(r)).begin(),
        [&](double b) { return options.bias_is_scaled ? b * double{scale} : b; });
  }
  return change;
}

} // namespace fa1::numerics
