/// Attention over ranges of the keys, each by itself, and a second kernel that merges the states.
///
/// Computes  split_kv: for each range of whole tiles the state (O, l, m) of its keys, O normalised,
///           by the recurrence of fa1_deferred.cuh
///           merge_ranges: the states merged one after the other,
///
///               m = max(m1, m2)    a = exp(m1 - m) l1    b = exp(m2 - m) l2
///               l = a + b          O = (a O1 + b O2) / l
///
/// Shapes    Q, K, V, O, l, m as fa1.cuh; scratch [gridDim.x][ranges][n_q][D + 2]: O, l, m of a row
/// Launch    split_kv: grid (batch_heads, ranges), block (any 1 .. 1024), 4 D (2 Bc + 2 Br) + 8 Br
///           bytes of shared memory; then merge_ranges: grid (batch_heads), any block
/// Requires  nothing of O, l and m; n_kv > 0. Range y holds the tiles [y w, y w + w), w = ceil(Tc /
///           ranges); ranges past the last tile are empty and are not merged: their m is -Inf,
///           their l is 0
/// Barriers  2 per (Q block, K/V tile)
/// Order     within a range as fa1_deferred.cuh; ranges are merged in order, a and b are rounded
///           products used twice, a O1 and b O2 are rounded products, the division is IEEE. So the
///           merge is commutative bit for bit, and associative within its bound
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     numerics/bounds.hpp, Order::ranges
/// Special   a range whose first tile is all -Inf is NaN, and so is the row
/// Differs   from fa1: ranges know nothing of each other's maximum; no carries
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br), R ranges, R' of them not empty: reads Q R
///           n_q D, K Tr n_kv D, V Tr n_kv D, scratch R' n_q (D + 2) + (R - R') n_q; writes scratch
///           R n_q (D + 2), O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

/// O, l and m of some keys become those of these and the other ones.
template <int D>
static __device__ void merge_states(float (&O)[D], float& l, float& m, const float (&other_O)[D],
                                    float other_l, float other_m) {
  const float m_new = fmaxf(m, other_m);
  const float a = __fmul_rn(expf(m - m_new), l);
  const float b = __fmul_rn(expf(other_m - m_new), other_l);
  const float l_new = a + b;
  for (int i = 0; i < D; ++i)
    O[i] = (__fmul_rn(a, O[i]) + __fmul_rn(b, other_O[i])) / l_new;
  l = l_new;
  m = m_new;
}

template <int Br, int Bc, int D>
static __global__ void split_kv(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                hbm<float>, hbm<float>, hbm<float>, long long n_q, long long n_kv,
                                float scale, hbm<float> scratch) {
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
  scratch += (blockIdx.x * static_cast<long long>(gridDim.y) + blockIdx.y) * n_q * (D + 2);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const long long tiles = (n_kv + Bc - 1) / Bc;
  const long long width = (tiles + gridDim.y - 1) / gridDim.y * Bc;
  const long long from = blockIdx.y * width;
  const long long to = from + width < n_kv ? from + width : n_kv;

  for (long long row0 = 0; row0 < n_q; row0 += Br) {
    const int rows = load_queries(Qi, Q, row0, n_q);
    for (int r = thread; r < rows; r += threads) { // whoever starts a row also goes on with it
      for (int i = 0; i < D; ++i)
        Ai[r][i] = 0.0f;
      li[r] = 0.0f;
      mi[r] = -FA1_INFINITY;
    }

    for (long long key0 = from; key0 < to; key0 += Bc) {
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
      const long long at = (row0 + r) * (D + 2);
      for (int i = 0; i < D; ++i)
        scratch[at + i] = from < to ? Ai[r][i] / li[r] : 0.0f;
      scratch[at + D] = li[r];
      scratch[at + D + 1] = mi[r];
    }
  }
}

/// O, l and m of all keys from those of the ranges in scratch.
template <int D>
static __global__ void merge_ranges(hbm<const float> scratch, hbm<float> O, hbm<float> l,
                                    hbm<float> m, long long n_q, int ranges) {
  const long long state = D + 2;
  scratch += blockIdx.x * n_q * ranges * state;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  for (long long row = threadIdx.x; row < n_q; row += blockDim.x) {
    float merged[D], other[D];
    for (int i = 0; i < D; ++i)
      merged[i] = scratch[row * state + i];
    float l_merged = scratch[row * state + D], m_merged = scratch[row * state + D + 1];
    for (int range = 1; range < ranges; ++range) {
      const long long at = (range * n_q + row) * state;
      const float l_other = scratch[at + D];
      if (l_other == 0.0f)
        continue; // no keys
      for (int i = 0; i < D; ++i)
        other[i] = scratch[at + i];
      merge_states(merged, l_merged, m_merged, other, l_other, scratch[at + D + 1]);
    }
    for (int i = 0; i < D; ++i)
      O[row * D + i] = merged[i];
    l[row] = l_merged;
    m[row] = m_merged;
  }
}

} // namespace fa1::kernels
