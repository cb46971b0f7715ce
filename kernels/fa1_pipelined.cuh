/// fa1_deferred as a pipeline: warps with roles of their own, tiles in two buffers, named barriers.
///
/// Computes  what fa1_deferred.cuh does, in the same order of operations
/// Shapes    as fa1.cuh
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block of exactly
///           kPipelineThreads = 256; 4 D (2 Br + 4 Bc) + 8 Br Bc + 16 Br bytes of shared memory
/// Requires  O, l, m hold the carries of the keys before these: O normalised, as a launch leaves it
/// Roles     load        1 warp    Q once, then K and V tile by tile, into buffer tile % 2
///           score       2 warps   S = scale Q K^T
///           softmax     2 warps   m, alpha, l; P in the place of S; a thread to a row
///           correction  2 warps   A = alpha A + P V
///           epilogue    1 warp    O = A / l; writes O, l and m
/// Barriers  who waits for whom, each arrow a barrier for either buffer:
///
///               load ==K==> score --S--> softmax --P, alpha--> correction --A--> epilogue
///               load ==================V====================> correction
///                           score <------- S is free -------- correction
///
///           A double arrow has one back, too: the buffer is free again. From the third tile on a
///           role waits before it fills a buffer until the tile two back, which is in it, is done
///           with. So up to two tiles are on their way at every arrow: scores of the next are made
///           while this one is exponentiated and the one before is added up. Whoever waits for S
///           has waited for Q and K, and whoever waits for A has waited for m and l.
///           Each of the 15 named barriers has one role that arrives and one that waits, and none
///           is left with arrivals. Between query blocks the pipeline runs empty: __syncthreads.
/// Order     as fa1_deferred.cuh: O, l and m are its own bit for bit at equal tiles where neither
///           side is fused
/// Ragged    rows past n_q and columns past n_kv are never read or written and take no part
/// Error     numerics/bounds.hpp, Order::at_end, as fa1_deferred.cuh
/// Special   as fa1.cuh; no keys leave the carries as they are
/// Differs   from fa1_deferred: query blocks outside and tiles inside, as fa2; m, l and A stay in
///           shared memory from the first key to the last
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K Tr n_kv D, V Tr n_kv D,
///           O n_q D, l n_q (1 + D), m n_q; writes O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

/// Warps of each role, in their order in the block.
inline constexpr int kLoadWarps = 1;
inline constexpr int kScoreWarps = 2;
inline constexpr int kSoftmaxWarps = 2;
inline constexpr int kCorrectionWarps = 2;
inline constexpr int kEpilogueWarps = 1;
inline constexpr int kPipelineThreads =
    32 * (kLoadWarps + kScoreWarps + kSoftmaxWarps + kCorrectionWarps + kEpilogueWarps);

/// Named barriers: the number for buffer 0; the next one is for buffer 1. 0 is __syncthreads.
enum PipelineBarrier : unsigned {
  kFullK = 1,
  kFreeK = 3,
  kFullV = 5,
  kFreeV = 7,
  kFullS = 9,
  kFullP = 11,
  kFreeS = 13,
  kFullA = 15 // of no buffer
};

