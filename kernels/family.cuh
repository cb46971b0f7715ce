/// What the kernels of the family share: tiles of K, V and Q in shared memory, and the scores and
/// weights of one query row against a tile. Everything in the order of fa1.cuh.
///
/// Error     a maximum never rounds; a score is rounded before anything else sees it
#pragma once

#include "kernels/fa1.cuh"

namespace fa1::kernels {

/// Keys of the tile from key0 on that exist.
template <int Bc> static __device__ int columns_from(long long key0, long long n_kv) {
  return static_cast<int>(n_kv - key0 < Bc ? n_kv - key0 : Bc);
}

/// By all threads of the block. Columns past n_kv become 0 and are not read.
template <int Bc, int D>
static __device__ void load_keys(float (&Kj)[D][Bc], hbm<const float> K, long long key0,
                                 long long n_kv) {
  const int columns = columns_from<Bc>(key0, n_kv);
  for (int e = static_cast<int>(threadIdx.x); e < Bc * D; e += static_cast<int>(blockDim.x))
    Kj[e % D][e / D] = e / D < columns ? K[key0 * D + e] : 0.0f;
}

template <int Bc, int D>
static __device__ void load_values(float (&Vj)[Bc][D], hbm<const float> V, long long key0,
                                   long long n_kv) {
  const int columns = columns_from<Bc>(key0, n_kv);
  for (int e = static_cast<int>(threadIdx.x); e < Bc * D; e += static_cast<int>(blockDim.x))
    Vj[e / D][e % D] = e / D < columns ? V[key0 * D + e] : 0.0f;
}

/// Returns how many rows of the block from row0 on exist; the others are not read.
template <int Br, int D>
static __device__ int load_queries(float (&Qi)[Br][D], hbm<const float> Q, long long row0,
                                   long long n_q) {
  const int rows = static_cast<int>(n_q - row0 < Br ? n_q - row0 : Br);
  for (int e = static_cast<int>(threadIdx.x); e < rows * D; e += static_cast<int>(blockDim.x))
    Qi[e / D][e % D] = Q[row0 * D + e];
  return rows;
}

/// Kernels that meet a key twice rely on meeting the same score.
template <int Bc, int D>
FA1_COMPILED_ONCE static __device__ void score_tile(float (&s)[Bc], const float (&q)[D],
                                                    const float (&Kj)[D][Bc], float scale) {
  for (int c = 0; c < Bc; ++c)
    s[c] = 0.0f;
  for (int i = 0; i < D; ++i)
    for (int c = 0; c < Bc; ++c)
      s[c] += q[i] * Kj[i][c];
  for (int c = 0; c < Bc; ++c)
    s[c] = __fmul_rn(s[c], scale);
}

/// The maximum of m and the tile's scores.
template <int Bc> static __device__ float max_of(const float (&s)[Bc], int columns, float m) {
  for (int c = 0; c < columns; ++c)
    m = fmaxf(m, s[c]);
  return m;
}

/// Turns scores into weights against m; returns their sum.
template <int Bc> static __device__ float weigh_tile(float (&s)[Bc], int columns, float m) {
  float sum_p = 0.0f;
  for (int c = 0; c < columns; ++c) {
    s[c] = expf(s[c] - m);
    sum_p += s[c];
  }
  return sum_p;
}

/// pv = sum_c p_c v_c
template <int Bc, int D>
static __device__ void sum_values(float (&pv)[D], const float (&p)[Bc], int columns,
                                  const float (&Vj)[Bc][D]) {
  for (int i = 0; i < D; ++i)
    pv[i] = 0.0f;
  for (int c = 0; c < columns; ++c)
    for (int i = 0; i < D; ++i)
      pv[i] += p[c] * Vj[c][i];
}

} // namespace fa1::kernels
