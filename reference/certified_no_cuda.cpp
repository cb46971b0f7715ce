// certified_cuda.hpp in a build without CUDA.
#include "reference/certified_cuda.hpp"

namespace fa1::reference {

std::string certify_cuda_obstacle() {
  return "this build has no CUDA (configure the `cuda` preset on a machine with nvcc)";
}

Truth certify_cuda(const Problem&, unsigned, DeviceTimes*) {
  throw DeviceError("cuda: " + certify_cuda_obstacle());
}

} // namespace fa1::reference
