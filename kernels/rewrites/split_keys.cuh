/// A right kernel, written differently: the keys are halved, each half is summed on its own, and the states are merged.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void split_keys(const float* Q, const float* K, const float* V, float* O,
                                  float* l, float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    float m_part[3] = {*x.m, -FA1_INFINITY, -FA1_INFINITY};
    float l_part[3] = {*x.l, 0.0f, 0.0f};
    float sum[3][D] = {};
    for (int i = 0; i < D; ++i)
      sum[0][i] = *x.l * x.O[i];
    const auto part_of = [&](long long j) { return j < x.keys / 2 ? 1 : 2; };
    for (long long j = 0; j < x.keys; ++j)
      m_part[part_of(j)] = fmaxf(m_part[part_of(j)], score<D>(x, j));
    for (long long j = 0; j < x.keys; ++j) {
      const int part = part_of(j);
      const float p = expf(score<D>(x, j) - m_part[part]);
      l_part[part] += p;
      for (int i = 0; i < D; ++i)
        sum[part][i] += p * x.V[j * D + i];
    }
    const float m_new = fmaxf(m_part[0], fmaxf(m_part[1], m_part[2]));
    float l_new = 0.0f;
    float O_new[D] = {};
    for (int part = 0; part < 3; ++part) {
      const float alpha = expf(m_part[part] - m_new);
      l_new += alpha * l_part[part];
      for (int i = 0; i < D; ++i)
        O_new[i] += alpha * sum[part][i];
    }
    for (int i = 0; i < D; ++i)
      x.O[i] = O_new[i] / l_new;
    *x.l = l_new;
    *x.m = m_new;
  });
}

} // namespace fa1::kernels::rewrites
