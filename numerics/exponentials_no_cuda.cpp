// The GPU side of exponentials.hpp in a build without CUDA.
#include "numerics/exponentials.hpp"

namespace fa1::numerics {

std::vector<Exponential> cuda_exponentials() { return {}; }

} // namespace fa1::numerics
