/// What the laboratory and a plug-in's worker process say to each other: one block of shared memory, and
/// one byte each way over a socket for every call.
///
/// The worker (plugin_worker.cpp) starts with the socket at descriptor kSocket, the memory at kMemory and
/// the library's path as its argument; stdout and stderr are files that the laboratory reads. It loads
/// the library, fills in `loading`, `detail` and `describe`, and sends a byte; from then on each byte it
/// gets is one call, answered by a byte. It ends when the socket does.
/// Memory    [Control, kControlBytes] [guard page] [Q] [guard page] [K] ... [m] [guard page]; whole pages.
///           The worker may read Q, K and V, read and write O, l and m, and touch no guard page.
///           Each array ends less than kAlignment bytes before its region does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fa1::kernels::wire {

inline constexpr int kSocket = 3;
inline constexpr int kMemory = 4;
inline constexpr std::size_t kControlBytes = 65536;
inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kArrays = 6; ///< Q, K, V, O, l, m
inline constexpr std::size_t kInputs = 3; ///< the first of them

struct Region {
  std::uint64_t begin = 0, end = 0; ///< bytes from the start of the memory
};

enum class Loading : std::int32_t { not_yet, done, not_a_library, lacks_library, lacks_symbol };

/// What kind of access hit a page that forbids it.
enum class Access : std::int32_t { unknown, read, write };

struct Control {
  // The laboratory's part.
  std::uint64_t bytes;  ///< of the whole memory
  std::uint64_t layout; ///< a new number where the regions have moved
  std::array<Region, kArrays> regions;
  std::array<std::uint64_t, kArrays> at; ///< where each array begins; 0: a null pointer
  std::int64_t batch_heads, n_q, n_kv, d, dv;
  float scale;
  std::int32_t resume;
  std::uint32_t watchdog_seconds; ///< the worker ends itself after so long in one call

  // The worker's part.
  Loading loading;
  std::uint64_t control_at_start, control_loaded; ///< floating-point control bits around dlopen
  std::uint64_t control_after;                    ///< after the latest call
  std::int32_t status;                            ///< what fa1_forward returned
  std::int32_t fault_signal;                      ///< SIGSEGV or SIGBUS: the fields below are set
  Access fault_access;
  std::uint64_t fault_address, fault_base; ///< fault_base: where the memory lay
  std::array<char, 4096> detail;           ///< why loading failed
  std::array<char, 16384> describe;        ///< what fa1_describe returned, cut off if longer
};
static_assert(sizeof(Control) <= kControlBytes);

} // namespace fa1::kernels::wire
