/// What the rewrites share: one thread works on one query row at a time, straight from global memory.
///
/// A rewrite is a right attention kernel that computes what fa1.cuh computes in another way. It takes
/// the same arguments and carries, so all laws can be asked of it, and no law may find it wrong.
#pragma once

#include "kernels/fa1.cuh"

namespace fa1::kernels::rewrites {

/// One query row, the keys and values it meets, and its carries.
struct Row {
  const float* q;
  const float* K; ///< [keys][D]
  const float* V; ///< [keys][D]
  float* O;       ///< [D]
  float* l;
  float* m;
  long long keys;
  float scale;
};

template <int D, class Body>
static __device__ void for_each_row(const float* Q, const float* K, const float* V, float* O,
                                    float* l, float* m, long long n_q, long long n_kv, float scale,
                                    const Body& body) {
  const long long head = blockIdx.x;
  for (long long row = threadIdx.x; row < n_q; row += blockDim.x) {
    const long long at = head * n_q + row;
    body(Row{Q + at * D, K + head * n_kv * D, V + head * n_kv * D, O + at * D, l + at, m + at, n_kv,
             scale});
  }
}

/// scale * q . k for key j, in the order of fa1.cuh.
template <int D> static __device__ float score(const Row& x, long long j) {
  float s = 0.0f;
  for (int i = 0; i < D; ++i)
    s += x.q[i] * x.K[j * D + i];
  return __fmul_rn(s, x.scale);
}

/// How many keys the tile from `first` on holds.
template <int Bc> static __device__ int columns_of(const Row& x, long long first) {
  return static_cast<int>(x.keys - first < Bc ? x.keys - first : Bc);
}

/// The scores of a tile; returns the maximum of these and `m`.
template <int D>
static __device__ float scores_of(const Row& x, long long first, int columns, float* s, float m) {
  for (int c = 0; c < columns; ++c) {
    s[c] = score<D>(x, first + c);
    m = fmaxf(m, s[c]);
  }
  return m;
}

} // namespace fa1::kernels::rewrites
