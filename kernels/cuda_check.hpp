/// The status of a call of CUDA's runtime as a KernelError that names the call. For sources that nvcc compiles; empty for
/// others.
#pragma once

#ifdef __CUDACC__

#include "kernels/kernel.hpp"

#include <cuda_runtime.h>

#include <string>

namespace fa1::kernels {

inline void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw KernelError(std::string("cuda: ") + call + ": " + cudaGetErrorString(status));
}

} // namespace fa1::kernels

#endif
