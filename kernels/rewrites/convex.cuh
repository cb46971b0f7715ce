/// A right kernel, written differently: O moves towards each value by the key's share of l.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void convex(const float* Q, const float* K, const float* V, float* O, float* l,
                              float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long j = 0; j < x.keys; ++j) {
      const float s = score<D>(x, j);
      const float m_new = fmaxf(*x.m, s);
      const float p = expf(s - m_new);
      const float l_new = expf(*x.m - m_new) * *x.l + p;
      const float share = p / l_new;
      for (int i = 0; i < D; ++i)
        x.O[i] += share * (x.V[j * D + i] - x.O[i]);
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
