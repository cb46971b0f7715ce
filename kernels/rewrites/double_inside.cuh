/// A right kernel, written differently: everything between loading and storing is double.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void double_inside(const float* Q, const float* K, const float* V, float* O,
                                     float* l, float* m, long long n_q, long long n_kv,
                                     float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    const auto exact_score = [&](long long j) {
      double s = 0.0;
      for (int i = 0; i < D; ++i)
        s += static_cast<double>(x.q[i]) * static_cast<double>(x.K[j * D + i]);
      return s * static_cast<double>(x.scale);
    };
    const float m_old = *x.m;
    float m_new = m_old; // l is kept at the rounded maximum
    for (long long j = 0; j < x.keys; ++j)
      m_new = fmaxf(m_new, static_cast<float>(exact_score(j)));
    double l_new =
        exp(static_cast<double>(m_old) - static_cast<double>(m_new)) * static_cast<double>(*x.l);
    double sum[D];
    for (int i = 0; i < D; ++i)
      sum[i] = l_new * static_cast<double>(x.O[i]);
    for (long long j = 0; j < x.keys; ++j) {
      const double p = exp(exact_score(j) - static_cast<double>(m_new));
      l_new += p;
      for (int i = 0; i < D; ++i)
        sum[i] += p * static_cast<double>(x.V[j * D + i]);
    }
    for (int i = 0; i < D; ++i)
      x.O[i] = static_cast<float>(sum[i] / l_new);
    *x.l = static_cast<float>(l_new);
    *x.m = m_new;
  });
}

} // namespace fa1::kernels::rewrites
