/// Exponentials of fp32, asked for every argument: expf and exp2f of the host's libm, and on a GPU expf, exp2f, __expf
/// and the hardware's ex2.approx with and without .ftz.
///
/// Computes  ExponentialErrors (exponential_errors.hpp has the definitions) over a range of arguments; the same on any
///           number of threads
/// Cost      2^32 arguments: some minutes of processor time on a CPU, under a second on a GPU
/// Errors    KernelError from a CUDA call
#pragma once

#include "numerics/exponential_errors.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fa1::numerics {

struct Exponential {
  std::string function; ///< expf, exp2f, __expf, ex2.approx, ex2.approx.ftz
  std::string library;  ///< whose it is: `glibc 2.36 x86_64`, `NVIDIA H200`
  std::string toolkit;  ///< of a GPU: `CUDA 13.0`
  Base base = Base::e;
  /// What all arguments of a range show; `done` hears of each piece, as a part of the range.
  std::function<ExponentialErrors(const ArgumentRange& range, unsigned threads,
                                  const std::function<void(double)>& done)>
      sweep;
  std::function<std::vector<float>(std::span<const float> x)> answers;
};

/// The same for any function of this process.
Exponential exponential_of(std::string function, std::string library, Base base, float (*f)(float));

/// expf and exp2f of the libm that this process runs with.
std::vector<Exponential> host_exponentials();

/// Those of the current device; empty where kernels::cuda_obstacle() says why.
std::vector<Exponential> cuda_exponentials();

/// Arguments at which a special answer is asked for: infinities, NaN, zeros, subnormals, the largest numbers.
struct SpecialArgument {
  const char* name;
  std::uint32_t bits;
};
std::span<const SpecialArgument> special_arguments();

} // namespace fa1::numerics
