/// How the error of a kernel grows, beside what was predicted, and the grade that comes out.
///
/// growth_point      the error of one output, and what expectation.hpp, bounds.hpp and the softmax bound of
///                   sweep.hpp foretell for it
/// near_uniform_rms  the closed form for V of one sign and weights that are nearly equal
/// fit_over_tiles    where over the width of the tiles the error is least
/// graded_error      the error in units of what the inputs' own roundings may do to the output
/// grade             A, B, C or none, from such errors over the number of keys
/// Units     u sum p|v|, u = 2^-24, as in error.hpp; a graded error is in u times its own unit
/// Special   a NaN in an output makes every number it enters NaN, and no grade
///
/// Closed form (Higham and Mary's model: roundings independent, with mean zero). The relative error of a
/// rounding whose significand is log-uniform has the RMS u sqrt(1 / (8 ln 2)) = 0.4247 u. A carry meets `a`
/// of them in every tile (2 in FA1, 1 in FA2), l one; the weight of the keys so far is t / T, and
/// sum_t (t / T)^2 = T / 3. A sum of Bc terms in order meets one at each partial sum, c / Bc of the tile:
/// Bc / 3 in T tiles that each weigh 1 / T. So
///
///     rms(O^ - o) / |o| = 0.4247 u sqrt( (a + [l inexact]) T/3 + (1 + [row sum inexact]) Bc^2/(3 N) )
///
/// With T = N / Bc it is least at Bc = ( (a + [l]) / (2 (1 + [sum])) )^(1/3) N^(2/3).
///
/// Fit over tiles. rms^2 = A N / Bc + B Bc^2 / N, the closed form with A and B free, by least squares of the
/// relative errors of rms^2; least at Bc = (A / (2 B))^(1/3) N^(2/3). Nothing in the fit knows how A and B
/// depend on N: the power of N is found by fitting several N.
///
/// Grade. With kappa_j = scale sum_i |q_i k_ji|, relative changes of every entry of Q, K and V by at most e move o
/// by at most e unit(o) to first order,
///
///     unit(o) = sum_j p_j |v_j| + 2 sum_j p_j |v_j - o| kappa_j = sum p|v| * condition .
///
/// It stands where the BLAS have |A| |B| (Demmel et al. 2026 grade those). f(N) = 4 N + d + 6, the roundings
/// that the bound of any right fp32 kernel counts (bounds.hpp, unknown insides). Over all inputs of one N the
/// largest error / (u unit) has to stay below f(N), with a log-log slope over N whose 95 % interval ends at
/// or below 1:
///   A     with the unit of the element itself
///   B     with the largest unit of its row
///   C     with the largest unit of the problem
///   none  otherwise, shown as '-'
#pragma once

#include "numerics/sweep.hpp"
#include "reference/problem.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace fa1::numerics {

struct GrowthPoint {
  double rms = 0.0, max = 0.0;
  double predicted = 0.0; ///< RMS by expectation.hpp
  double bound = 0.0;     ///< RMS of bounds.hpp
  double softmax = 0.0;   ///< Blanchard, Higham, Higham 2021; the largest of the rows
};

GrowthPoint growth_point(const reference::Problem& problem, const reference::State& state,
                         const reference::Truth& truth, const kernels::Arithmetic& arithmetic);

/// Several problems of one kind as one: RMS of the RMS, largest of the largest.
GrowthPoint pooled(std::span<const GrowthPoint> points);

struct NearUniform {
  double carried = 2.0;    ///< a
  bool l_inexact = true;   ///< false where every weight is 1 and N <= 2^24
  bool sum_inexact = true; ///< sum p of a tile
};

/// In u |o|, which is u sum p|v| where V is of one sign.
double near_uniform_rms(double keys, double Bc, const NearUniform& roundings);
/// The Bc at which it is least, as a real number.
double near_uniform_best_tile(double keys, const NearUniform& roundings);

struct TileFit {
  double best = 0.0; ///< Bc where the fitted curve is least
  double A = 0.0, B = 0.0;
  double least_at = 0.0; ///< the measured width with the least error
};

/// `rms[i]` with tiles of `Bc[i]` keys. NaN where the fit has no minimum.
TileFit fit_over_tiles(double keys, std::span<const double> Bc, std::span<const double> rms);

struct GradedError {
  double keys = 0.0, limit = 0.0; ///< N, f(N)
  double element = 0.0;           ///< largest error / (u unit)
  double row = 0.0, problem = 0.0;
  double without_condition = 0.0; ///< largest error / (u sum p|v|)
};

/// What a kernel is graded on: the largest error of all of them counts.
inline constexpr std::array kGradedInputs{"v=positive",    "v=normal", "v=positive order=ascending",
                                          "v=alternating", "sigma=8",  "dist=outliers v=outliers"};

GradedError graded_error(const reference::Problem& problem, const reference::State& state,
                         const reference::Truth& truth);

struct Grade {
  char letter = '-';
  Slope slope;       ///< that the letter rests on; A's where there is none
  double part = 0.0; ///< largest error / (u unit f(N)) of the same
  Slope plain_slope; ///< of the error over u sum p|v| alone
};

/// Errors of one N may come from several inputs: the largest counts.
Grade grade(std::span<const GradedError> errors);

} // namespace fa1::numerics
