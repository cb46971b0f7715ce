/// A right kernel, written differently: every a*b+c is a fused multiply-add.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void fused(const float* Q, const float* K, const float* V, float* O, float* l,
                             float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long first = 0; first < x.keys; first += Bc) {
      const int columns = columns_of<Bc>(x, first);
      float s[Bc];
      float m_new = *x.m;
      for (int c = 0; c < columns; ++c) {
        float dot = 0.0f;
        for (int i = 0; i < D; ++i)
          dot = fmaf(x.q[i], x.K[(first + c) * D + i], dot);
        s[c] = __fmul_rn(dot, x.scale);
        m_new = fmaxf(m_new, s[c]);
      }
      const float alpha = expf(*x.m - m_new);
      float pv[D] = {};
      float sum_p = 0.0f;
      for (int c = 0; c < columns; ++c) {
        const float p = expf(s[c] - m_new);
        sum_p += p;
        for (int i = 0; i < D; ++i)
          pv[i] = fmaf(p, x.V[(first + c) * D + i], pv[i]);
      }
      const float l_new = fmaf(alpha, *x.l, sum_p);
      for (int i = 0; i < D; ++i)
        x.O[i] = fmaf(alpha * *x.l, x.O[i], pv[i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
