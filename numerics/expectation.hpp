/// How large the error of a right kernel is on average: the variance of O and l, rounding by rounding.
///
/// Computes  E[(O^ - o)^2] for every element of O and E[((l^ - l) / l)^2] for every row, for FA1's
///           recurrence with V of any sign; l is taken at the computed maximum, as in bounds.hpp
/// Requires  finite inputs and the conditions of bounds.hpp (`obstacle` names the one that fails)
/// Error     first order in u; where roundings are exact (powers of two, integers) it is an upper
///           estimate, where equal numbers are rounded again and again (equal scores, equal values)
///           they are not independent and it may be too small
/// Measured  ratio of measured to predicted RMS: numerics/tests/expectation_test.cpp
/// Source    derived here, sharper than the screen of bounds.hpp, which adds absolute values over keys
///
/// Derivation. A rounding to a float y moves it by an amount uniform in [-ulp(y)/2, ulp(y)/2], of mean 0
/// and variance r(y)^2 = ulp(y)^2 / 12 (0 where the result is exact), independent of all others. The
/// magnitudes y are those of the recurrence itself, followed in double. With p_j the exact weight of
/// key j, t its tile, P_t the weight of the first t tiles, g_t = e^(m_t - M) / L, and o_t the output
/// after tile t, to first order
///
///   O^ - o = sum_j p_j (v_j - o) e_j                      the weight of key j alone
///          + sum_t a_t sum_{j before t} p_j (v_j - o)     alpha^ l^, shared by all earlier keys
///          + sum_t g_t n_t + P_t d_t                      the numerator of tile t, its division
///          - o sum_t g_t h_t                              the denominator of tile t
///
///   e_j   score: scale^2 (sum_i r(q_i k_i)^2 + r(partial sum)^2) + r(s)^2; the subtraction
///         r(s - m)^2, absolute; the exponential c^2 r(p)^2 / p^2
///   a_t   in a tile that sets a new maximum: subtraction, exponential, and r(alpha l)^2 / (alpha l)^2
///   n_t   r(alpha l O)^2 + r(sum)^2 + sum_c r(p v)^2 + r(partial sum)^2; products of a fused a*b+c are
///         not rounded
///   d_t   r(o_t)^2          h_t   r(l_t)^2 + sum_c r(partial sum)^2
///
/// Errors of l cancel between a division and the next carry, which is why a_t is relative to the carry
/// and h_t enters once. All terms are independent, so their squares add up. The relative error of l is
/// the same without n_t and d_t: sum_j p_j e_j + sum_t a_t P_(t-1) + sum_t g_t h_t.
///
/// Other orders (kernels::Order), where they differ; for fewer roundings than FA1's the above is an upper
/// estimate. at_end, lagging: alpha l and alpha A are rounded apart, r(alpha l)^2 in h_t. tile_maximum: e_j
/// at the tile's maximum; beta, shared by its tile like a_t; r(beta l_tile)^2 in h_t, r(beta sum p v)^2
/// in n_t. rows_of_S: one tile; r(p / l)^2 v^2 a key. two_fetches: exponentials apart, so those of the
/// numerator count with p_j v_j and those of the denominator with p_j o. LSE: r(LSE)^2 and an ulp of ln l.
/// ranges: not derived, so the statistical laws are not asked of it.
///
/// Unknown arithmetic: the larger of tiles of one key and one tile of all keys, with two more roundings
/// of each score and of the maximum, half a unit of |s - M| for a change of base, and c of at least 5.
#pragma once

#include "kernels/kernel.hpp"
#include "reference/problem.hpp"

#include <span>
#include <string>
#include <vector>

namespace fa1::numerics {

struct Expectation {
  reference::Tensor<double> O; ///< [batch_heads][n_q][dv], variance, absolute
  std::vector<double> l;       ///< [batch_heads * n_q], variance, relative
  std::string obstacle;        ///< the condition that fails, empty when the values hold
};

Expectation expected_error(const reference::Problem& problem,
                           const kernels::Arithmetic& arithmetic);

/// Measured over predicted RMS stays below this (normal, positive, ascending and descending inputs, 16
/// to 1024 keys in tiles of one, to 4096 in wider ones). Where most addends lie below half an ulp of
/// the sum they meet they are lost one way: 2.4 was seen for 4096 keys in tiles of one.
inline constexpr double kExpectedAtMost = 1.25;
/// ... and at least this much, so the prediction is sharp.
inline constexpr double kExpectedAtLeast = 0.7;

/// e^-kRarity is the probability that a right kernel exceeds one of the two thresholds below: with a
/// million of them in a run, a false alarm has probability below 1e-9.
inline constexpr double kRarity = 34.6; // e^-34.6 < 1e-15

/// Threshold for sum_e err_e^2. The errors are linear in independent roundings, each uniform and
/// therefore sub-Gaussian with its variance; for such quadratic forms (Hsu, Kakade, Zhang 2012)
///     P( sum > tr S + 2 sqrt(t tr S^2) + 2 t |S| ) <= e^-t ,     S = the errors' covariance.
/// Elements of one group may depend on each other in any way, groups are independent; then
/// tr S = sum g, tr S^2 <= sum g^2 and |S| <= max g for the groups' summed variances g.
/// The result is enlarged by kExpectedAtMost^2.
double squares_allowed(std::span<const double> variance_of_group);

/// Threshold for |sum_e err_e|, from the variances of the groups' sums: P <= 2 exp(-z^2 / 2). Enlarged
/// by kExpectedAtMost.
double sum_allowed(std::span<const double> variance_of_group);

} // namespace fa1::numerics
