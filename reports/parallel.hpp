/// Independent jobs spread over the cores. Results do not depend on how many there are.
///
/// in_parallel   threads; each job's result must land in a place of its own
/// in_processes  forked processes, for jobs that use global state (RapidCheck's, signal handlers) or that may crash: each
///               returns a text. Needs a single-threaded caller; CUDA does not survive a fork.
#pragma once

#include "reference/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fa1::reports {

inline unsigned cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// job(0) ... job(count - 1) on all cores, as reference/parallel.hpp does it.
template <class Job> void in_parallel(std::size_t count, const Job& job) {
  reference::in_parallel(count, cores(), job);
}

/// The texts of job(0) ... job(count - 1). A job whose process dies has the text lost(i, why); an exception in a job is
/// rethrown here as std::runtime_error. `done` is called here after each job.
std::vector<std::string>
in_processes(std::size_t count, const std::function<std::string(std::size_t)>& job,
             const std::function<std::string(std::size_t, const std::string&)>& lost,
             const std::function<void(std::size_t)>& done);

} // namespace fa1::reports
