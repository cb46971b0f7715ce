/// Buffers whose ends bite: the instrument behind the law `written`.
///
/// GuardedBuffer   floats that end exactly at a page nobody may touch, with a page nobody may touch
///                 before the page they begin in; the slack words in front hold a NaN with a known
///                 payload
/// run_guarded     runs a kernel on guarded copies of a problem. A read or write past an end
///                 becomes a GuardReport, not a crash; so does a changed input, a changed slack
///                 word, and an output never written
/// Requires        POSIX mmap; one run at a time in a process (signal handlers are shared); the
///                 faulting thread is the one that called run_guarded (os_threads =
///                 1)
/// Limit           padded problems (d or dv below D) are copied by the launch layer, whose copies
///                 are not guarded: ask with d = dv = D. Under AddressSanitizer its own report ends
///                 the program instead.
#pragma once

#include "kernels/kernel.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace fa1::kernels {

class GuardedBuffer {
public:
  explicit GuardedBuffer(std::size_t floats);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::span<float> elements() { return {data_, count_}; }
  float* data() { return data_; }
  bool slack_intact() const;

  /// How far `address` lies outside the elements, in floats; negative: before the first. Empty when
  /// not in a guard page.
  std::optional<std::ptrdiff_t> offset_of(const void* address) const;

private:
  std::byte* map_ = nullptr;
  std::size_t bytes_ = 0;
  std::span<float> slack_;
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

struct GuardReport {
  State state;
  std::string violation; ///< empty: every output written, nothing else touched
};

GuardReport run_guarded(const Kernel& kernel, const Problem& problem, const Launch& launch = {});

} // namespace fa1::kernels
