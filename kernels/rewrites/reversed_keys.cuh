/// A right kernel, written differently: the keys of a launch are met one by one, last first.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void reversed_keys(const float* Q, const float* K, const float* V, float* O,
                                     float* l, float* m, long long n_q, long long n_kv,
                                     float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long j = x.keys; j-- > 0;) {
      const float s = score<D>(x, j);
      const float m_new = fmaxf(*x.m, s);
      const float carried = expf(*x.m - m_new) * *x.l, p = expf(s - m_new);
      const float l_new = p + carried;
      for (int i = 0; i < D; ++i)
        x.O[i] = (p * x.V[j * D + i] + carried * x.O[i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
