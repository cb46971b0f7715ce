/// The truth: exact attention of the fp32 inputs, every element with a proven radius.
///
/// Computes  O, l, m, LSE of problem.hpp for any input: scores and their maximum, then weights and
///           sums, all in double-double on the widest vector unit of the machine. certify_scores
///           takes the scores as the contract computes them in fp32 (dot products in order from
///           0.0f, not fused, then times scale) and is exact from there: the truth for the
///           recurrence alone, where scores carry no digit
/// Shapes    as in problem.hpp; n_kv = 0 and n_q = 0 as defined there
/// Error     |hi + lo - exact| <= radius for every element, rounding, exponential and underflow
///           included; derived in CERTIFIED.md. The radius of O is below 2^-85 sum_j p_j |v_j| for
///           normal data and d = 64; about (2^-92 + 4 d^2 2^-106 |scale| |q| max|k|) times that sum
///           in general. Rows where this exceeds about 2^-39 (scores beyond 2^50) are done in MPFR
///           from exact scores, with a radius of about 2^-105 |o|, slowly, and `method` says so
/// Special   a NaN in q or k, or a score of NaN or +Inf, or every score -Inf: O, l and LSE of that
///           row are NaN; a NaN or Inf in column c of V: column c NaN (0 * Inf counts as NaN, 0
///           being the weight of a score of -Inf; an Inf of weight > 0 and no NaN gives that Inf);
///           m is the maximum of the scores that are not NaN. Nothing finite overflows: products
///           of floats are below 2^256, scores below 2^400, and they are held in double
/// Chunks    Certifier takes the keys chunk by chunk, any number of them: memory does not grow with
///           their number. Each chunk adds at most 2^-93 to the relative part of the radius
/// Memory    at most 8 MiB and 2 KiB a column per thread, and one byte a key of the chunk
#pragma once

#include "reference/problem.hpp"

#include <memory>

namespace fa1::reference {

/// Same bits for any number of threads and any vector unit.
Truth certify(const Problem& problem, unsigned threads = 1);

/// The same for the exact softmax of the fp32 scores; m is exact.
Truth certify_scores(const Problem& problem, unsigned threads = 1);

namespace simd {
struct Unit;
}

/// The truth of a problem whose keys come in chunks: problems with the same queries and scale, each
/// with its part of the keys. One chunk gives the bits of certify(); several give other bits and a
/// radius of their own.
class Certifier {
public:
  /// Of `shape`, the number of keys plays no part.
  explicit Certifier(const Shape& shape, bool given_scores = false);
  Certifier(const simd::Unit& unit, const Shape& shape, bool given_scores);
  ~Certifier();

  void absorb(const Problem& chunk, unsigned threads = 1);

  /// Of all keys so far.
  Truth truth() const;

private:
  struct Progress;
  std::unique_ptr<Progress> progress_;
};

} // namespace fa1::reference