template <int Br, int Bc, int D>
static __global__ void fa1_pipelined(hbm<const float> Q, hbm<const float> K, hbm<const float> V,
                                     hbm<float> O, hbm<float> l, hbm<float> m, long long n_q,
                                     long long n_kv, float scale) {
  static_assert(StaticSharedMemory<(2 * Br + 4 * Bc) * D * 4 + 8 * Br * Bc + 16 * Br>::fits);
  FA1_SHARED(float, Qi, [Br][D]);
  FA1_SHARED(float, Kj, [2][D][Bc]); // transposed: neighbouring columns are neighbours
  FA1_SHARED(float, Vj, [2][Bc][D]);
  FA1_SHARED(float, Sij, [2][Br][Bc]); // scores, then weights
  FA1_SHARED(float, alpha, [2][Br]);
  FA1_SHARED(float, Ai, [Br][D]);
  FA1_SHARED(float, li, [Br]);
  FA1_SHARED(float, mi, [Br]);

  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  const long long tiles = (n_kv + Bc - 1) / Bc;
  if (tiles == 0)
    return;

  constexpr int kScore = 32 * kLoadWarps; // the first thread of each role
  constexpr int kSoftmax = kScore + 32 * kScoreWarps;
  constexpr int kCorrection = kSoftmax + 32 * kSoftmaxWarps;
  constexpr int kEpilogue = kCorrection + 32 * kCorrectionWarps;
  constexpr int kLoadAndScore = 32 * (kLoadWarps + kScoreWarps);
  constexpr int kLoadAndCorrection = 32 * (kLoadWarps + kCorrectionWarps);
  constexpr int kScoreAndSoftmax = 32 * (kScoreWarps + kSoftmaxWarps);
  constexpr int kSoftmaxAndCorrection = 32 * (kSoftmaxWarps + kCorrectionWarps);
  constexpr int kCorrectionAndScore = 32 * (kCorrectionWarps + kScoreWarps);
  constexpr int kCorrectionAndEpilogue = 32 * (kCorrectionWarps + kEpilogueWarps);
  const int thread = static_cast<int>(threadIdx.x);

  for (long long row0 = static_cast<long long>(blockIdx.y) * Br; row0 < n_q;
       row0 += static_cast<long long>(gridDim.y) * Br) {
    const int rows = static_cast<int>(n_q - row0 < Br ? n_q - row0 : Br);

    if (thread < kScore) { // load
      for (int e = thread; e < rows * D; e += kScore)
        Qi[e / D][e % D] = Q[row0 * D + e];
      for (long long tile = 0; tile < tiles; ++tile) {
        const int buffer = static_cast<int>(tile % 2);
        const long long key0 = tile * Bc;
        const int columns = columns_from<Bc>(key0, n_kv);
        if (tile >= 2)
          fa1_barrier_sync(kFreeK + buffer, kLoadAndScore);
        for (int e = thread; e < columns * D; e += kScore)
          Kj[buffer][e % D][e / D] = K[key0 * D + e];
        fa1_barrier_arrive(kFullK + buffer, kLoadAndScore);
        if (tile >= 2)
          fa1_barrier_sync(kFreeV + buffer, kLoadAndCorrection);
        for (int e = thread; e < columns * D; e += kScore)
          Vj[buffer][e / D][e % D] = V[key0 * D + e];
        fa1_barrier_arrive(kFullV + buffer, kLoadAndCorrection);
      }

    } else if (thread < kSoftmax) { // score
      for (long long tile = 0; tile < tiles; ++tile) {
        const int buffer = static_cast<int>(tile % 2);
        const int columns = columns_from<Bc>(tile * Bc, n_kv);
        if (tile >= 2)
          fa1_barrier_sync(kFreeS + buffer, kCorrectionAndScore);
        fa1_barrier_sync(kFullK + buffer, kLoadAndScore);
        for (int e = thread - kScore; e < rows * columns; e += kSoftmax - kScore) {
          const int r = e / columns, c = e % columns;
          float s = 0.0f;
          for (int i = 0; i < D; ++i)
            s += Qi[r][i] * Kj[buffer][i][c];
          Sij[buffer][r][c] = __fmul_rn(s, scale);
        }
        if (tile + 2 < tiles)
          fa1_barrier_arrive(kFreeK + buffer, kLoadAndScore);
        fa1_barrier_arrive(kFullS + buffer, kScoreAndSoftmax);
      }

    } else if (thread < kCorrection) { // softmax
      for (int r = thread - kSoftmax; r < rows; r += kCorrection - kSoftmax) {
        mi[r] = m[row0 + r];
        li[r] = l[row0 + r];
      }
      for (long long tile = 0; tile < tiles; ++tile) {
        const int buffer = static_cast<int>(tile % 2);
        const int columns = columns_from<Bc>(tile * Bc, n_kv);
        fa1_barrier_sync(kFullS + buffer, kScoreAndSoftmax);
        for (int r = thread - kSoftmax; r < rows; r += kCorrection - kSoftmax) {
          const float m_old = mi[r];
          float m_new = m_old;
          for (int c = 0; c < columns; ++c)
            m_new = fmaxf(m_new, Sij[buffer][r][c]);
          float sum_p = 0.0f;
          for (int c = 0; c < columns; ++c) {
            const float p = expf(Sij[buffer][r][c] - m_new);
            Sij[buffer][r][c] = p;
            sum_p += p;
          }
          alpha[buffer][r] = expf(m_old - m_new);
          li[r] = __fmul_rn(alpha[buffer][r], li[r]) + sum_p;
          mi[r] = m_new;
        }
        fa1_barrier_arrive(kFullP + buffer, kSoftmaxAndCorrection);
      }

    } else if (thread < kEpilogue) { // correction
      for (int e = thread - kCorrection; e < rows * D; e += kEpilogue - kCorrection)
        Ai[e / D][e % D] = __fmul_rn(l[row0 + e / D], O[row0 * D + e]);
      for (long long tile = 0; tile < tiles; ++tile) {
        const int buffer = static_cast<int>(tile % 2);
        const int columns = columns_from<Bc>(tile * Bc, n_kv);
        fa1_barrier_sync(kFullV + buffer, kLoadAndCorrection);
        fa1_barrier_sync(kFullP + buffer, kSoftmaxAndCorrection);
        for (int e = thread - kCorrection; e < rows * D; e += kEpilogue - kCorrection) {
          const int r = e / D, i = e % D;
          float pv = 0.0f;
          for (int c = 0; c < columns; ++c)
            pv += Sij[buffer][r][c] * Vj[buffer][c][i];
          Ai[r][i] = __fmul_rn(alpha[buffer][r], Ai[r][i]) + pv;
        }
        if (tile + 2 < tiles) {
          fa1_barrier_arrive(kFreeV + buffer, kLoadAndCorrection);
          fa1_barrier_arrive(kFreeS + buffer, kCorrectionAndScore);
        }
      }
      fa1_barrier_arrive(kFullA, kCorrectionAndEpilogue);

    } else { // epilogue
      fa1_barrier_sync(kFullA, kCorrectionAndEpilogue);
      for (int e = thread - kEpilogue; e < rows * D; e += kPipelineThreads - kEpilogue)
        O[row0 * D + e] = Ai[e / D][e % D] / li[e / D];
      for (int r = thread - kEpilogue; r < rows; r += kPipelineThreads - kEpilogue) {
        l[row0 + r] = li[r];
        m[row0 + r] = mi[r];
      }
    }
    __syncthreads(); // nobody is in this query block any more
  }
}

} // namespace fa1::kernels
