// The GPU side of exponentials.hpp in a build without CUDA.
#include "kernels/exponentials.hpp"

namespace fa1::kernels {

std::optional<CudaDevice> cuda_device() { return std::nullopt; }

} // namespace fa1::kernels
