/// fa1 as one would ship it: a warp owns 32 query rows, each thread a tile of their scores and of
/// their outputs in registers, and of K and V one arrives while the other is worked on.
///
/// Computes  what fa1.cuh does, in the same order of operations
/// Shapes    as fa1.cuh; Br a multiple of 32, Bc and D powers of two from 4 to 64
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block of exactly Br
///           threads; sizeof(TunedTiles<Br, Bc, D>) bytes of dynamic shared memory,
///           4 (Br + Bc) (D + 4) + 4 Bc D + 4 Br (Bc + 7)
/// Requires  O, l, m hold the carries of the keys before these; Q, K, V and O begin at a multiple of
///           16 bytes
/// Tiles     a warp's scores and outputs are divided among its lanes by LaneGrid. Between the two a
///           lane has one whole row: it takes the maximum, the weights and their sum column by
///           column. Scores and weights pass through shared memory and concern one warp alone. O, l
///           and m stay in registers from the first key to the last
/// Barriers  per K/V tile 2 __syncthreads, where K or V has arrived and the other one is free, and 1
///           __syncwarp
/// Order     as fa1.cuh: O, l and m are its own bit for bit at equal Bc where both are fused alike.
///           Each element is summed by one thread, in order from 0.0f
/// Ragged    rows past n_q and columns past n_kv are never read or written. Their Q, K and V are 0
///           and their weights are 0: that adds +0 to sums, which leaves each of them as it is
/// Error     numerics/bounds.hpp, Order::every_tile, as fa1.cuh
/// Special   as fa1.cuh; no keys leave the carries as they are
/// Differs   from fa1: query blocks outside and tiles inside, so O, l and m are read and written once
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K Tr n_kv D, V Tr n_kv D,
///           O n_q D, l n_q, m n_q; writes O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

/// How the 32 lanes of a warp divide 32 rows of `Width` columns among themselves: the lane at (down,
/// across) has the rows down + kDown j, and of each the columns 4 across + 4 kAcross g + {0, 1, 2, 3}.
/// Neighbouring lanes have the same columns, lanes two apart the same rows: that lets the hardware
/// serve 16 bytes to each lane in two goes instead of four.
template <int Width> struct LaneGrid {
  static constexpr int kGroups = Width >= 64 ? 2 : 1; ///< of four columns
  static constexpr int kColumns = 4 * kGroups;        ///< of a lane
  static constexpr int kAcross = Width / kColumns;
  static constexpr int kDown = 32 / kAcross;
  static constexpr int kRows = kAcross; ///< of a lane
  static_assert(kAcross * kColumns == Width && kAcross * kDown == 32,
                "a width is a power of two from 4 to 64");

  static __device__ __forceinline__ int across(int lane) { return lane / 2 % kAcross; }
  static __device__ __forceinline__ int down(int lane) {
    return lane % 2 + lane / (2 * kAcross) * 2;
  }
};

/// The shared memory of a block. Rows are four floats longer than they need be, so that neighbouring
/// rows begin in different banks.
template <int Br, int Bc, int D> struct TunedTiles {
  float Qi[Br][D + 4];
  float Kj[Bc][D + 4]; ///< column c in row place_of_key(c)
  float Vj[Bc][D];
  float Pij[Br][Bc + 4]; ///< scores, then weights
  float carried[Br];     ///< alpha l
  float l_new[Br];
  float reciprocal[Br]; ///< 1 / l_new
};

/// A K tile lies in such an order that lanes which are neighbours in LaneGrid read neighbouring rows.
template <int Bc> static __device__ __forceinline__ int place_of_key(int c) {
  constexpr int kAcross = LaneGrid<Bc>::kAcross;
  return c / 4 % kAcross + kAcross * (c % 4 + 4 * (c / (4 * kAcross)));
}

/// Begins to copy rows of D floats from `from` on to where place(row) says, by all Threads of the
/// block; rows from `exist` on become 0.
template <int Threads, int Rows, int D, int Stride, class Place>
static __device__ __forceinline__ void copy_rows(float (&to)[Rows][Stride], hbm<const float> from,
                                                 int exist, Place place) {
  constexpr int kPieces = Rows * D / 4;
  FA1_UNROLL(8)
  for (int first = 0; first < kPieces; first += Threads) {
    const int piece = first + static_cast<int>(threadIdx.x), row = piece / (D / 4);
    if (kPieces % Threads == 0 || piece < kPieces)
      fa1_copy4_async(&to[place(row)][piece % (D / 4) * 4], from + 4 * piece, row < exist);
  }
}

