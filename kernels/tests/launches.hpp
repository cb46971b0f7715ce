/// Launches of the executor's tests.
#pragma once

#include "kernels/simt/executor.hpp"

#include <optional>

namespace fa1::simt::tests {

/// The error of a launch that must fail; none if it did not.
template <typename Kernel>
std::optional<ExecutorError> error_of(const LaunchConfig& config, Kernel&& kernel) {
  try {
    launch(config, kernel);
  } catch (const ExecutorError& error) {
    return error;
  }
  return std::nullopt;
}

inline LaunchConfig one_block(unsigned threads, Schedule schedule = Schedule::forward()) {
  return {.block = {threads}, .schedule = schedule};
}

} // namespace fa1::simt::tests
