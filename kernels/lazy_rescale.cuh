/// fa1_deferred.cuh with a lazy maximum: what has been summed is rescaled only when the maximum has
/// grown by more than 8 in base-2 units.
///
/// Computes  O = softmax(scale * Q K^T) V by the recurrence on (m, l, A), A = l O:
///
///               M = max(m, max_c s_c)        m_new = M where M - m > 8 ln 2, else m
///               p_c = exp(s_c - m_new)       alpha = exp(m - m_new), 1 where m stays
///               l_new = alpha l + sum_c p_c  A_new = alpha A + sum_c p_c v_c
///
///           after the last key O = A / l
/// Shapes    as fa1.cuh; m is what was subtracted, at most 8 ln 2 below the maximum, and l the sum
///           at it
/// Launch    as fa1_deferred.cuh
/// Requires  as fa1_deferred.cuh
/// Barriers  2 per (K/V tile, Q tile)
/// Order     as fa1_deferred.cuh; where m stays there is no product at all
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     numerics/bounds.hpp, Order::lagging: fewer products, arguments of the exponentials up
///           to 8 ln 2 above 0, weights up to 2^8. So n_kv max|v| 2^8 must stay below FLT_MAX
/// Special   as fa1.cuh
/// Differs   from fa1_deferred: m is not the maximum, p may exceed 1, l may exceed the number of
///           keys; m + ln l is the LSE all the same
/// Traffic   per batch-head, floats, Tc = ceil(n_kv / Bc): reads K n_kv D, V n_kv D, Q Tc n_q D,
///           O Tc n_q D, l Tc n_q, m Tc n_q; writes O Tc n_q D, l Tc n_q, m Tc n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void lazy_rescale(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                    hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                    long long n_kv, float scale) {
  static_assert(StaticSharedMemory<(2 * Bc + Br) * D * 4>::fits);
  constexpr float kLag = 0x1.62e43p+2f; // 8 ln 2
  FA1_SHARED(float, Kj, [D][Bc]);
  FA1_SHARED(float, Vj, [Bc][D]);
  FA1_SHARED(float, Qi, [Br][D]);

  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

  for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
    const int columns = columns_from<Bc>(key0, n_kv);
    const bool first = key0 == 0, last = key0 + Bc >= n_kv;
    load_keys(Kj, K, key0, n_kv);
    load_values(Vj, V, key0, n_kv);

    for (long long row0 = 0; row0 < n_q; row0 += Br) {
      const int rows = load_queries(Qi, Q, row0, n_q);
      __syncthreads(); // the tiles are complete

      for (int r = thread; r < rows; r += threads) {
        const long long row = row0 + r;
        const float m_old = m[row];
        const float l_old = l[row];
        float s[Bc], pv[D];
        score_tile(s, Qi[r], Kj, scale);
        const float max_s = max_of(s, columns, m_old);
        const bool rescales = max_s - m_old > kLag;
        const float m_new = rescales ? max_s : m_old;
        const float sum_p = weigh_tile(s, columns, m_new);
        const float alpha = expf(m_old - m_new);
        const float l_new = (rescales ? __fmul_rn(alpha, l_old) : l_old) + sum_p;
        sum_values(pv, s, columns, Vj);
        for (int i = 0; i < D; ++i) {
          const float carried = O[row * D + i];
          const float A = first ? __fmul_rn(l_old, carried) : carried;
          const float A_new = (rescales ? __fmul_rn(alpha, A) : A) + pv[i];
          O[row * D + i] = last ? A_new / l_new : A_new;
        }
        l[row] = l_new;
        m[row] = m_new;
      }
      __syncthreads(); // nobody reads the tiles any more
    }
  }
}

} // namespace fa1::kernels
