/// A right kernel, written differently: one correctly rounded reciprocal of l, and products with it.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void reciprocal(const float* Q, const float* K, const float* V, float* O,
                                  float* l, float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long first = 0; first < x.keys; first += Bc) {
      const int columns = columns_of<Bc>(x, first);
      float p[Bc];
      const float m_new = scores_of<D>(x, first, columns, p, *x.m);
      float l_new = expf(*x.m - m_new) * *x.l;
      for (int i = 0; i < D; ++i)
        x.O[i] *= l_new;
      for (int c = 0; c < columns; ++c) {
        p[c] = expf(p[c] - m_new);
        l_new += p[c];
      }
      const float share = 1.0f / l_new;
      for (int i = 0; i < D; ++i) {
        for (int c = 0; c < columns; ++c)
          x.O[i] += p[c] * x.V[(first + c) * D + i];
        x.O[i] *= share;
      }
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
