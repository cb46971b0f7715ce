/// Where a measurement was made, so that somebody else can tell whether theirs should agree.
#pragma once

#include <string>

namespace fa1::reports {

struct Environment {
  std::string
      revision; ///< of the source, `-dirty` where it was changed; empty outside a git checkout
  std::string compiler; ///< name and version
  std::string flags;    ///< those that decide about arithmetic
  std::string build_type;
  std::string libc; ///< whose expf it is
  std::string system;
  std::string cpu;
  unsigned cores = 0;
  std::string cuda; ///< what CUDA kernels can run on, or why they cannot
};

/// Gathered once.
const Environment& environment();

/// Why this process does not calculate as IEEE 754 says, which everything here rests on: subnormals are
/// flushed to zero (a library built with -ffast-math does that to whoever loads it), results are not
/// rounded to nearest, NaN is not known. Empty: nothing of the kind.
std::string arithmetic_obstacle();

} // namespace fa1::reports
