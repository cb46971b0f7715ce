#pragma once

/// Counts what ThreadSanitizer reports while it lives, instead of letting the reports fail the
/// program.
///
/// In a build without FA1_SANITIZE=thread nothing is ever reported: kAvailable is false and count()
/// stays 0. A race outside of any RaceReports is printed and fails the program as usual. One object
/// at a time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace fa1::tests {

/// Plain data: it is written while ThreadSanitizer holds its own locks, where any call that it
/// watches would wait for ever.
struct RaceLog {
  static constexpr std::size_t kKept = 64;

  bool active = false;
  std::size_t count = 0;
  std::array<std::array<char, 1024>, kKept> places{};
};
inline RaceLog race_log;

class RaceReports {
public:
#ifdef FA1_TSAN
  static constexpr bool kAvailable = true;
#else
  static constexpr bool kAvailable = false;
#endif

  RaceReports() {
    race_log.count = 0;
    race_log.active = true;
  }
  ~RaceReports() { race_log.active = false; }
  RaceReports(const RaceReports&) = delete;
  RaceReports& operator=(const RaceReports&) = delete;

  std::size_t count() const { return race_log.count; }

  /// "file:line" of both accesses, for the first 64 reports.
  std::vector<std::string> places() const {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < std::min(race_log.count, RaceLog::kKept); ++i) {
      result.emplace_back(race_log.places[i].data());
    }
    return result;
  }
};

} // namespace fa1::tests

#ifdef FA1_TSAN

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): ThreadSanitizer's names.

extern "C" {
int __tsan_get_report_mop(void* report, unsigned long index, int* tid, void** address, int* size,
                          int* write, int* atomic, void** trace, unsigned long trace_size);
void __sanitizer_symbolize_pc(void* pc, const char* format, char* out, unsigned long out_size);

// Every race counts, also one seen before: the same kernel runs in several orders.
[[gnu::used, gnu::no_sanitize("thread")]] inline const char* __tsan_default_options() {
  return "suppress_equal_stacks=0:suppress_equal_addresses=0";
}
}

namespace __tsan {

class ReportDesc;

// The library's own is weak and answers `suppressed`. True: neither printed nor counted against the
// program.
[[gnu::used, gnu::no_sanitize("thread")]] inline bool OnReport(const ReportDesc* report,
                                                               bool suppressed) {
  fa1::tests::RaceLog& log = fa1::tests::race_log;
  if (!log.active) {
    return suppressed;
  }
  if (log.count < fa1::tests::RaceLog::kKept) {
    auto* const place = reinterpret_cast<char*>(&log.places) + log.count * 1024;
    for (unsigned long access = 0; access < 2; ++access) {
      int ignored = 0;
      void* address = nullptr;
      void* pc = nullptr;
      __tsan_get_report_mop(const_cast<ReportDesc*>(report), access, &ignored, &address, &ignored,
                            &ignored, &ignored, &pc, 1);
      __sanitizer_symbolize_pc(pc, access == 0 ? "%s:%l and " : "%s:%l", place + access * 512, 512);
    }
    // The two halves become one text.
    std::size_t end = 0;
    while (place[end] != '\0') {
      ++end;
    }
    for (std::size_t i = 512; i < 1024 && end < 1024; ++i, ++end) {
      place[end] = place[i];
    }
  }
  ++log.count;
  return true;
}

} // namespace __tsan

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif
