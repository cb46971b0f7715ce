#pragma once

/// Runs a CUDA kernel on the CPU: one fiber per CUDA thread, a barrier is a switch to the next one.
///
/// Order     a block runs on one OS thread from start to end and never moves; its threads run one
///           at a time, each from one synchronisation point to the next, in the order of the
///           Schedule (shuffled anew at every barrier). For any two threads, forward and reverse
///           together execute both orders of every phase. Threads that leave a named barrier run
///           behind all that can run (forward), before them (reverse), or either by chance
///           (shuffled). Interleavings *inside* a phase are not
///           explored: the race-checking build (FA1_SANITIZE=thread) covers those.
/// Blocks    are handed out in ascending order to `os_threads` OS threads; with one, they run one
///           after the other
/// Requires  block of 1 to 1024 threads (x, y <= 1024, z <= 64), grid not empty (y, z <= 65535),
///           dynamic shared memory within shared_limit_bytes, os_threads >= 1, not called from
///           inside a kernel
/// Barriers  __syncthreads() must be reached by every thread of the block, from the same line; a
///           thread that has returned is missing at the next one (the hardware may forgive it,
///           CUDA's manual does not). Lines are compared, so two barriers on one line count as the
///           same. Warps have 32 threads; a warp operation waits for the threads in its mask that
///           have not returned, and like CUDA's own orders no memory unless it is __syncwarp.
///           Named barriers (fa1_barrier_sync, fa1_barrier_arrive) count whole warps: one that has
///           come in part has not come. What is no fault on the hardware and always a mistake is
///           one here: a warp that arrives again before the barrier is complete, arrivals that are
///           left when the block ends, barrier 0 by its name while others wait at __syncthreads().
/// Shared    see cuda_vocabulary.hpp: exact size, poisoned with 0xFF bytes (NaN) before every block
/// Error     ExecutorError, below. A std::exception thrown by the kernel reaches the caller
///           unchanged; anything else thrown becomes Fault::kernel_exception. With several, the one
///           of the lowest block. After an error the other threads of that block are dropped where
///           they stand: kernel locals must be trivially destructible, or what they own leaks. A
///           kernel must not pass a barrier inside a catch handler.
/// Stack     256 KiB a thread, guard page below

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fa1::simt {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  bool operator==(const Dim3&) const = default;
};

/// The order in which the threads of a block run between two barriers.
struct Schedule {
  enum class Order { forward, reverse, shuffled };

  Order order = Order::forward;
  /// Of the shuffle. The order depends on it and on the block alone, not on os_threads.
  std::uint32_t seed = 0;

  static Schedule forward() { return {Order::forward, 0}; }
  static Schedule reverse() { return {Order::reverse, 0}; }
  static Schedule shuffled(std::uint32_t seed) { return {Order::shuffled, seed}; }
  bool operator==(const Schedule&) const = default;
};

/// "forward", "reverse" or "shuffled:7". parse_schedule reads the same and throws
/// std::invalid_argument otherwise.
std::string to_string(Schedule schedule);
Schedule parse_schedule(std::string_view text);

struct LaunchConfig {
  Dim3 grid{};
  Dim3 block{};
  std::size_t dynamic_shared_bytes = 0;
  Schedule schedule{};
  unsigned os_threads = 1;
  /// Static and dynamic shared memory together. CUDA gives 48 KiB unasked; raise it to what the
  /// kernel would ask for with cudaFuncSetAttribute. Static shared memory alone never exceeds 48
  /// KiB.
  std::size_t shared_limit_bytes = 48 * 1024;
};

enum class Fault {
  barrier_divergence,    // threads of one block (or warp) wait at different synchronisation points
  exited_before_barrier, // some wait at one barrier, the others have returned
  barrier_deadlock,      // nobody can run: some wait at a named barrier, others at another one
  barrier_misuse,        // a named barrier with a wrong number, count, or number of arrivals
  warp_mask_mismatch,    // a mask leaves out its caller, or names a thread that named another one
  shared_overflow,       // more shared memory than a block may have
  misaligned,            // an access of 16 bytes that does not begin at a multiple of 16
  launch_config,         // a launch that CUDA would refuse, or one inside a kernel
  kernel_exception       // the kernel threw something that is no std::exception
};

std::string to_string(Fault fault);

/// A line of kernel text. Empty file: not applicable.
struct SourceLine {
  std::string file;
  unsigned line = 0;
  bool operator==(const SourceLine&) const = default;
};

class ExecutorError : public std::runtime_error {
public:
  ExecutorError(Fault what_went_wrong, const std::string& message)
      : std::runtime_error(message), fault(what_went_wrong) {}

  Fault fault;
  SourceLine first;       // where the lowest waiting thread stands, or the one that breaks a rule
  SourceLine second;      // where the first one that stands elsewhere does
  unsigned at_first = 0;  // threads at `first`
  unsigned elsewhere = 0; // threads waiting at any other place
  unsigned exited = 0;    // threads that have returned
  unsigned total = 0;     // threads in the block
};

/// What a launch did.
struct LaunchStats {
  std::uint64_t blocks = 0;
  std::uint64_t block_barriers = 0;     // each counted once for its block, over all blocks
  std::uint64_t max_block_barriers = 0; // in any one block
  std::uint64_t named_barriers = 0;     // each time that one was complete, over all blocks
  std::uint64_t warp_operations = 0;    // each __syncwarp, shuffle or vote once for its threads
  std::uint64_t max_shared_bytes = 0;   // static and dynamic shared memory in any one block
  std::uint64_t switches = 0;           // from one fiber to another, or to and from the OS thread
};

/// Calls `kernel` once per CUDA thread of the grid, with threadIdx, blockIdx, blockDim and gridDim
/// set.
LaunchStats launch(const LaunchConfig& config, const std::function<void()>& kernel);

/// Forgets the launch on this OS thread after a signal handler has left it by siglongjmp
/// (kernels/guarded.cpp); the memory it held is leaked.
void abandon_launch() noexcept;

} // namespace fa1::simt
