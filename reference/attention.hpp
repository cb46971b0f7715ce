/// Attention from its definition, in any number type: what the fast references are measured
/// against.
///
/// Computes  O = softmax(scale * Q K^T) V row by row, the maximum M subtracted from every score
/// Shapes    as in problem.hpp
/// Types     double; boost float128, cpp_bin_float_50, cpp_bin_float_100, mpfr_float_50; MPFI
/// intervals
///           (then every element of the answer contains the exact value). Multiprecision types
///           without expression templates: `auto` below must be a number
/// Error     that of plain summation: about (d + n_kv) units in the last place of Number times
///           scale * sum_i |q_i k_i|. Intervals: the width of the answer, which is proven
/// Special   follows from IEEE arithmetic: a score of NaN or +Inf, or every score -Inf, makes O and
/// l of
///           its row NaN; m is the maximum of the scores that are not NaN. An Inf in V under a
///           weight that underflows in Number gives NaN. Intervals want finite inputs. n_kv = 0 as
///           in problem.hpp
/// Source    the definition
#pragma once

#include "reference/problem.hpp"

#include <boost/multiprecision/mpfi.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace fa1::reference {

/// MPFI interval of that many decimal digits, rounded outwards.
template <unsigned Digits>
using Interval = boost::multiprecision::number<boost::multiprecision::mpfi_float_backend<Digits>,
                                               boost::multiprecision::et_off>;

template <class Number> inline constexpr bool is_interval = false;
template <unsigned Digits> inline constexpr bool is_interval<Interval<Digits>> = true;

template <class Number> struct Answer {
  Tensor<Number> O;              ///< [batch_heads][n_q][dv]
  std::vector<Number> l, m, LSE; ///< [batch_heads * n_q]
};

/// The answer to no keys at all.
template <class Number> Answer<Number> empty_answer(const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  const Number lowest = -std::numeric_limits<Number>::infinity();
  return {Tensor<Number>(shape.batch_heads, shape.n_q, shape.dv),
          std::vector<Number>(rows, Number(0)), std::vector<Number>(rows, lowest),
          std::vector<Number>(rows, lowest)};
}

/// The larger of the two; the first where the second is NaN. Intervals may overlap, and their
/// maximum reaches from the larger lower end to the larger upper end.
template <class Number> Number larger(const Number& a, const Number& b) {
  if constexpr (is_interval<Number>) {
    const auto low = lower(b) > lower(a) ? lower(b) : lower(a);
    const auto high = upper(b) > upper(a) ? upper(b) : upper(a);
    return Number(low, high);
  } else {
    return b > a ? b : a;
  }
}

template <class Number> Answer<Number> attention(const Problem& problem) {
  using std::exp;
  using std::log;
  const Shape& shape = problem.shape;
  Answer<Number> answer = empty_answer<Number>(shape);
  if (shape.n_kv == 0)
    return answer;

  std::vector<Number> s(static_cast<std::size_t>(shape.n_kv));
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const auto row = static_cast<std::size_t>(bh * shape.n_q + r);
      Number& M = answer.m[row];
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        Number dot = 0;
        for (std::int64_t i = 0; i < shape.d; ++i)
          dot += Number(problem.Q(bh, r, i)) * Number(problem.K(bh, j, i));
        Number& score = s[static_cast<std::size_t>(j)];
        score = Number(problem.scale) * dot;
        M = larger(M, score);
      }

      Number& L = answer.l[row];
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        Number& weight = s[static_cast<std::size_t>(j)];
        weight = exp(Number(weight - M));
        L += weight;
        for (std::int64_t c = 0; c < shape.dv; ++c)
          answer.O(bh, r, c) += weight * Number(problem.V(bh, j, c));
      }
      for (Number& o : answer.O.row(bh, r))
        o /= L;
      answer.LSE[row] = M + log(L);
    }
  return answer;
}

} // namespace fa1::reference
