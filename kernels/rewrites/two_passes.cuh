/// A right kernel, written differently: one pass for the maximum, one for the sums.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void two_passes(const float* Q, const float* K, const float* V, float* O,
                                  float* l, float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    const float m_old = *x.m;
    float m_new = m_old;
    for (long long j = 0; j < x.keys; ++j)
      m_new = fmaxf(m_new, score<D>(x, j));
    const float carried = expf(m_old - m_new) * *x.l;
    float l_new = 0.0f;
    float sum[D] = {};
    for (long long j = 0; j < x.keys; ++j) {
      const float p = expf(score<D>(x, j) - m_new);
      l_new += p;
      for (int i = 0; i < D; ++i)
        sum[i] += p * x.V[j * D + i];
    }
    l_new += carried;
    for (int i = 0; i < D; ++i)
      x.O[i] = (sum[i] + carried * x.O[i]) / l_new;
    *x.l = l_new;
    *x.m = m_new;
  });
}

} // namespace fa1::kernels::rewrites
