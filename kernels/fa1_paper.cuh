/// FlashAttention-1 forward as Algorithm 1 of the paper prints it: weights against the tile's own
/// maximum, corrected afterwards.
///
/// Computes  O = softmax(scale * Q K^T) V by the recurrence
///
///               m_t = max_c s_c    p_c = exp(s_c - m_t)    l_t = sum_c p_c
///               m_new = max(m, m_t)    alpha = exp(m - m_new)    beta = exp(m_t - m_new)
///               l_new = alpha l + beta l_t
///               O_new = (alpha l O + beta sum_c p_c v_c) / l_new
///
/// Shapes    as fa1.cuh
/// Launch    as fa1.cuh
/// Requires  O, l, m hold the carries of the keys before these
/// Barriers  2 per (K/V tile, Q tile)
/// Order     as fa1.cuh; alpha l, beta l_t and beta sum p v are rounded products, never fused
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     one exponential and one product more per key than fa1: numerics/bounds.hpp,
///           Order::tile_maximum
/// Special   a tile of nothing but -Inf has no maximum to subtract: the row is NaN from there on,
///           in whatever tile it happens (fa1: in the first alone); see the edge case
///           inf-whole-tile
/// Differs   from fa1: p is formed against the tile's own maximum
/// Traffic   per batch-head, floats, Tc = ceil(n_kv / Bc): reads K n_kv D, V n_kv D, Q Tc n_q D,
///           O Tc n_q D, l Tc n_q, m Tc n_q; writes O Tc n_q D, l Tc n_q, m Tc n_q
/// Source    Dao et al. 2022, Algorithm 1
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void fa1_paper(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
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
    load_keys(Kj, K, key0, n_kv);
    load_values(Vj, V, key0, n_kv);

    for (long long row0 = 0; row0 < n_q; row0 += Br) {
      const int rows = load_queries(Qi, Q, row0, n_q);
      __syncthreads(); // the tiles are complete

      for (int r = thread; r < rows; r += threads) {
        const long long row = row0 + r;
        const float m_old = m[row];
        float s[Bc], pv[D];
        score_tile(s, Qi[r], Kj, scale);
        const float m_tile = max_of(s, columns, -FA1_INFINITY);
        const float l_tile = weigh_tile(s, columns, m_tile);
        sum_values(pv, s, columns, Vj);

        const float m_new = fmaxf(m_old, m_tile);
        const float beta = expf(m_tile - m_new);
        const float carried = __fmul_rn(expf(m_old - m_new), l[row]);
        const float l_new = carried + __fmul_rn(beta, l_tile);
        for (int i = 0; i < D; ++i)
          O[row * D + i] = (carried * O[row * D + i] + __fmul_rn(beta, pv[i])) / l_new;
        l[row] = l_new;
        m[row] = m_new;
      }
      __syncthreads(); // nobody reads the tiles any more
    }
  }
}

} // namespace fa1::kernels
