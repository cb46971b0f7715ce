/// A right kernel, written differently: exponentials to base 2, the factor log2 e folded into the scale.
#pragma once

#include "kernels/rewrites/row.cuh"

namespace fa1::kernels::rewrites {

template <int Br, int Bc, int D>
static __global__ void base_two(const float* Q, const float* K, const float* V, float* O, float* l,
                                float* m, long long n_q, long long n_kv, float scale) {
  for_each_row<D>(Q, K, V, O, l, m, n_q, n_kv, scale, [](const Row& x) {
    constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147182f;
    const float scale2 = x.scale * kLog2E;
    const float m_old = *x.m * kLog2E;
    float m_new = m_old;
    const auto score2 = [&](long long j) {
      float s = 0.0f;
      for (int i = 0; i < D; ++i)
        s += x.q[i] * x.K[j * D + i];
      return __fmul_rn(s, scale2);
    };
    for (long long j = 0; j < x.keys; ++j)
      m_new = fmaxf(m_new, score2(j));
    const float carried = __fmul_rn(exp2f(m_old - m_new), *x.l);
    float l_new = carried;
    float sum[D];
    for (int i = 0; i < D; ++i)
      sum[i] = carried * x.O[i];
    for (long long j = 0; j < x.keys; ++j) {
      const float p = exp2f(score2(j) - m_new);
      l_new += p;
      for (int i = 0; i < D; ++i)
        sum[i] += p * x.V[j * D + i];
    }
    for (int i = 0; i < D; ++i)
      x.O[i] = sum[i] / l_new;
    *x.l = l_new;
    *x.m = m_new * kLn2;
  });
}

} // namespace fa1::kernels::rewrites