/// The softmax of one row: turns its scores into weights, 0 from `columns` on; raises m. Returns the
/// sum of the weights.
template <int Bc>
static __device__ __forceinline__ float weigh_row(float* row, int columns, float& m) {
  float s[4];
  FA1_UNROLL(4)
  for (int c = 0; c < Bc; c += 4) {
    fa1_load4(s, row + c);
    FA1_UNROLL(4)
    for (int k = 0; k < 4; ++k)
      if (c + k < columns)
        m = fmaxf(m, s[k]);
  }
  float sum_p = 0.0f;
  FA1_UNROLL(4)
  for (int c = 0; c < Bc; c += 4) {
    fa1_load4(s, row + c);
    FA1_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      s[k] = c + k < columns ? expf(s[k] - m) : 0.0f; // from here on p
      sum_p += s[k];
    }
    fa1_store4(row + c, s);
  }
  return sum_p;
}

/// x / l for each x, as IEEE divides, with r = 1 / l rounded.
///
/// x r is within two units in the last place of x / l, and what it lacks is known exactly, as one
/// fused x - q l. After one correction q is one of the two floats around x / l; then another one gives
/// the nearer of them (Markstein 1990). Nothing of that leaves the normal range for the x and l that
/// are let in, and NaN stays NaN; any other x or l, and x = 0, is divided by the hardware's long way.
template <int Count>
static __device__ __forceinline__ void divide(float (&x)[Count], float l, float r) {
  float smallest = fabsf(x[0]), largest = fabsf(x[0]);
  FA1_UNROLL(Count)
  for (int i = 1; i < Count; ++i) {
    smallest = fminf(smallest, fabsf(x[i]));
    largest = fmaxf(largest, fabsf(x[i]));
  }
  if (l >= 0x1p-30f && l <= 0x1p30f && smallest >= 0x1p-90f && largest <= 0x1p90f) {
    FA1_UNROLL(Count)
    for (int i = 0; i < Count; ++i) {
      float q = __fmul_rn(x[i], r);
      q = __fmaf_rn(__fmaf_rn(-q, l, x[i]), r, q);
      x[i] = __fmaf_rn(__fmaf_rn(-q, l, x[i]), r, q);
    }
  } else {
    FA1_UNROLL(Count)
    for (int i = 0; i < Count; ++i)
      x[i] = x[i] / l;
  }
}

