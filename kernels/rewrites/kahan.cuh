/// A right kernel, written differently: two passes, with compensated sums.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void kahan(const float* Q, const float* K, const float* V, float* O, float* l,
                             float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    const float m_old = *x.m;
    float m_new = m_old;
    for (long long j = 0; j < x.keys; ++j)
      m_new = fmaxf(m_new, score<D>(x, j));
    const float carried = __fmul_rn(expf(m_old - m_new), *x.l);
    float sum[D + 1], lost[D + 1] = {}; // l last
    for (int i = 0; i < D; ++i)
      sum[i] = carried * x.O[i];
    sum[D] = carried;
    for (long long j = 0; j < x.keys; ++j) {
      const float p = expf(score<D>(x, j) - m_new);
      for (int i = 0; i <= D; ++i) {
        const float term = (i < D ? p * x.V[j * D + i] : p) - lost[i];
        const float next = sum[i] + term;
        lost[i] = (next - sum[i]) - term;
        sum[i] = next;
      }
    }
    for (int i = 0; i < D; ++i)
      x.O[i] = sum[i] / sum[D];
    *x.l = sum[D];
    *x.m = m_new;
  });
}

} // namespace fa1::kernels::rewrites
