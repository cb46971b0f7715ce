/// Attention as one writes it first: S in global memory, softmax in three passes over it, then P V.
///
/// Computes  S = scale * Q K^T;  m = max S, l = sum exp(S - m), P = exp(S - m) / l, row by row;
///           O = P V
/// Shapes    as fa1.cuh; S [gridDim.x][n_q][n_kv] is scratch, P takes its place
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block (any 1 .. 1024);
///           4 D (Bc + 2 Br) bytes of shared memory; n_q n_kv floats of scratch per batch-head
/// Requires  nothing of O, l and m; n_kv > 0
/// Barriers  2 per (Q block, K tile) and 2 per (Q block, V tile)
/// Order     scores as fa1.cuh; l is summed over all keys in order; P is rounded before it meets V;
///           sums over a tile are made before they meet the sum so far
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     n_kv - 1 additions in l, one division a key: numerics/bounds.hpp, Order::rows_of_S
/// Special   -Inf takes no part wherever it stands; a row of nothing but -Inf, and a +Inf, give NaN
/// Differs   from fa1: memory of the order n_q n_kv, no carries; weights are normalised, and so
///           rounded once more, before they meet V
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K Tr n_kv D, V Tr n_kv D,
///           S 4 n_q n_kv; writes S 2 n_q n_kv, O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

template <int Br, int Bc, int D>
static __global__ void standard(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                long long n_kv, float scale, hbm<float> S) {
  static_assert(StaticSharedMemory<(2 * Bc + 2 * Br) * D * 4>::fits);
  FA1_SHARED(float, Kj, [D][Bc]);
  FA1_SHARED(float, Vj, [Bc][D]);
  FA1_SHARED(float, Qi, [Br][D]);
  FA1_SHARED(float, Oi, [Br][D]);

  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  S += blockIdx.x * n_q * n_kv;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

  // A row of S is written and read by one thread alone.
  for (long long row0 = static_cast<long long>(blockIdx.y) * Br; row0 < n_q;
       row0 += static_cast<long long>(gridDim.y) * Br) {
    const int rows = load_queries(Qi, Q, row0, n_q);

    for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
      const int columns = columns_from<Bc>(key0, n_kv);
      load_keys(Kj, K, key0, n_kv);
      __syncthreads(); // the tile is complete
      for (int r = thread; r < rows; r += threads) {
        float s[Bc];
        score_tile(s, Qi[r], Kj, scale);
        for (int c = 0; c < columns; ++c)
          S[(row0 + r) * n_kv + key0 + c] = s[c];
      }
      __syncthreads(); // nobody reads it any more
    }

    for (int r = thread; r < rows; r += threads) {
      const long long row = row0 + r;
      float max_s = -FA1_INFINITY;
      for (long long j = 0; j < n_kv; ++j)
        max_s = fmaxf(max_s, S[row * n_kv + j]);
      float sum_p = 0.0f;
      for (long long j = 0; j < n_kv; ++j)
        sum_p += expf(S[row * n_kv + j] - max_s);
      for (long long j = 0; j < n_kv; ++j)
        S[row * n_kv + j] = expf(S[row * n_kv + j] - max_s) / sum_p;
      for (int i = 0; i < D; ++i)
        Oi[r][i] = 0.0f;
      l[row] = sum_p;
      m[row] = max_s;
    }

    for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
      const int columns = columns_from<Bc>(key0, n_kv);
      load_values(Vj, V, key0, n_kv);
      __syncthreads(); // the tile is complete
      for (int r = thread; r < rows; r += threads) {
        float p[Bc], pv[D];
        for (int c = 0; c < columns; ++c)
          p[c] = S[(row0 + r) * n_kv + key0 + c];
        sum_values(pv, p, columns, Vj);
        for (int i = 0; i < D; ++i)
          Oi[r][i] += pv[i];
      }
      __syncthreads(); // nobody reads it any more
    }

    for (int r = thread; r < rows; r += threads)
      for (int i = 0; i < D; ++i)
        O[(row0 + r) * D + i] = Oi[r][i];
  }
}

} // namespace fa1::kernels
