// The GPU side of launch.hpp in a build without CUDA.
#include "kernels/launch.hpp"

namespace fa1::kernels {

std::string cuda_obstacle() {
  return "this build has no CUDA (configure the `cuda` preset on a machine with nvcc)";
}

const std::vector<CudaBuild>& cuda_builds() {
  static const std::vector<CudaBuild> none;
  return none;
}

void launch_cuda(const Instance&, const Arguments&, const Launch&) {
  throw KernelError("cuda: " + cuda_obstacle());
}

void set_device_memory(DeviceMemory) {}

} // namespace fa1::kernels
