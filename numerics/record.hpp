/// One measurement as data: what was run, how, and what came out.
///
/// Tests, tables and plots are made of these alone; sweep.hpp's `measure` fills one.
/// Units     error.* as in error.hpp; seconds of wall time
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/error.hpp"
#include "numerics/verdict.hpp"
#include "reference/recipe.hpp"

#include <cstdint>
#include <string>

namespace fa1::numerics {

struct Record {
  reference::Recipe recipe;
  reference::Shape shape;
  std::string kernel;    ///< id of the instance
  std::string chosen_by; ///< as in kernels::Kernel
  kernels::Backend backend = kernels::Backend::cpu;
  kernels::Arithmetic arithmetic;
  std::string schedule; ///< order of the threads of a block
  std::string truth;    ///< the arithmetic that made the truth
  ErrorSummary error;
  std::int64_t not_finite = 0; ///< elements of O that are NaN or Inf
  double eta = 0.0;            ///< largest score error bound over the rows
  double spread = 0.0;         ///< largest max_j M - s_j over the rows
  Verdict verdict;
  double kernel_seconds = 0.0;
  double truth_seconds = 0.0;
};

} // namespace fa1::numerics
