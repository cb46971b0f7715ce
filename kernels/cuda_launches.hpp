/// What launch_cuda.cu and the translation units of cuda_instances.cu share.
#pragma once

#include "kernels/instances.hpp"

#include <utility>
#include <vector>

namespace fa1::kernels {

/// Instance's functions take one argument, as on the CPU; the grid of the launch in progress
/// travels beside it.
struct GridOfLaunch {
  unsigned batch_heads = 1;
  unsigned y = 1;
  unsigned threads = 1;
  unsigned dynamic_shared_bytes = 0;
};
extern thread_local GridOfLaunch grid_of_launch;

/// Head dimensions that every variant has; builds that are there to be compared have no more.
using FewHeadDimensions = std::integer_sequence<int, 1, 4, 8, 64>;
using OneHeadDimension = std::integer_sequence<int, 8>;

// The instances of each build, one translation unit each.
#define FA1_CUDA_BUILD(name, ...) std::vector<Instance> cuda_instances_##name();
#include "kernels/builds.def"
#undef FA1_CUDA_BUILD

} // namespace fa1::kernels
