/// A right kernel, written differently: O is carried without its division, which comes once at the end.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void deferred_division(const float* Q, const float* K, const float* V, float* O,
                                         float* l, float* m, long long n_q, long long n_kv,
                                         float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    float sum[D];
    for (int i = 0; i < D; ++i)
      sum[i] = *x.l * x.O[i];
    for (long long first = 0; first < x.keys; first += Bc) {
      const int columns = columns_of<Bc>(x, first);
      float p[Bc];
      const float m_new = scores_of<D>(x, first, columns, p, *x.m);
      const float alpha = expf(*x.m - m_new);
      float l_new = alpha * *x.l;
      for (int i = 0; i < D; ++i)
        sum[i] *= alpha;
      for (int c = 0; c < columns; ++c) {
        p[c] = expf(p[c] - m_new);
        l_new += p[c];
        for (int i = 0; i < D; ++i)
          sum[i] += p[c] * x.V[(first + c) * D + i];
      }
      *x.l = l_new;
      *x.m = m_new;
    }
    for (int i = 0; i < D; ++i)
      x.O[i] = sum[i] / *x.l;
  });
}

} // namespace fa1::kernels::rewrites
