/// A right kernel, written differently: p is formed against the tile's own maximum and corrected afterwards, as the paper prints it.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void tile_max_first(const float* Q, const float* K, const float* V, float* O,
                                      float* l, float* m, long long n_q, long long n_kv,
                                      float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    for (long long first = 0; first < x.keys; first += Bc) {
      const int columns = columns_of<Bc>(x, first);
      float p[Bc];
      const float m_tile = scores_of<D>(x, first, columns, p, -FA1_INFINITY);
      float pv[D] = {};
      float sum_p = 0.0f;
      for (int c = 0; c < columns; ++c) {
        p[c] = expf(p[c] - m_tile);
        sum_p += p[c];
        for (int i = 0; i < D; ++i)
          pv[i] += p[c] * x.V[(first + c) * D + i];
      }
      const float m_new = fmaxf(*x.m, m_tile);
      const float carried = expf(*x.m - m_new) * *x.l, beta = expf(m_tile - m_new);
      const float l_new = carried + beta * sum_p;
      for (int i = 0; i < D; ++i)
        x.O[i] = (carried * x.O[i] + beta * pv[i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
