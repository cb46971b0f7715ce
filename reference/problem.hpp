/// An attention problem, the carries of the FA1 recurrence, and the exact answer.
///
/// Computes  nothing; these are the types that everything passes around.
/// Letters   s_j = scale * sum_i q_i k_ji     M = max_j s_j     L = sum_j exp(s_j - M)
///           o = sum_j exp(s_j - M) v_j / L   LSE = M + ln L (natural logarithm)
/// Shapes    Q [batch_heads][n_q][d]   K [batch_heads][n_kv][d]   V [batch_heads][n_kv][dv]
///           O [batch_heads][n_q][dv]  l, m, LSE [batch_heads][n_q]
/// Special   n_kv = 0: O = 0, l = 0, m = LSE = -inf.  n_q = 0 or batch_heads = 0: empty answer.
///           d = 0: every score is 0.  The fp32 scale is taken exactly, never as 1/sqrt(d) again.
#pragma once

#include "reference/tensor.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace fa1::reference {

struct Shape {
  std::int64_t batch_heads = 1;
  std::int64_t n_q = 1;
  std::int64_t n_kv = 1;
  std::int64_t d = 1;  ///< columns of Q and K
  std::int64_t dv = 1; ///< columns of V and O

  bool operator==(const Shape&) const = default;
};

struct Problem {
  Shape shape;
  float scale = 1.0f;
  Tensor<float> Q; ///< [batch_heads][n_q][d]
  Tensor<float> K; ///< [batch_heads][n_kv][d]
  Tensor<float> V; ///< [batch_heads][n_kv][dv]
};

/// The carries of the recurrence after some tiles; after the last tile O is the output.
struct State {
  Tensor<float> O;      ///< [batch_heads][n_q][dv], normalised
  std::vector<float> l; ///< [batch_heads * n_q], sum of exp(s - m)
  std::vector<float> m; ///< [batch_heads * n_q], running maximum of the scores
};

/// The carries before any key: O = 0, l = 0, m = -inf.
inline State start_state(const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  return {Tensor<float>(shape.batch_heads, shape.n_q, shape.dv), std::vector<float>(rows, 0.0f),
          std::vector<float>(rows, -std::numeric_limits<float>::infinity())};
}

/// An unevaluated sum hi + lo of two doubles (|lo| <= ulp(hi)/2 when finite) and the proven
/// distance `radius` to the exact value. NaN and Inf live in hi, with lo = 0 and radius = 0.
struct Enclosed {
  double hi = 0.0;
  double lo = 0.0;
  double radius = 0.0;
};

/// The exact answer. Every element carries its own radius.
struct Truth {
  Tensor<Enclosed> O;        ///< [batch_heads][n_q][dv]
  std::vector<Enclosed> l;   ///< [batch_heads * n_q], relative to the exact maximum m
  std::vector<Enclosed> m;   ///< [batch_heads * n_q]
  std::vector<Enclosed> LSE; ///< [batch_heads * n_q]
  std::string method;        ///< the arithmetic that made it, for the record
};

/// The same queries against keys [first, first + count) only.
inline Problem slice_keys(const Problem& problem, std::int64_t first, std::int64_t count) {
  const Shape& full = problem.shape;
  Problem part{full, problem.scale, problem.Q, Tensor<float>(full.batch_heads, count, full.d),
               Tensor<float>(full.batch_heads, count, full.dv)};
  part.shape.n_kv = count;
  for (std::int64_t bh = 0; bh < full.batch_heads; ++bh)
    for (std::int64_t j = 0; j < count; ++j) {
      for (std::int64_t i = 0; i < full.d; ++i)
        part.K(bh, j, i) = problem.K(bh, first + j, i);
      for (std::int64_t c = 0; c < full.dv; ++c)
        part.V(bh, j, c) = problem.V(bh, first + j, c);
    }
  return part;
}

} // namespace fa1::reference
