/// The certified truth in the order in which a GPU makes it, and everything of it that stays on the
/// CPU.
///
/// Computes  plan_of        what the tiles need to know beforehand, and which rows they can do
///           certify_tiles  O, l, m, LSE by the loops of certified_cuda.cu, on the CPU, bit for bit
///           finished       l, m and LSE from what the tiles left of each row
///           completed      the truth of all rows: those that are not covered come from certify()
/// Shapes    as in problem.hpp
/// Error     |hi + lo - exact| <= radius for every element of a covered row; derived in
///           CERTIFIED.md, "In tiles, on a GPU". The radius of O is about
///           (2^-91.5 + (2 d^2 + 6 d) 2^-106 W) sum_j p_j |v_j|, W = |scale| |q| max|k|, or 2 W
///           where some row's is above 256
/// Covers    rows with finite q, |scale| |q| max|k| <= 2^32, in a batch-head with at least one key
///           and finite K and V, under a finite scale; other rows of `truth` mean nothing
#pragma once

#include "reference/certified_tile.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <vector>

namespace fa1::reference::tile {

struct Plan {
  Shape shape;
  std::int64_t tiles = 0;    ///< of keys, the last one perhaps in part
  bool shifted = false;      ///< scores are large enough to need a maximum beforehand
  double scale = 0.0;        ///< 0 where it is not finite
  std::vector<Row> rows;     ///< [batch_heads * n_q], M^ = 0 so far
  std::vector<char> covered; ///< [batch_heads * n_q]
};

Plan plan_of(const Problem& problem, unsigned threads = 1);

/// Rows of the truth that count.
struct PartialTruth {
  Truth truth;
  std::vector<char> covered; ///< [batch_heads * n_q]
};

/// A float as the tiles take it: NaN and Inf, which are not covered, as 0.
FA1_HOST_DEVICE inline double taken(float x, double scale) {
  const double y = static_cast<double>(x) * scale; // exact: 48 bits
  return std::fabs(y) <= 0x1p300 ? y : 0.0;
}

/// `O` of all rows, and their sums; rows[i].shift as it was used.
PartialTruth finished(const Plan& plan, Tensor<Enclosed> O, const std::vector<RowSums>& sums,
                      const std::vector<double>& shifts, unsigned threads = 1);

PartialTruth certify_tiles(const Problem& problem, unsigned threads = 1);

Truth completed(const Problem& problem, PartialTruth partial, unsigned threads = 1);

} // namespace fa1::reference::tile
