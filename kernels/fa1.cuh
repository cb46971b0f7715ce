/// FlashAttention-1 forward, one CUDA thread per query row at a time.
///
/// Computes  O = softmax(scale * Q K^T) V  without storing S, by the recurrence on (m, l, O):
///
///               m_new = max(m, max_c s_c)    alpha = exp(m - m_new)    p_c = exp(s_c - m_new)
///               l_new = alpha l + sum_c p_c
///               O_new = (alpha l O + sum_c p_c v_c) / l_new
///
///           K/V tiles in the outer loop, Q/O/l/m tiles in the inner one; O stays normalised and
///           travels through global memory with l and m in every step (Dao et al. 2022, Algorithm
///           1).
/// Shapes    Q [gridDim.x][n_q][D]   K, V [gridDim.x][n_kv][D]   O [gridDim.x][n_q][D]
///           l, m [gridDim.x][n_q]; all row-major, one batch-head per block
/// Units     m: scaled score, natural log units.   l: sum of exp(score - m)
/// Launch    grid (batch_heads), block (any 1 .. 1024; Br threads keep every thread busy);
///           static shared memory 4 D (2 Bc + Br) bytes, checked against 48 KiB at compile time
/// Requires  O, l, m hold the carries of the keys before these (fa1_start writes those of no keys)
/// Barriers  2 per (K/V tile, Q tile), reached by every thread of the block
/// Order     part of the contract: dot products run over the head dimension from 0.0f, the scale
///           comes after, sums over columns run in order from 0.0f, alpha l is one rounded product
///           used twice, the division is IEEE; the stored score is what both the max and the
///           exponential see
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     per element of O: numerics/bounds.hpp, `online_softmax`; worst measured:
///           numerics/ratchet.csv
/// Special   a NaN in q or k shows in l and O (fmaxf keeps it out of m); a row whose first tile is
///           all -Inf is NaN for ever, see the edge case inf-first-tile
/// Differs   p is formed against the new running max, not against the tile's own (the paper prints
///           the latter)
/// Twin      reference/tiled_mirror.hpp, bit for bit when neither side contracts a*b+c
#pragma once

#include "kernels/simt/cuda_vocabulary.hpp"

namespace fa1::kernels {

/// Writes the carries of no keys: O = 0, l = 0, m = -Inf. Any launch shape with one block per
/// batch-head.
template <int D>
static __global__ void fa1_start(hbm<float> O, hbm<float> l, hbm<float> m, long long n_q) {
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  for (long long e = threadIdx.x; e < n_q * D; e += blockDim.x)
    O[e] = 0.0f;
  for (long long r = threadIdx.x; r < n_q; r += blockDim.x) {
    l[r] = 0.0f;
    m[r] = -FA1_INFINITY;
  }
}

/// Naming the sum in the type makes the compiler print it when a tile does not fit.
template <int Bytes> struct StaticSharedMemory {
  static_assert(Bytes <= 48 * 1024,
                "K, V and Q tiles need 4 D (2 Bc + Br) bytes of static shared memory");
  static constexpr bool fits = true;
};

template <int Br, int Bc, int D>
static __global__ void fa1(hbm<const float> Q, hbm<const float> K, hbm<const float> V, hbm<float> O,
                           hbm<float> l, hbm<float> m, long long n_q, long long n_kv, float scale) {
  static_assert(StaticSharedMemory<(2 * Bc + Br) * D * 4>::fits);
  FA1_SHARED(float, Kj, [D][Bc]); // transposed: neighbouring columns are neighbours
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
    const int columns = static_cast<int>(n_kv - key0 < Bc ? n_kv - key0 : Bc);
    for (int e = thread; e < Bc * D; e += threads) {
      const bool exists = e / D < columns;
      Kj[e % D][e / D] = exists ? K[key0 * D + e] : 0.0f;
      Vj[e / D][e % D] = exists ? V[key0 * D + e] : 0.0f;
    }

    for (long long row0 = 0; row0 < n_q; row0 += Br) {
      const int rows = static_cast<int>(n_q - row0 < Br ? n_q - row0 : Br);
      for (int e = thread; e < rows * D; e += threads)
        Qi[e / D][e % D] = Q[row0 * D + e];
      __syncthreads(); // the tiles are complete

      for (int r = thread; r < rows; r += threads) {
        const long long row = row0 + r;
        const float m_old = m[row];
        const float l_old = l[row];

        float s[Bc];
        for (int c = 0; c < Bc; ++c)
          s[c] = 0.0f;
        for (int i = 0; i < D; ++i)
          for (int c = 0; c < Bc; ++c)
            s[c] += Qi[r][i] * Kj[i][c];
        for (int c = 0; c < Bc; ++c)
          s[c] = __fmul_rn(s[c], scale); // rounded here, never fused with the subtraction below

        float m_new = m_old;
        for (int c = 0; c < columns; ++c)
          m_new = fmaxf(m_new, s[c]);

        float sum_p = 0.0f;
        for (int c = 0; c < columns; ++c) {
          s[c] = expf(s[c] - m_new); // from here on p_c
          sum_p += s[c];
        }

        const float alpha = expf(m_old - m_new);
        const float carried = __fmul_rn(alpha, l_old);
        const float l_new = carried + sum_p;

        float pv[D];
        for (int i = 0; i < D; ++i)
          pv[i] = 0.0f;
        for (int c = 0; c < columns; ++c)
          for (int i = 0; i < D; ++i)
            pv[i] += s[c] * Vj[c][i];
        for (int i = 0; i < D; ++i)
          O[row * D + i] = (carried * O[row * D + i] + pv[i]) / l_new;

        l[row] = l_new;
        m[row] = m_new;
      }
      __syncthreads(); // nobody reads the tiles any more
    }
  }
}

} // namespace fa1::kernels
