/// What lower precision costs: the error of an emulated configuration, split into that of the
/// rounded inputs and that of the arithmetic.
///
/// Computes  for each configuration (emulation.hpp), against the certified truth:
///             inputs      exact answer of the prepared problem - exact answer of the problem: what
///                         is lost before the kernel starts
///             arithmetic  computed - exact answer of the prepared problem: what the kernel loses
///             total       computed - exact answer of the problem, their sum element by element
/// Units     sum p|v| of the problem as given times u = 2^-24, the same for all configurations, and
///           the unit of error.hpp; absolute; and RMS error over the RMS of the exact answer
/// Error     the truth's radius is not in it: below 1e-15 of what the coarsest format here makes
/// Special   a NaN or Inf makes every number it enters NaN or Inf, and is counted
#pragma once

#include "numerics/emulation.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fa1::numerics {

struct PrecisionError {
  double max = 0.0;  ///< max |error| / (u sum p|v|)
  double rms = 0.0;  ///< root mean square of the same
  double mean = 0.0; ///< mean of the same with its sign
  double max_absolute = 0.0;
  double rms_absolute = 0.0; ///< RMSE
  double relative = 0.0;     ///< RMSE / RMS of the exact answer it is held against
};

struct PrecisionRecord {
  Configuration configuration;
  std::int64_t Bc = 1; ///< keys of a tile; n_kv where the softmax is of whole rows
  std::int64_t elements = 0;
  std::int64_t not_finite = 0; ///< elements of O that are NaN or Inf
  PrecisionError inputs, arithmetic, total;
};

/// One record a configuration, in their order. Results do not depend on `threads`. `done` is called
/// once for each configuration, by any thread.
std::vector<PrecisionRecord> measure_precision(const reference::Problem& problem,
                                               std::span<const Configuration> configurations,
                                               std::int64_t Bc, unsigned threads = 1,
                                               const std::function<void()>& done = {});

} // namespace fa1::numerics
