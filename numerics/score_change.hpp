/// What happens to scores between q.k and the softmax: a soft cap, then an additive bias.
///
/// Computes  s'_j = C tanh(s_j / C) + b_j, s_j = scale q.k_j, each part where it is there: first the scale, then the
///           cap, then the bias, which is not scaled (FlashAttention's order)
///           certify       the truth of a problem whose scores are changed so
///           change_score  the same for the bound: the score, the size of its terms, and how far a right kernel's may
///                         be off
/// Shapes    bias: one row for each query row, one entry for each key, finite
/// Truth     The scores are made in MPFR with 50 digits and written as sums of four floats (times 2^10), so that
///           certify() has an ordinary problem, scale 2^10 and q = (1, 1, 1, 1), with exactly these scores. What is cut
///           off is below delta = (d + 8) 2^-160 sum of the terms' sizes + 2^-94 |s'| + 2^-138. It moves weights by
///           factors within e^(+-delta), so O by at most (e^(2 delta) - 1) max_j |v_j - o|, l by 2 delta l, m and LSE by
///           delta: added to the radii. Keys that lie below the maximum by more than kFar after all errors weigh
///           less than e^-4096: left out, the radius of O grows by 2^-1000
/// Bound     With eta of low_precision.hpp for s:
///           cap    x = s / C is off by at most D = eta / C + 3 u (|x| + eta / C); tanh moves by at most its largest
///                  slope on [x - D, x + D] times D; tanh itself is off by kTanhError (1 ulp or so of a library, and
///                  formulas from exponentials: 2 / (e^2x + 1) is off by less than 8 u there), or by 2^-11 |tanh| with
///                  PTX's tanh.approx; the product with C, and a base-2 factor, add 2 u |s'|
///           bias   b may be rounded to fp32, multiplied by log2 e or divided by the scale, and stand anywhere in the
///                  sum of d products: gamma_{d+7} |b|; its addition rounds the sum: gamma_2 (|s'| + |b| + eta)
/// Source    derived here; PTX ISA, tanh.approx.f32: largest relative error 2^-11
#pragma once

#include "numerics/masks.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <span>

namespace fa1::numerics {

inline constexpr double kTanhError = 0x1p-20; ///< 16 u, absolute
inline constexpr double kFar = 4096.0;

struct ScoreChange {
  double softcap = 0.0; ///< 0: none
  bool tanh_approx = false;
  bool cap_comes_last = false;         ///< C tanh((s + b) / C)
  reference::Tensor<double> bias = {}; ///< [1][n_q][n_kv], or empty

  bool any() const { return softcap > 0.0 || bias.size() > 0; }
};

/// A score as the bound sees it.
struct BoundedScore {
  double s = 0.0;
  double size = 0.0;     ///< of its terms: sum |q k| and so on
  double eta = 0.0;      ///< largest error
  double expected = 0.0; ///< statistical error, besides what is in proportion to size
};
BoundedScore change_score(const ScoreChange& change, BoundedScore score, std::int64_t d,
                          std::int64_t row, std::int64_t key);

/// Of a problem of one batch-head. Without a change that of masks.hpp.
reference::Truth certify(const reference::Problem& problem, const ScoreChange& change,
                         EmptyRow empty_row, unsigned threads = 1);

/// The change of some rows of a head that may see these keys.
ScoreChange change_of(const Mask& mask, std::int64_t batch, std::span<const std::int64_t> heads,
                      std::span<const std::int64_t> rows, const Runs& runs, float scale);

} // namespace fa1::numerics
