/// The truth: exact attention of the fp32 inputs, every element with a proven radius.
///
/// Computes  O, l, m, LSE of problem.hpp for any input, in three passes over the keys: scores and
/// their
///           maximum, weights, sums. Scores and sums carry 80 bits and more, exponentials 64
/// Shapes    as in problem.hpp; n_kv = 0 and n_q = 0 as defined there
/// Error     |hi + lo - exact| <= radius for every element, rounding, exponential and underflow
///           included. The radius of O is about 2^-64 * (sum_j p_j |v_j| (5 + M - s_j) + |o| (5 +
///           ln n)), below 2^-58 sum_j p_j |v_j| in all but contrived cases. Rows whose scores may
///           exceed about 2^44 are done in MPFR from exact scores, with a radius of about 2^-105
///           |o|, and slowly
/// Special   a NaN in q or k, or a score of NaN or +Inf, or every score -Inf: O, l and LSE of that
/// row are
///           NaN; a NaN or Inf in column c of V: column c NaN (0 * Inf counts as NaN, 0 being the
///           weight of a score of -Inf; an Inf of weight > 0 and no NaN gives that Inf); m is the
///           maximum of the scores that are not NaN
/// Memory    16 bytes a key and thread for long rows (n_kv > 2^18), 64 below
/// Source    the definition; error analysis in certified.cpp
#pragma once

#include "reference/problem.hpp"

namespace fa1::reference {

/// Same bits for any number of threads.
Truth certify(const Problem& problem, unsigned threads = 1);

} // namespace fa1::reference
