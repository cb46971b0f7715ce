/// The rows of papers.hpp that are of the algorithm and not of a format.
///
/// softmax_rows   Blanchard, Higham and Higham 2021: the shifted softmax in fp32, sums in order; its error in the
///                maximum norm, relative to the largest weight, over [n + 2 + 2 (xmax - xmin)] u
/// grade_rows     Demmel et al. 2026: grade and slopes of fa1, by growth.hpp
/// merge_rows     Milakov and Gimelshein 2018: (a + b) + c against a + (b + c) with the merge of
///                kernels/split_kv.cuh, whose l is their d. Bound: with w_i = l_i exp(m_i - M) a state passes two
///                merges at most, so its weight is w_i e^x, |x| <= u (M - m_i + 2 c + 2), and l meets two sums;
///                either order is so close to the exact sum, hence the two twice that to each other
/// traffic_rows   FlashAttention-1 (Dao et al. 2022): floats moved by fa1, counted load by load, over the closed
///                form; and their slope against N^2 d^2 / M, M the floats of shared memory
/// Error          softmax and merge are held against doubles: 2^-28 of u
#pragma once

#include "numerics/papers.hpp"

#include <vector>

namespace fa1::numerics {

std::vector<PaperRow> softmax_rows(PaperSet set);
std::vector<PaperRow> grade_rows(PaperSet set, unsigned threads);
std::vector<PaperRow> merge_rows();
std::vector<PaperRow> traffic_rows(PaperSet set, unsigned threads);

} // namespace fa1::numerics
