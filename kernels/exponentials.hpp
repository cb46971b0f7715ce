/// How far an exponential is off, as the forward bound of numerics/bounds.hpp needs it: c and mu in
/// |f(x) - b^x| <= c u b^x where b^x >= 2^-126, and <= mu below.
///
/// The numbers are rows of exponentials.def: measured over all arguments where the library and the toolkit are those of
/// a row, and otherwise what is documented of every version.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fa1::kernels {

struct ExpError {
  std::string_view
      library; ///< `glibc 2.36 x86_64`, `NVIDIA H200`; documented: the start of its name, or empty
  std::string_view toolkit;  ///< `CUDA 13.0`; of a libm empty; documented: its start
  std::string_view function; ///< expf
  double ulp;                ///< largest error in ulp where the result is normal
  double relative;           ///< c, in u = 2^-24
  double underflow;          ///< mu / 2^-149
  float at;                  ///< argument of the largest relative error; 0 where it is not known
  float underflow_at;        ///< of the largest error below 2^-126
  bool swept;                ///< false: documented
  std::string_view source;

  double c() const { return relative; }
  double mu() const { return underflow * 0x1p-149; }
};

std::span<const ExpError> exp_errors();

/// The row of this library and toolkit where there is one, else the documented one; nullptr where nothing is known.
const ExpError* exp_error_of(std::string_view library, std::string_view toolkit,
                             std::string_view function);

/// The C library this process runs with, and the processor's family: `glibc 2.36 x86_64`.
std::string host_libm();

struct CudaDevice {
  std::string name;    ///< as the driver says it
  std::string toolkit; ///< whose nvcc compiled the kernels, and with them their expf
};

/// The current device; nothing where cuda_obstacle() says why.
std::optional<CudaDevice> cuda_device();

/// Of expf on the host and on the current device.
const ExpError& host_exp_error();
const ExpError& cuda_exp_error();

} // namespace fa1::kernels
