/// The plain loops that the certified truth and the kernel are timed against, under stated flags.
///
/// Computes  attention<double> of reference/attention.hpp and the mirror of reference/tiled_mirror.hpp
/// Flags     plain_loops.cpp is compiled once with the project's flags and once with those of the
///           kernel instances; everything is inlined into the functions here, so that no other
///           translation unit's copy of a template runs in their place
#pragma once

#include "reference/attention.hpp"
#include "reference/problem.hpp"

#include <cstdint>

namespace fa1::reports {

struct PlainLoops {
  const char* flags;
  reference::Answer<double> (*attention)(const reference::Problem& problem);
  /// The same for AVX2, not fused; nullptr where this machine has none.
  reference::Answer<double> (*attention_avx2)(const reference::Problem& problem);
  reference::State (*mirror)(const reference::Problem& problem, std::int64_t Bc);
};

PlainLoops project_loops(); ///< as the references are compiled
PlainLoops kernel_loops();  ///< as the kernels are compiled

} // namespace fa1::reports
