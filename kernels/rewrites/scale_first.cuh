/// A right kernel, written differently: the scale is applied to the query, before the dot product.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void scale_first(const float* Q, const float* K, const float* V, float* O,
                                   float* l, float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    float q[D];
    for (int i = 0; i < D; ++i)
      q[i] = x.q[i] * x.scale;
    for (long long j = 0; j < x.keys; ++j) {
      float s = 0.0f;
      for (int i = 0; i < D; ++i)
        s += q[i] * x.K[j * D + i];
      const float m_new = fmaxf(*x.m, s);
      const float carried = expf(*x.m - m_new) * *x.l, p = expf(s - m_new);
      const float l_new = carried + p;
      for (int i = 0; i < D; ++i)
        x.O[i] = (carried * x.O[i] + p * x.V[j * D + i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
