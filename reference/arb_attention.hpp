/// Attention from its definition in Arb's balls: a judge of the certified truth that owes nothing
/// to MPFR's intervals, and the fastest reference with a radius besides it.
///
/// Computes  O, l, m, LSE as in problem.hpp; every ball contains the exact value
/// Shapes    as in problem.hpp
/// Requires  finite inputs, bits >= 2
/// Error     the balls' own radii: about 2^-bits for each operation, relative to what it adds up
/// Special   n_kv = 0 as in problem.hpp; d = 0: every score is 0
/// Source    the definition; Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius
///           interval arithmetic" (arb_dot: Johansson 2019)
#pragma once

#include "reference/problem.hpp"

#include <arb.h>

#include <cstdint>
#include <memory>

namespace fa1::reference {

/// So many balls in a row, 0 at first, freed at the end.
class Balls {
public:
  explicit Balls(std::int64_t count) : first_(_arb_vec_init(count), Free{count}) {}

  arb_ptr operator[](std::int64_t at) const { return first_.get() + at; }

private:
  struct Free {
    std::int64_t count;
    void operator()(arb_ptr first) const { _arb_vec_clear(first, count); }
  };
  std::unique_ptr<arb_struct, Free> first_;
};

/// One of them.
class Ball {
public:
  Ball() { arb_init(value_); }
  ~Ball() { arb_clear(value_); }
  Ball(const Ball&) = delete;
  Ball& operator=(const Ball&) = delete;
  operator arb_ptr() { return value_; }
  operator arb_srcptr() const { return value_; }

private:
  arb_t value_;
};

struct BallAnswer {
  Balls O;         ///< [batch_heads * n_q * dv], row-major
  Balls l, m, LSE; ///< [batch_heads * n_q]
};

inline BallAnswer arb_attention(const Problem& problem, slong bits) {
  const Shape& shape = problem.shape;
  const std::int64_t n = shape.n_kv, d = shape.d, dv = shape.dv;
  const std::int64_t rows = shape.batch_heads * shape.n_q;
  BallAnswer answer{Balls(rows * dv), Balls(rows), Balls(rows), Balls(rows)};
  if (n == 0) {
    for (std::int64_t row = 0; row < rows; ++row) {
      arb_neg_inf(answer.m[row]);
      arb_neg_inf(answer.LSE[row]);
    }
    return answer;
  }

  const Balls q(d), k(n * d), v(dv * n), s(n); // v holds V's columns, each in one piece
  Ball scale;
  arb_set_d(scale, static_cast<double>(problem.scale));
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < d; ++i)
        arb_set_d(k[j * d + i], static_cast<double>(problem.K(bh, j, i)));
      for (std::int64_t c = 0; c < dv; ++c)
        arb_set_d(v[c * n + j], static_cast<double>(problem.V(bh, j, c)));
    }
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const std::int64_t row = bh * shape.n_q + r;
      arb_struct *const M = answer.m[row], *const L = answer.l[row], *const LSE = answer.LSE[row];
      for (std::int64_t i = 0; i < d; ++i)
        arb_set_d(q[i], static_cast<double>(problem.Q(bh, r, i)));
      for (std::int64_t j = 0; j < n; ++j) {
        arb_dot(s[j], nullptr, 0, q[0], 1, k[j * d], 1, d, bits);
        arb_mul(s[j], s[j], scale, bits);
        if (j == 0)
          arb_set(M, s[j]);
        else
          arb_max(M, M, s[j], bits);
      }
      for (std::int64_t j = 0; j < n; ++j) {
        arb_sub(s[j], s[j], M, bits);
        arb_exp(s[j], s[j], bits);
        arb_add(L, L, s[j], bits);
      }
      arb_log(LSE, L, bits);
      arb_add(LSE, LSE, M, bits);
      for (std::int64_t c = 0; c < dv; ++c) {
        arb_struct* const O = answer.O[row * dv + c];
        arb_dot(O, nullptr, 0, s[0], 1, v[c * n], 1, n, bits);
        arb_div(O, O, L, bits);
      }
    }
  }
  return answer;
}

} // namespace fa1::reference
