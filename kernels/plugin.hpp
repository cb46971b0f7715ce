/// Kernels from outside: a shared library behind the door of plugin.h, and kernels of ours that are
/// treated as if they came from outside.
///
/// load_plugin   a Kernel whose every call happens in a worker process that alone has loaded the
///               library. Id `plugin.<name>`, variant `plugin`, arithmetic.known = false, D = max_d,
///               Br and Bc as told or 1
/// examine       what a law cannot see, asked of a plug-in once: how it behaves while it is loaded, with
///               l and m left out, and whether a subnormal comes out as one
/// as_stranger   the same kernel with its insides forgotten, and l and m too where asked
/// Errors        PluginError      the file is no plug-in: it does not load, lacks a symbol, describes
///                                itself wrongly, was built for another fa1_args
///               PluginLacks      the file needs what this machine does not have: another library, CUDA
///               KernelFault      a call crashed, hung, touched memory outside its arrays, wrote to an
///                                input, failed, printed to stdout, changed the floating-point control
///                                bits. The worker is replaced, and the next call is answered
///               UnsupportedShape the library declined, or the problem has d = 0 or dv = 0
/// Memory        one copy of the problem in, one of the answer out. Every array lies between pages that
///               the worker may not touch, and inputs in pages that it may not write. Up to 63 bytes
///               between the end of an array and the next page hold NaN: a read there gives NaN, a write
///               is found after the call
/// Processes     calls from several threads take turns; after a fork each process starts a worker of its
///               own
#pragma once

#include "kernels/kernel.hpp"

#include <string>
#include <vector>

namespace fa1::kernels {

struct PluginOptions {
  double timeout = 10.0; ///< seconds a call, or loading, may take
};

class PluginError : public KernelError {
  using KernelError::KernelError;
};

class PluginLacks : public KernelError {
  using KernelError::KernelError;
};

Kernel load_plugin(const std::string& path, const PluginOptions& options = {});

struct Finding {
  std::string says;
  std::string recipe; ///< of a problem whose run shows it again; empty where no single run does
};

struct Examination {
  std::vector<Finding> findings; ///< empty: nothing is wrong so far
  bool answers = true;           ///< false: not even a small problem is answered
};

/// A kernel that is no plug-in is asked the same, and has not been loaded.
Examination examine(const Kernel& kernel);

Kernel as_stranger(const Kernel& kernel, bool gives_l_and_m);

} // namespace fa1::kernels
