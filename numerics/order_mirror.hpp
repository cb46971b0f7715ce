/// A kernel of the family as plain loops, in its own order of operations.
///
/// Computes  per query row and tile what stays on the chip, and O, l and m at the end, for each
///           kernels::Order
/// Shapes    `rows` is [batch_heads][tiles][n_q]; `ranges` and `merged` hold a state for every
///           range of keys (Order::ranges alone)
/// Requires  a translation unit compiled with -ffp-contract=off; `carries` is the start for kernels
///           that do not resume
/// Error     numerics/bounds.hpp, that of the kernel
/// Special   as the kernel, bit for bit (the payload and sign of NaN aside)
/// Source    the .cuh of each variant, paragraph Order
/// Twin      the plain instances of every row of variants.def; tests/steps_test.cpp compares the
///           bits
#pragma once

#include "kernels/kernel.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <vector>

namespace fa1::numerics {

inline constexpr float kLag = 0x1.62e43p+2f; ///< 8 ln 2, as lazy_rescale.cuh rounds it

struct RowInTile {
  std::vector<float> s, p, pv;
  std::vector<float> w; ///< what the values are weighted with, where that is not p
  float m_tile = 0, sum_p = 0, alpha = 0, beta = 0;
  float carried = 0;    ///< what the tile's sum is added to
  float m = 0, l = 0;   ///< after the tile
  std::vector<float> O; ///< after the tile; A = l O where it is divided at the end alone
};

struct Mirrored {
  std::vector<RowInTile> rows;
  reference::State last; ///< LSE in m and 1 in l where the kernel gives LSE
  std::vector<reference::State> ranges, merged;
};

Mirrored mirror_of(const reference::Problem& problem, const kernels::Kernel& kernel,
                   reference::State carries);

} // namespace fa1::numerics
