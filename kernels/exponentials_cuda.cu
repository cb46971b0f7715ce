// The GPU side of exponentials.hpp.
#include "kernels/exponentials.hpp"

#include <cuda_runtime.h>

namespace fa1::kernels {

std::optional<CudaDevice> cuda_device() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    return std::nullopt;
  return CudaDevice{properties.name, "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                                         std::to_string(CUDART_VERSION % 1000 / 10)};
}

} // namespace fa1::kernels
