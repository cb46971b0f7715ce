/// fa1 as one would ship it: a warp owns 32 query rows, each thread a tile of their scores and of
/// their outputs in registers, and of K and V one arrives while the other is worked on.
///
/// Computes  what fa1.cuh does, in the same order of operations
/// Shapes    as fa1.cuh; Br a multiple of 32, Bc and D powers of two from 4 to 64
/// Launch    grid (batch_heads, any: query blocks are dealt out over y), block of exactly Br
///           threads; sizeof(TunedTiles<Br, Bc, D>) bytes of dynamic shared memory,
///           4 (Br + Bc) (D + 4) + 4 Bc D + 4 Br (Bc + 8)
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
/// Speed     reports/published/h200/tuned.md, with what it waits for
/// Traffic   per batch-head, floats, Tr = ceil(n_q / Br): reads Q n_q D, K Tr n_kv D, V Tr n_kv D,
///           O n_q D, l n_q, m n_q; writes O n_q D, l n_q, m n_q
#pragma once

#include "kernels/family.cuh"

namespace fa1::kernels {

/// How the 32 lanes of a warp divide 32 rows of `Width` columns among themselves: the lane at (down,
/// across) has the rows down + kDown j, and of each the columns 4 across + 4 kAcross g + {0, 1, 2, 3}.
/// Neighbouring lanes have the same columns, lanes two apart the same rows: then 16 bytes for each lane
/// are two wavefronts of shared memory (2.1 measured).
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
  float reciprocal[Br]; ///< see Divisor
  float rest[Br];
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
    if (c + 4 <= columns) { // fmaxf is associative: the maximum of fa1.cuh, down to the sign of 0
      m = fmaxf(m, fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3])));
      continue;
    }
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

/// Loads four columns of a lane's rows.
template <class Grid, int Rows, int Stride>
static __device__ __forceinline__ void
load_rows(float (&x)[Grid::kRows][4], const float (&from)[Rows][Stride], int row, int column) {
  FA1_UNROLL(Grid::kRows)
  for (int j = 0; j < Grid::kRows; ++j)
    fa1_load4(x[j], &from[row + Grid::kDown * j][column]);
}

/// What a division by l needs, besides l, to be the product of a few: r = 1 / l, and the rest of 1 / l.
struct Divisor {
  float l, reciprocal, rest;
};

static __device__ __forceinline__ Divisor divisor_of(float l) {
  const float reciprocal = 1.0f / l;
  return {l, reciprocal, __fmul_rn(__fmaf_rn(-l, reciprocal, 1.0f), reciprocal)};
}