template <int Br, int Bc, int D>
static __global__ void __launch_bounds__(Br, 2)
    fa1_tuned(hbm<const float> Q, hbm<const float> K, hbm<const float> V, hbm<float> O,
              hbm<float> l, hbm<float> m, long long n_q, long long n_kv, float scale) {
  static_assert(Br % 32 == 0, "a warp has 32 rows");
  using Tiles = TunedTiles<Br, Bc, D>;
  using ScoreGrid = LaneGrid<Bc>;
  using OutputGrid = LaneGrid<D>;
  FA1_DYNAMIC_SHARED(Tiles, tiles);
  auto& [Qi, Kj, Vj, Pij, carried, l_new, reciprocal] = *tiles;

  Q += blockIdx.x * n_q * D;
  K += blockIdx.x * n_kv * D;
  V += blockIdx.x * n_kv * D;
  O += blockIdx.x * n_q * D;
  l += blockIdx.x * n_q;
  m += blockIdx.x * n_q;
  const int thread =
      static_cast<int>(threadIdx.x); // has the row of this number between the products
  const int lane = thread % 32, warp_row = thread - lane;
  const int score_row = warp_row + ScoreGrid::down(lane), score_across = ScoreGrid::across(lane);
  const int output_row = warp_row + OutputGrid::down(lane),
            output_across = OutputGrid::across(lane);
  const auto in_order = [](int row) { return row; };

  for (long long row0 = static_cast<long long>(blockIdx.y) * Br; row0 < n_q && n_kv > 0;
       row0 += static_cast<long long>(gridDim.y) * Br) {
    const int rows = static_cast<int>(n_q - row0 < Br ? n_q - row0 : Br);
    copy_rows<Br, Br, D>(Qi, Q + row0 * D, rows, in_order);
    copy_rows<Br, Bc, D>(Kj, K + 0, columns_from<Bc>(0, n_kv), place_of_key<Bc>);

    float o[OutputGrid::kRows][OutputGrid::kColumns] = {};
    FA1_UNROLL(OutputGrid::kRows)
    for (int j = 0; j < OutputGrid::kRows; ++j) {
      const int r = output_row + OutputGrid::kDown * j;
      FA1_UNROLL(OutputGrid::kGroups)
      for (int g = 0; g < OutputGrid::kGroups; ++g)
        if (r < rows)
          fa1_load4(&o[j][4 * g],
                    O + ((row0 + r) * D + 4 * (output_across + OutputGrid::kAcross * g)));
    }
    float m_row = thread < rows ? m[row0 + thread] : -FA1_INFINITY;
    float l_row = thread < rows ? l[row0 + thread] : 0.0f;

    for (long long key0 = 0; key0 < n_kv; key0 += Bc) {
      const int columns = columns_from<Bc>(key0, n_kv);
      fa1_wait_for_copies();
      __syncthreads(); // Q and K have arrived, and nobody reads V and the weights any more
      copy_rows<Br, Bc, D>(Vj, V + key0 * D, columns, in_order);

      float s[ScoreGrid::kRows][ScoreGrid::kColumns] = {};
      FA1_UNROLL(1)
      for (int i = 0; i < D; i += 4) {
        float q[ScoreGrid::kRows][4], k[4];
        FA1_UNROLL(ScoreGrid::kRows)
        for (int j = 0; j < ScoreGrid::kRows; ++j)
          fa1_load4(q[j], &Qi[score_row + ScoreGrid::kDown * j][i]);
        FA1_UNROLL(ScoreGrid::kColumns)
        for (int c = 0; c < ScoreGrid::kColumns; ++c) {
          fa1_load4(k, &Kj[score_across + ScoreGrid::kAcross * c][i]);
          FA1_UNROLL(4)
          for (int h = 0; h < 4; ++h)
            FA1_UNROLL(ScoreGrid::kRows)
          for (int j = 0; j < ScoreGrid::kRows; ++j)
            s[j][c] += q[j][h] * k[h];
        }
      }
      FA1_UNROLL(ScoreGrid::kRows)
      for (int j = 0; j < ScoreGrid::kRows; ++j) {
        FA1_UNROLL(ScoreGrid::kColumns)
        for (int c = 0; c < ScoreGrid::kColumns; ++c)
          s[j][c] = __fmul_rn(s[j][c], scale); // rounded here, never fused
        FA1_UNROLL(ScoreGrid::kGroups)
        for (int g = 0; g < ScoreGrid::kGroups; ++g)
          fa1_store4(
              &Pij[score_row + ScoreGrid::kDown * j][4 * (score_across + ScoreGrid::kAcross * g)],
              &s[j][4 * g]);
      }
      __syncwarp(); // the scores of the warp's rows are complete

      const float m_old = m_row;
      const float sum_p = columns == Bc ? weigh_row<Bc>(Pij[thread], Bc, m_row)
                                        : weigh_row<Bc>(Pij[thread], columns, m_row);
      carried[thread] = __fmul_rn(expf(m_old - m_row), l_row);
      l_row = carried[thread] + sum_p;
      l_new[thread] = l_row;
      reciprocal[thread] = 1.0f / l_row;

      fa1_wait_for_copies();
      __syncthreads(); // V has arrived, weights are complete, and nobody reads Q and K any more
      if (key0 + Bc < n_kv)
        copy_rows<Br, Bc, D>(Kj, K + (key0 + Bc) * D, columns_from<Bc>(key0 + Bc, n_kv),
                             place_of_key<Bc>);

      float pv[OutputGrid::kRows][OutputGrid::kColumns] = {};
      FA1_UNROLL(1)
      for (int c = 0; c < Bc; c += 4) {
        float p[OutputGrid::kRows][4], v[OutputGrid::kColumns];
        FA1_UNROLL(OutputGrid::kRows)
        for (int j = 0; j < OutputGrid::kRows; ++j)
          fa1_load4(p[j], &Pij[output_row + OutputGrid::kDown * j][c]);
        FA1_UNROLL(4)
        for (int h = 0; h < 4; ++h) {
          FA1_UNROLL(OutputGrid::kGroups)
          for (int g = 0; g < OutputGrid::kGroups; ++g)
            fa1_load4(&v[4 * g], &Vj[c + h][4 * (output_across + OutputGrid::kAcross * g)]);
          FA1_UNROLL(OutputGrid::kRows)
          for (int j = 0; j < OutputGrid::kRows; ++j)
            FA1_UNROLL(OutputGrid::kColumns)
          for (int i = 0; i < OutputGrid::kColumns; ++i)
            pv[j][i] += p[j][h] * v[i];
        }
      }
      FA1_UNROLL(OutputGrid::kRows)
      for (int j = 0; j < OutputGrid::kRows; ++j) {
        const int r = output_row + OutputGrid::kDown * j;
        FA1_UNROLL(OutputGrid::kColumns)
        for (int i = 0; i < OutputGrid::kColumns; ++i)
          o[j][i] = carried[r] * o[j][i] + pv[j][i];
        divide(o[j], l_new[r], reciprocal[r]);
      }
    }

    FA1_UNROLL(OutputGrid::kRows)
    for (int j = 0; j < OutputGrid::kRows; ++j) {
      const int r = output_row + OutputGrid::kDown * j;
      FA1_UNROLL(OutputGrid::kGroups)
      for (int g = 0; g < OutputGrid::kGroups; ++g)
        if (r < rows)
          fa1_store4(O + ((row0 + r) * D + 4 * (output_across + OutputGrid::kAcross * g)),
                     &o[j][4 * g]);
    }
    if (thread < rows) {
      m[row0 + thread] = m_row;
      l[row0 + thread] = l_row;
    }
  }
}

} // namespace fa1::kernels
