/// Where the truth of a problem comes from.
///
/// truth_of     by certify() or by certify_cuda(); both enclose the exact answer, each with a radius
///              of its own
/// worth_a_gpu  are there rows enough to keep a GPU busy (kRowsForAGpu), is the problem so large
///              (kWorthAGpu) that its start and the copies pay, and do all keys fit into memory?
/// made_by_gpu  by the GPU? `automatic`: where one is and the problem is worth it
/// Errors       DeviceError where a GPU is asked for that is not there, or fails
#pragma once

#include "reference/problem.hpp"

#include <cstdint>

namespace fa1::reference {

enum class TruthSource { automatic, cpu, gpu };

/// Multiply-adds: some seconds of certify() on one core.
inline constexpr double kWorthAGpu = 0x1p33;
inline constexpr std::int64_t kRowsForAGpu = 1024;

bool worth_a_gpu(const Shape& shape);

bool made_by_gpu(const Shape& shape, TruthSource source);

Truth truth_of(const Problem& problem, TruthSource source, unsigned threads = 1);

} // namespace fa1::reference