/// x[j][i] / l[j] as IEEE divides.
///
/// r + rest is 1 / l to twice the precision, so that q = x r + x rest is one of the two floats around
/// x / l. What it lacks, x - q l, is a float; added to q, over l, it gives the nearer of the two
/// (Markstein 1990). Nothing leaves the normal range on the way where the exponents of x are in
/// [-63, 64] and l in [2^-30, 2^30]. With any other x or l, and x = 0, the division is done as it stands.
template <int Rows, int Columns>
static __device__ __forceinline__ void divide(float (&x)[Rows][Columns],
                                              const Divisor (&divisors)[Rows]) {
  bool ordinary = true;
  unsigned exponents = ~0u; // bit 30 stays where bit 30 of each x is set after the addition of 2^29
  FA1_UNROLL(Rows)
  for (int j = 0; j < Rows; ++j) {
    ordinary = ordinary && divisors[j].l >= 0x1p-30f && divisors[j].l <= 0x1p30f;
    FA1_UNROLL(Columns)
    for (int i = 0; i < Columns; ++i)
      exponents &= __float_as_uint(x[j][i]) + 0x20000000u;
  }
  const bool by_products = ordinary && (exponents & 0x40000000u) != 0;
  if (by_products) {
    FA1_UNROLL(Rows)
    for (int j = 0; j < Rows; ++j) {
      const Divisor d = divisors[j];
      FA1_UNROLL(Columns)
      for (int i = 0; i < Columns; ++i) {
        const float q = __fmaf_rn(x[j][i], d.reciprocal, __fmul_rn(x[j][i], d.rest));
        x[j][i] = __fmaf_rn(__fmaf_rn(-q, d.l, x[j][i]), d.reciprocal, q);
      }
    }
  } else {
    FA1_UNROLL(Rows)
    for (int j = 0; j < Rows; ++j)
      FA1_UNROLL(Columns)
    for (int i = 0; i < Columns; ++i)
      x[j][i] = x[j][i] / divisors[j].l;
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
  auto& [Qi, Kj, Vj, Pij, carried, l_new, reciprocal, rest] = *tiles;

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
      constexpr int kAheadD = D > 4 ? 2 : 1; // q of the next four components is loaded beforehand
      float q[2][ScoreGrid::kRows][4];
      load_rows<ScoreGrid>(q[0], Qi, score_row, 0);
      FA1_UNROLL(1)
      for (int i = 0; i < D; i += 4 * kAheadD) {
        FA1_UNROLL(kAheadD)
        for (int ahead = 0; ahead < kAheadD; ++ahead) {
          load_rows<ScoreGrid>(q[1 - ahead], Qi, score_row, i + 4 * ahead + 4); // at last padding
          FA1_UNROLL(ScoreGrid::kColumns)
          for (int c = 0; c < ScoreGrid::kColumns; ++c) {
            float k[4];
            fa1_load4(k, &Kj[score_across + ScoreGrid::kAcross * c][i + 4 * ahead]);
            FA1_UNROLL(4)
            for (int h = 0; h < 4; ++h)
              FA1_UNROLL(ScoreGrid::kRows)
            for (int j = 0; j < ScoreGrid::kRows; ++j)
              s[j][c] += q[ahead][j][h] * k[h];
          }
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
      const Divisor divisor = divisor_of(l_row);
      l_new[thread] = l_row;
      reciprocal[thread] = divisor.reciprocal;
      rest[thread] = divisor.rest;

      fa1_wait_for_copies();
      __syncthreads(); // V has arrived, weights are complete, and nobody reads Q and K any more
      if (key0 + Bc < n_kv)
        copy_rows<Br, Bc, D>(Kj, K + (key0 + Bc) * D, columns_from<Bc>(key0 + Bc, n_kv),
                             place_of_key<Bc>);

      float pv[OutputGrid::kRows][OutputGrid::kColumns] = {};
      constexpr int kAheadBc = Bc > 4 ? 2 : 1;
      float p[2][OutputGrid::kRows][4];
      load_rows<OutputGrid>(p[0], Pij, output_row, 0);
      FA1_UNROLL(1)
      for (int c = 0; c < Bc; c += 4 * kAheadBc) {
        FA1_UNROLL(kAheadBc)
        for (int ahead = 0; ahead < kAheadBc; ++ahead) {
          load_rows<OutputGrid>(p[1 - ahead], Pij, output_row, c + 4 * ahead + 4);
          FA1_UNROLL(4)
          for (int h = 0; h < 4; ++h) {
            float v[OutputGrid::kColumns];
            FA1_UNROLL(OutputGrid::kGroups)
            for (int g = 0; g < OutputGrid::kGroups; ++g)
              fa1_load4(&v[4 * g],
                        &Vj[c + 4 * ahead + h][4 * (output_across + OutputGrid::kAcross * g)]);
            FA1_UNROLL(OutputGrid::kRows)
            for (int j = 0; j < OutputGrid::kRows; ++j)
              FA1_UNROLL(OutputGrid::kColumns)
            for (int i = 0; i < OutputGrid::kColumns; ++i)
              pv[j][i] += p[ahead][j][h] * v[i];
          }
        }
      }

      Divisor divisors[OutputGrid::kRows];
      FA1_UNROLL(OutputGrid::kRows)
      for (int j = 0; j < OutputGrid::kRows; ++j) {
        const int r = output_row + OutputGrid::kDown * j;
        divisors[j] = {l_new[r], reciprocal[r], rest[r]};
        FA1_UNROLL(OutputGrid::kColumns)
        for (int i = 0; i < OutputGrid::kColumns; ++i)
          o[j][i] = carried[r] * o[j][i] + pv[j][i];
      }
      divide(o, divisors);
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
