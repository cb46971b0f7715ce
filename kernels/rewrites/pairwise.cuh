/// A right kernel, written differently: the sums over a tile of 8 keys are taken in pairs.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void pairwise(const float* Q, const float* K, const float* V, float* O, float* l,
                                float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    constexpr int kTile = 8;
    for (long long first = 0; first < x.keys; first += kTile) {
      const int columns = columns_of<kTile>(x, first);
      float p[kTile] = {};
      float pv[kTile][D] = {};
      const float m_new = scores_of<D>(x, first, columns, p, *x.m);
      for (int c = 0; c < columns; ++c) {
        p[c] = expf(p[c] - m_new);
        for (int i = 0; i < D; ++i)
          pv[c][i] = p[c] * x.V[(first + c) * D + i];
      }
      for (int half = kTile / 2; half > 0; half /= 2)
        for (int c = 0; c < half; ++c) {
          p[c] += p[c + half];
          for (int i = 0; i < D; ++i)
            pv[c][i] += pv[c + half][i];
        }
      const float carried = __fmul_rn(expf(*x.m - m_new), *x.l);
      const float l_new = carried + p[0];
      for (int i = 0; i < D; ++i)
        x.O[i] = (carried * x.O[i] + pv[0][i]) / l_new;
      *x.l = l_new;
      *x.m = m_new;
    }
  });
}

} // namespace fa1::kernels::rewrites
