/// FlashAttention-2 forward: query blocks outside, K/V tiles inside, O written once, LSE in the
/// place of l and m.
///
/// Computes  O = softmax(scale * Q K^T) V and LSE = ln sum_j exp(s_j), by the recurrence of
///           fa1_deferred.cuh with A, l and m in shared memory from the first key to the last
/// Shapes    Q, O, K, V as fa1.cuh; m [gridDim.x][n_q] receives LSE, l is not touched
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block (any 1 .. 1024);
///           4 D (2 Bc + 2 Br) + 8 Br bytes of shared memory
/// Requires  nothing of O and m; n_kv > 0
/// Barriers  2 per (Q block, K/V tile)
/// Order     as fa1_deferred.cuh: O is its O bit for bit at equal tiles where neither side is
///           fused; LSE = m + logf(l), one rounded sum
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     numerics/bounds.hpp, Order::at_end, and LSE's own two roundings
/// Special   as fa1.cuh; where l is NaN, so is LSE
/// Differs   from fa1: the loops are exchanged; no carries, so a launch sees all keys
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K Tr n_kv D, V Tr n_kv D;
///           writes O n_q D, LSE n_q
/// Source    Dao 2023, Algorithm 1
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void fa2(hbm<const float> Q, hbm<const float> K, hbm<const float> V, hbm<float> O,
                           hbm<float>, hbm<float> LSE, long long n_q, long long n_kv, float scale) {
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
  LSE += blockIdx.x * n_q;
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
      load_values(Vj, V, key0, n_kv);
      __syncthreads(); // the tiles are complete

      for (int r = thread; r < rows; r += threads) {
        float s[Bc], pv[D];
        score_tile(s, Qi[r], Kj, scale);
        const float m_new = max_of(s, columns, mi[r]);
        const float sum_p = weigh_tile(s, columns, m_new);
        const float alpha = expf(mi[r] - m_new);
        li[r] = __fmul_rn(alpha, li[r]) + sum_p;
        sum_values(pv, s, columns, Vj);
        for (int i = 0; i < D; ++i)
          Ai[r][i] = __fmul_rn(alpha, Ai[r][i]) + pv[i];
        mi[r] = m_new;
      }
      __syncthreads(); // nobody reads the tiles any more
    }

    for (int r = thread; r < rows; r += threads) {
      for (int i = 0; i < D; ++i)
        O[(row0 + r) * D + i] = Ai[r][i] / li[r];
      LSE[row0 + r] = mi[r] + logf(li[r]);
    }
  }
}

} // namespace fa1::kernels
