/// FlashAttention-1's loops with the division put off: O travels unnormalised, and is divided once.
///
/// Computes  O = softmax(scale * Q K^T) V by the recurrence on (m, l, A), A = l O:
///
///               m_new = max(m, max_c s_c)    alpha = exp(m - m_new)    p_c = exp(s_c - m_new)
///               l_new = alpha l + sum_c p_c
///               A_new = alpha A + sum_c p_c v_c        after the last key O = A / l
///
/// Shapes    as fa1.cuh
/// Launch    grid (batch_heads), block (any 1 .. 1024); 4 D (2 Bc + Br) bytes of shared memory
/// Requires  O, l, m hold the carries of the keys before these: O normalised, as every launch
///           leaves it
/// Barriers  2 per (K/V tile, Q tile)
/// Order     as fa1.cuh; alpha l and alpha A are rounded apart and never fused, sums over the tile
///           are made before they meet the carry
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     per key: sums of the tile, one addition a tile, one product a rise of m, one division:
///           numerics/bounds.hpp, Order::at_end. A launch that goes on from carries multiplies O by
///           l first, so each border between launches costs a product and a division more
/// Special   as fa1.cuh
/// Differs   from fa1: one addition and, where m rises, one product per tile where fa1 has product,
///           addition and division; two launches equal one within the bound, not bit for bit
/// Traffic   per batch-head, floats, Tc = ceil(n_kv / Bc): reads K n_kv D, V n_kv D, Q Tc n_q D,
///           O Tc n_q D, l Tc n_q, m Tc n_q; writes O Tc n_q D, l Tc n_q, m Tc n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void fa1_deferred(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                    hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                    long long n_kv, float scale) {
  static_assert(StaticSharedMemory<(2 * Bc + Br) * D * 4>::fits);
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
        const float m_new = max_of(s, columns, m_old);
        const float sum_p = weigh_tile(s, columns, m_new);
        const float alpha = expf(m_old - m_new);
        const float l_new = __fmul_rn(alpha, l_old) + sum_p;
        sum_values(pv, s, columns, Vj);
        for (int i = 0; i < D; ++i) {
          const float carried = O[row * D + i];
          const float A = first ? __fmul_rn(l_old, carried) : carried;
          const float A_new = __fmul_rn(alpha, A) + pv[i];
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
