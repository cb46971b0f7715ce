/// How far a right kernel may be from the truth when matrix products take numbers of fewer bits: the bound of
/// bounds.hpp for a kernel of unknown insides, with the roundings that a declared arithmetic adds.
///
/// Computes  low_precision_bound  the bounds of one problem; the truth they belong to is that of the problem
///                                as it is given, not of its rounded inputs
///           round_output         the same bounds for an output that was rounded once more, to a narrower format
///           roundings_of         the roundings that an arithmetic of the table adds on these very numbers: an
///                                input that the format holds already is not rounded
/// Requires  the conditions of bounds.hpp; |o| plus its bound below the largest number of the output's format
///           (else round_output sets the obstacle). Products of low numbers are summed in fp32, l is summed in
///           fp32, p is at most 1 where it is rounded (times a power of two, if at all)
/// Error     evaluated in double, then enlarged by kEvaluationSlack
/// Source    derived here
///
/// Derivation, in the letters of bounds.hpp. Each entry of Q, K and V is rounded at most once, q (1 + d) + t with
/// |d| <= u_q and |t| <= t_q (t only below the normal range); likewise each p where it meets V.
///
///   Scores.      |s^_j - s_j| <= eta_j = [(1 + gamma)(1 + u_q)(1 + u_k) - 1] scale sum_i |q_i k_ji|
///                                        + scale d (t_q max|k| + t_k max|q| + t_q t_k),
///                the same gamma as without. It moves numerator and denominator alike.
///   Numerator.   p^_j v_j carries (1 + gamma_{n_j})(1 + u_p)(1 + u_v) - 1 in the place of gamma_{n_j}.
///   Denominator. l is a sum of p^ before that rounding (FlashAttention), or after it: (1 + gamma_{n'_j})(1 + u_p) - 1
///                holds for both.
///   Underflow.   N t_p (max|v_j - o| + |o|), for p normalised or not, and t_v.
///   Output.      O rounded once: B (1 + u_o) + u_o |o| + t_o.
///
/// With the exact form of bounds.hpp nothing of second order is left out. To first order the additions are
/// (u_q + u_k) scale sum |q k| in eta, and u_p (sum p|v| + |o|) + u_v sum p|v| + u_o |o|.
#pragma once

#include "numerics/bounds.hpp"
#include "numerics/formats.hpp"
#include "numerics/score_change.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace fa1::numerics {

/// Relative error of a rounding, and its absolute error below the normal range of the format.
struct Rounding {
  double relative = 0.0, tiny = 0.0;
};

struct LowPrecision {
  Rounding q, k, v, p;
  /// Where it exceeds n_kv: a kernel may go through so many keys, weight 0 given to those that are not in the problem
  /// (a mask forbids them). They add no error of their own, but a tile of them may round the carries.
  std::int64_t keys_visited = 0;
};

/// An arithmetic that a user may declare: `fp32`, `bf16-inputs`.
struct Declared {
  std::string_view id;
  FormatId inputs = FormatId::fp32; ///< of Q, K and V, and of p where it meets V
  bool truncates = false;           ///< the hardware may drop bits instead of rounding to nearest
  std::string_view says;
};

std::span<const Declared> all_declared();
const Declared* find_declared(std::string_view id); ///< or null

/// A rounding to nearest in this format, or one that drops bits. None for fp32: bounds.hpp counts those.
Rounding rounding_of(const Format& format, bool truncates = false);

LowPrecision roundings_of(const Declared& declared, const reference::Problem& problem);

/// `gives_LSE`: LSE leaves the kernel as one fp32 number.
/// `change`: of the scores of one batch-head; its derivation is in score_change.hpp.
Bounds low_precision_bound(const reference::Problem& problem, const LowPrecision& low,
                           bool gives_LSE = false, unsigned threads = 1,
                           const ScoreChange& change = {});

void round_output(Bounds& bounds, const reference::Truth& truth, const Format& format);

} // namespace fa1::numerics
