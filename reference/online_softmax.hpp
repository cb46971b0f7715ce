/// The online normaliser of softmax and its merge: maximum and denominator in one pass.
///
/// Computes  (m, d) with m = max_j s_j and d = sum_j exp(s_j - m), one score at a time or from two
/// halves;
///           online_attention: O, l, m, LSE with the weights exp(s_j - m) / d of a second pass
/// Letters   d is the paper's name of the denominator, l elsewhere in this project
/// Shapes    as in problem.hpp
/// Error     that of plain summation in Number, and one rounding of exp for each new maximum
/// Special   merge is commutative and has the empty state (-Inf, 0) as its neutral element; a score
/// of NaN
///           or +Inf makes d NaN, a score of -Inf adds nothing, so scores that are all -Inf give d
///           = 0 and O = NaN
/// Source    Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3
/// and
///           equation 4
#pragma once

#include "reference/attention.hpp"

namespace fa1::reference {

template <class Number> struct Normaliser {
  Number m = -std::numeric_limits<Number>::infinity();
  Number d = 0;
};

/// The state of two disjoint sets of scores together.
template <class Number>
Normaliser<Number> merge(const Normaliser<Number>& a, const Normaliser<Number>& b) {
  using std::exp;
  const Number nothing = -std::numeric_limits<Number>::infinity();
  if (a.m == nothing && a.d == Number(0)) // exp(-Inf + Inf) would be NaN
    return b;
  if (b.m == nothing && b.d == Number(0))
    return a;
  const Number m = larger(a.m, b.m);
  return {m, a.d * exp(Number(a.m - m)) + b.d * exp(Number(b.m - m))};
}

/// The state after one more score.
template <class Number>
Normaliser<Number> absorb(const Normaliser<Number>& state, const Number& score) {
  const bool adds_nothing = score == -std::numeric_limits<Number>::infinity();
  const bool poisons = !(score < std::numeric_limits<Number>::infinity()); // NaN is not
  if (adds_nothing)
    return state;
  if (poisons)
    return {larger(state.m, score), std::numeric_limits<Number>::quiet_NaN()};
  return merge(state, {score, Number(1)});
}

template <class Number> Answer<Number> online_attention(const Problem& problem) {
  using std::exp;
  using std::log;
  const Shape& shape = problem.shape;
  Answer<Number> answer = empty_answer<Number>(shape);
  if (shape.n_kv == 0)
    return answer;

  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const auto score = [&](std::int64_t j) {
        Number sum = 0;
        for (std::int64_t i = 0; i < shape.d; ++i)
          sum += Number(problem.K(bh, j, i)) * Number(problem.Q(bh, r, i));
        return Number(sum * Number(problem.scale));
      };
      Normaliser<Number> state;
      for (std::int64_t j = 0; j < shape.n_kv; ++j)
        state = absorb(state, score(j));

      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        const Number p = exp(Number(score(j) - state.m)) / state.d;
        for (std::int64_t c = 0; c < shape.dv; ++c)
          answer.O(bh, r, c) += p * Number(problem.V(bh, j, c));
      }
      const auto row = static_cast<std::size_t>(bh * shape.n_q + r);
      answer.l[row] = state.d;
      answer.m[row] = state.m;
      answer.LSE[row] = state.m + log(state.d);
    }
  return answer;
}

} // namespace fa1::reference
