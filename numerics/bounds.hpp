/// How far a right kernel may be from the truth: the forward error bound of FlashAttention-1 and of its
/// family in fp32.
///
/// Computes  for one problem and one kernel's arithmetic: a bound for every element of O, for l and
///           for LSE, and the statistical expectation of the same errors
/// Requires  conditions (checked, see Bounds::obstacle): finite inputs; no overflow of sum |q k|
///           before or after scaling; n_kv * max|v| * the largest weight < FLT_MAX (so neither sum p v
///           nor alpha l O overflows)
/// Error     evaluated in double from double scores, then enlarged by kEvaluationSlack
/// Source    derived here. We found no published error theorem for the FlashAttention output over
///           many tiles.
///
/// Derivation. u = 2^-24, hats are computed values, t(j) is the tile of key j, T the number of
/// tiles, Bc their width, gamma_n = n u / (1 - n u). expf(x) = e^x (1 + e), |e| <= c u, and
/// expf(0) = 1.
///
///   Scores.   |s^_j - s_j| <= eta_j = gamma_{d+1} scale sum_i |q_i k_ji|, for any summation order,
///             fused or not; plus (scale d + 1) 2^-150 where products or the scaling may underflow.
///   Weights.  Key j enters with p^_j = exp(s^_j - m_t) and is multiplied by alpha^ l^ in every
///             later tile. The rounded arguments s^_j - m_t, m_t - m_{t+1}, ... telescope: together
///             they move the exponent by at most u (M^ - s^_j). Each exponential adds c u, each
///             rounded product alpha^ l^ adds u, both only in the R_j later tiles that set a new
///             maximum (elsewhere alpha = 1). So the weight that key j has in numerator and
///             denominator alike is p_j w_j with |ln w_j| <= eps_j,
///                 eps_j = eta_j + u { (M^ - s^_j) + c (1 + R_j) + R_j }.
///   Numerator.   With W_t = l^_t O^_t the carry is W_t = [alpha^ l^ O^ (1+d2) + sum p^ v] (1+d3)
///             (1+d4): key j meets n_j = Bc + 2 + a (T - t(j)) further roundings, a = 3 (2 where
///             the multiply-add is fused).
///   Denominator. Key j meets n'_j = rho + 1 + (T - t(j)) further roundings, rho = Bc - 1 for a
///             serial in-tile sum.
///   Output.   O^ = sum p_j w_j (1+theta_j) v_j / sum p_j w_j (1+phi_j), and since
///             sum_j p_j (v_j - o) = 0,
///
///     |O^ - o| <= [ sum_j p_j (e^eps_j - 1) |v_j - o| + sum_j p_j e^eps_j gamma_{n_j} |v_j|
///                   + |o| sum_j p_j e^eps_j gamma_{n'_j} ] / sum_j p_j e^-eps_j (1 - gamma_{n'_j})
///                   +  underflow
///
///             exact, with no second-order term left out. To first order it is the bound of the
///             textbook form sum p|v-o| {eta + u[c + (c+1) R + M - s]} + u sum p|v| {Bc + 2 + a
///             (T-t)} + u |o| sum p {rho + 1 + T - t}.
///   Underflow.   A p^ below the normal range is off by at most mu; so is an alpha^, which moves
///             every earlier key by at most mu, and the last such alpha dominates:
///             3 N mu max|v_j - o| in all. Products and the division that underflow add 2^-150
///             each, (N + 3T + 2) of them.
///   l         against the exact sum taken at the computed maximum: relative error at most
///             sum_j p_j (e^eps_j - 1) + sum_j p_j e^eps_j gamma_{n'_j}  (+ 3 N mu).
///   LSE       m^ + ln l^ carries the logarithm of that factor and nothing else.
///
/// Other orders (kernels::Order). The same form with other counts, T later tiles of key j, R of them
/// with a new maximum; the above is every_tile, n_j = Bc + 2 + a T, n'_j = Bc + T.
///
///   tile_maximum    A key's weight is exp(s - m_tile) exp(m_tile - m_new): one exponential more in
///                   eps_j, the arguments still telescope. beta sum p v and beta l_tile are rounded:
///                   n_j = Bc + 3 + a T, n'_j = Bc + 1 + T. Two products more a tile may underflow, and
///                   beta as alpha may: 4 N mu.
///   at_end          alpha^ is in both; alpha l and alpha A are rounded apart, where alpha is not 1. In its
///                   own tile a key meets Bc + 1 roundings, later one addition a tile and one product
///                   a rise, and the division: n_j = Bc + 2 + T + R, n'_j = Bc + T + R,
///                   eps_j with c (1 + R) alone. Over carries (each tile may end a launch) two more a
///                   tile in n_j: A = l O undoes O = A / l but for their roundings.
///   lagging         The subtracted m_t may lie up to lag = 8 ln 2 below a score. If s_j > m_t its
///                   arguments add up to (s_j - m_t) + (m_T - m_t) <= (M - s_j) + 2 lag. Weights reach
///                   2^8, and so do the effects of underflow. Counts as at_end (R is then too many).
///   rows_of_S       l is one sum over all keys: n'_j = N - 1; p / l, p v, sums: n_j = Bc + 2 + T; R = 0.
///                   A p / l below the normal range is off by 2^-150, times |v| <= |v - o| + |o|.
///   two_fetches     Numerator exp(s - M), one exponential, n_j = Bc + 2 + T; denominator as at_end,
///                   n'_j = Bc + T + R. Only the score is the same in both: c and c (1 + R), and the
///                   arguments M^ - s^_j, go into n_j and n'_j. A p that underflows moves the
///                   numerator by mu |v| and the denominator by mu |o|.
///   ranges          T' tiles after t(j) in its range, each of which may set a maximum, and then G merges:
///                   n_j = Bc + 2 + 2 T' + 3 G, n'_j = Bc + 2 T' + G, eps_j with c (1 + T' + G) + G: a
///                   merge is the step of every_tile with the ranges as tiles. 4 N mu as tile_maximum.
///
///   LSE alone (Arithmetic::gives_LSE): m + logf(l), logf within 2 u of ln l, and one rounded sum, add
///   u (2 ln l + |LSE|) to the bound of LSE. l = 1 at m = LSE then carries e^that - 1.
///
/// Unknown insides (Arithmetic::known = false): the widest over keys in any order; tiles of any
/// width, any tree of partial sums and merges; O normalised at every tile or at the end, alpha l
/// rounded for l and for O apart; weights normalised before they meet V; division or a reciprocal
/// that is off by an ulp; natural or base-2 exponentials, with log2 e in the scale, and the scale in Q;
/// p against the tile's maximum and corrected, or against a maximum that lags by up to 6. However
/// the N keys are cut into T tiles, Bc - 1 + 4 T <= 4 N: so n_j = 4 N + 6, n'_j = 2 N + 4,
/// R_j = N + 1, eta with gamma_{d+5}, c at least 5 and mu at least 2^-126 (flush to zero).
///
/// Statistical expectation (Higham and Mary 2019: roundings behave as independent with mean zero):
/// the same sums with n roundings replaced by sqrt(n), lambda = 1. Errors beyond kLambda times it
/// are suspicious, not wrong.
#pragma once

