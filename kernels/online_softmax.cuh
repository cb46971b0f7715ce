/// Online softmax: the maximum and the denominator in one pass over the keys, the output in a
/// second.
///
/// Computes  first pass, tile by tile:  m_new = max(m, max_c s_c)
///               l_new = exp(m - m_new) l + sum_c exp(s_c - m_new)
///           second pass, with the m and l of all keys:  O = (sum_j exp(s_j - m) v_j) / l
/// Shapes    as fa1.cuh
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block (any 1 .. 1024);
///           4 D (2 Bc + 2 Br) + 8 Br bytes of shared memory
/// Requires  nothing of O, l and m; n_kv > 0
/// Barriers  2 per (Q block, K tile) in each pass
/// Order     scores as fa1.cuh, the same bits in both passes; l is that of fa1_deferred.cuh; sums
///           over a tile are made before they meet the sum so far; one division
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     the weights of the denominator were rescaled, those of the numerator were not, so
///           their errors do not cancel: numerics/bounds.hpp, Order::two_fetches
/// Special   a first tile of -Inf makes l NaN for ever, as in fa1.cuh
/// Differs   from fa1: every key is fetched twice, and O is never rescaled
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K 2 Tr n_kv D, V Tr n_kv
///           D; writes O n_q D, l n_q, m n_q
/// Source    Milakov and Gimelshein 2018, Algorithm 3
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void online_softmax(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                      hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                      long long n_kv, float scale) {
  static_assert(StaticSharedMemory<(2 * Bc + 2 * Br) * D * 4 + 8 * Br>::fits);
  FA1_SHARED(float, Kj, [D][Bc]);
  FA1_SHARED(float, Vj, [Bc][D]);
  FA1_SHARED(float, Qi, [Br][D]);
  FA1_SHARED(float, Ai, [Br][D]);
  FA1_SHARED(float, li, [Br]);
  FA1_SHARED(float, mi, [Br]);

  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

  for (long long row0 = static_cast<long long>(blockIdx.y) * Br; row0 < n_q;
       row0 += static_cast<long long>(gridDim.y) * Br) {
    const int rows = load_queries(Qi, Q, row0, n_q);
    for (int r = thread; r < rows; r += threads) { // whoever starts a row also goes on with it
      for (int i = 0; i < D; ++i)
        Ai[r][i] = 0.0f;
      li[r] = 0.0f;
      mi[r] = -FA1_INFINITY;
    }

    for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
      const int columns = columns_from<Bc>(key0, n_kv);
      load_keys(Kj, K, key0, n_kv);
      __syncthreads(); // the tile is complete
      for (int r = thread; r < rows; r += threads) {
        float s[Bc];
        score_tile(s, Qi[r], Kj, scale);
        const float m_new = max_of(s, columns, mi[r]);
        const float sum_p = weigh_tile(s, columns, m_new);
        li[r] = __fmul_rn(expf(mi[r] - m_new), li[r]) + sum_p;
        mi[r] = m_new;
      }
      __syncthreads(); // nobody reads it any more
    }

    for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
      const int columns = columns_from<Bc>(key0, n_kv);
      load_keys(Kj, K, key0, n_kv);
      load_values(Vj, V, key0, n_kv);
      __syncthreads(); // the tiles are complete
      for (int r = thread; r < rows; r += threads) {
        float s[Bc], pv[D];
        score_tile(s, Qi[r], Kj, scale);
        weigh_tile(s, columns, mi[r]);
        sum_values(pv, s, columns, Vj);
        for (int i = 0; i < D; ++i)
          Ai[r][i] += pv[i];
      }
      __syncthreads(); // nobody reads them any more
    }

    for (int r = thread; r < rows; r += threads) {
      for (int i = 0; i < D; ++i)
        O[(row0 + r) * D + i] = Ai[r][i] / li[r];
      l[row0 + r] = li[r];
      m[row0 + r] = mi[r];
    }
  }
}

} // namespace fa1::kernels
