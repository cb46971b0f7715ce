/// Kernels with the faults that compute-sanitizer is there to find, one for each of its tools: a tool
/// that lets its own pass sees nothing of the others either.
#pragma once

#include <string_view>

namespace fa1::reports::tests {

/// memcheck: writes past the end of its array. racecheck: reads a neighbour's word of shared memory
/// without a barrier. initcheck: reads what nobody wrote. synccheck: a barrier that half of a warp
/// does not reach. False for any other name.
bool run_canary(std::string_view tool);

/// A right kernel: one warp writes words of shared memory and arrives at a named barrier, another waits
/// there, reads them, and arrives at a second one where the first waits before it writes the next. True
/// where it read what was written.
bool hands_over_by_named_barriers();

} // namespace fa1::reports::tests
