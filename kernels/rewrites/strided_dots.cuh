/// A right kernel, written differently: dot products in four interleaved sums, as a vector unit takes them.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void strided_dots(const float* Q, const float* K, const float* V, float* O,
                                    float* l, float* m, long long n_q, long long n_kv,
                                    float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long j = 0; j < x.keys; ++j) {
      float part[4] = {};
      for (int i = 0; i < D; ++i)
        part[i % 4] = fmaf(x.q[i], x.K[j * D + i], part[i % 4]);
      const float s = __fmul_rn((part[0] + part[2]) + (part[1] + part[3]), x.scale);
      const float m_new = fmaxf(*x.m, s);
      const float carried = expf(*x.m - m_new) * *x.l, p = expf(s - m_new);
      const float l_new = carried + p;
      for (int i = 0; i < D; ++i)
        x.O[i] = fmaf(carried, x.O[i], p * x.V[j * D + i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
