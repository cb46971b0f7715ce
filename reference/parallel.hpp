/// Independent jobs on some threads. Results do not depend on how many there are.
///
/// Requires  each job's result lands in a place of its own
/// Errors    the first exception is rethrown once all threads have ended; no job starts after it
/// Memory    a thread that ends gives MPFR's caches back, which are the thread's own
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fa1::reference {

/// job(0) ... job(count - 1), started in this order, on at most `threads` threads, this one among
/// them.
template <class Job> void in_parallel(std::size_t count, unsigned threads, const Job& job) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        job(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure)
          failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t)
      others.emplace_back([&] {
        work();
        mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE);
      });
    work();
  }
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace fa1::reference
