/// The recurrence one key at a time, as it is derived before there are tiles.
///
/// Computes  O = softmax(scale * Q K^T) V; for each key
///
///               m_new = max(m, s)    alpha = exp(m - m_new)    p = exp(s - m_new)
///               l_new = alpha l + p          O_new = (alpha l O + p v) / l_new
///
/// Shapes    as fa1.cuh
/// Launch    grid (batch_heads), block (any 1 .. 1024; n_q threads keep every thread busy); no
///           shared memory. Br is a number of threads and nothing else; Bc is 1
/// Requires  O, l, m hold the carries of the keys before these
/// Barriers  none
/// Order     fa1.cuh with Bc = 1, bit for bit where neither side is fused
/// Ragged    rows past n_q and keys past n_kv are never read or written
/// Error     numerics/bounds.hpp, Order::every_tile with tiles of one key
/// Special   as fa1.cuh with Bc = 1: a first score of -Inf makes the row NaN for ever
/// Differs   from fa1: no tiles, so every query row fetches every key and value
/// Traffic   per batch-head, floats: reads K n_q n_kv D, V n_q n_kv D, Q n_q D, O n_q D, l n_q, m
///           n_q; writes O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void fa1_element(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                   hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                   long long n_kv, float scale) {
  static_assert(Bc == 1, "one key at a time");
  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;

  for (long long row = threadIdx.x; row < n_q; row += blockDim.x) {
    float q[D], o[D];
    for (int i = 0; i < D; ++i) {
      q[i] = Q[row * D + i];
      o[i] = O[row * D + i];
    }
    float l_old = l[row], m_old = m[row];

    for (long long j = 0; j < n_kv; ++j) {
      float s = 0.0f;
      for (int i = 0; i < D; ++i)
        s += q[i] * K[j * D + i];
      s = __fmul_rn(s, scale);

      const float m_new = fmaxf(m_old, s);
      const float p = expf(s - m_new);
      const float carried = __fmul_rn(expf(m_old - m_new), l_old);
      const float l_new = carried + p;
      for (int i = 0; i < D; ++i) {
        const float pv = 0.0f + __fmul_rn(p, V[j * D + i]); // a sum of one, as fa1 begins each
        o[i] = (carried * o[i] + pv) / l_new;
      }
      l_old = l_new;
      m_old = m_new;
    }

    for (int i = 0; i < D; ++i)
      O[row * D + i] = o[i];
    l[row] = l_old;
    m[row] = m_old;
  }
}

} // namespace fa1::kernels