#include "kernels/kernel.hpp"
#include "reference/problem.hpp"

#include <memory>
#include <string>
#include <vector>

namespace fa1::numerics {

inline constexpr double kLambda = 5.0;
inline constexpr double kEvaluationSlack = 1.0 + 0x1p-20;

struct Bounds {
  reference::Tensor<double> O;        ///< [batch_heads][n_q][dv], absolute
  reference::Tensor<double> expected; ///< the same, statistical, lambda = 1
  std::vector<double> l;              ///< [batch_heads * n_q], relative
  std::vector<double> LSE;            ///< absolute
  std::vector<double> m;              ///< absolute: the largest score error of the row
  std::vector<double> eta;            ///< largest score error that meets a weight above 2^-30
  std::vector<double> spread;         ///< max_j M - s_j
  reference::Tensor<double> weighted; ///< sum_j p_j |v_j|, the unit of relative error
  std::string obstacle;               ///< the condition that fails, empty when the bound holds
};

/// `scores_exact`: the problem's scores carry no error (eta = 0), to judge the recurrence on its
/// own.
Bounds online_softmax(const reference::Problem& problem, const kernels::Arithmetic& arithmetic,
                      bool scores_exact = false);

/// The same with the keys in chunks, each seen twice: survey() each in order, then weigh() each in
/// order. Chunks are problems with the same queries; each but the last holds whole tiles. Apart from
/// roundings of double, the answer is that of online_softmax.
class OnlineSoftmaxBound {
public:
  OnlineSoftmaxBound(const reference::Shape& whole, const kernels::Arithmetic& arithmetic,
                     bool scores_exact = false);
  ~OnlineSoftmaxBound();

  void survey(const reference::Problem& chunk, unsigned threads = 1);
  void weigh(const reference::Problem& chunk, unsigned threads = 1);
  Bounds bounds() const;

private:
  struct Progress;
  std::unique_ptr<Progress> progress_;
};

/// The condition above that this problem fails; empty where it meets them all.
std::string obstacle_of(const reference::Problem& problem, const kernels::Arithmetic& arithmetic);

/// c of the kernel's exponential; of unknown insides, that of the widest.
double exp_error_of(const kernels::Arithmetic& arithmetic);

/// max over all queries and keys of |scale| sum |q k|: no score is larger.
double largest_score(const reference::Problem& problem);

/// Relative error that n roundings can make: n u / (1 - n u); infinite once n u reaches 1.
double gamma(double n);

} // namespace fa1::numerics
