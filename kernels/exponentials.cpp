#include "kernels/exponentials.hpp"

#include <sys/utsname.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <array>

namespace fa1::kernels {
namespace {

constexpr std::array kRows{
#define FA1_SWEPT(library, toolkit, function, ulp, relative, at, underflow, underflow_at, source)  \
  ExpError{library, toolkit, function, ulp, relative, underflow, at, underflow_at, true, source},
#define FA1_DOCUMENTED(library, toolkit, function, ulp, relative, underflow, source)               \
  ExpError{library, toolkit, function, ulp, relative, underflow, 0.0f, 0.0f, false, source},
#include "kernels/exponentials.def"
#undef FA1_DOCUMENTED
#undef FA1_SWEPT
};

} // namespace

std::span<const ExpError> exp_errors() { return kRows; }

const ExpError* exp_error_of(std::string_view library, std::string_view toolkit,
                             std::string_view function) {
  const ExpError* documented = nullptr;
  for (const ExpError& row : kRows) {
    if (row.function != function)
      continue;
    if (row.swept && row.library == library && row.toolkit == toolkit)
      return &row;
    if (!row.swept && documented == nullptr && library.starts_with(row.library) &&
        toolkit.starts_with(row.toolkit) && row.toolkit.empty() == toolkit.empty())
      documented = &row;
  }
  return documented;
}

std::string host_libm() {
  utsname system{};
  uname(&system);
#ifdef __GLIBC__
  return std::string("glibc ") + gnu_get_libc_version() + " " + system.machine;
#else
  return std::string("libm of ") + system.sysname + " " + system.machine;
#endif
}

const ExpError& host_exp_error() {
  static const ExpError& row = *exp_error_of(host_libm(), "", "expf");
  return row;
}

const ExpError& cuda_exp_error() {
  static const ExpError& row = []() -> const ExpError& {
    const auto device = cuda_device().value_or(CudaDevice{"", "CUDA"});
    return *exp_error_of(device.name, device.toolkit, "expf");
  }();
  return row;
}

} // namespace fa1::kernels
