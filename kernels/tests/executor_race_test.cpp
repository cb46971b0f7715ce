// Claims about the race-checking build: a fiber is a thread to ThreadSanitizer, barriers order
// exactly what CUDA's order, and nothing else does. Each kernel here exists twice: as it should be
// (no report) and with its fault (reported).
//
// Without FA1_SANITIZE=thread there is nothing to claim and the tests say that they were skipped.

#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/tests/race_reports.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace fa1::simt;
using fa1::tests::RaceReports;

namespace {

constexpr unsigned kThreads = 64;
using Output = std::array<int, kThreads>;

void skip_unless_race_checked() {
  if (!RaceReports::kAvailable) {
    SKIP("needs the race-checking build, FA1_SANITIZE=thread");
  }
}

template <bool HasBarrier> __global__ void reverse_through_tile(int* out) {
  FA1_SHARED(int, tile, [kThreads]);
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  if (HasBarrier) {
    __syncthreads();
  }
  out[t] = tile[kThreads - 1 - t];
}

/// The fault lies between two barriers, where a single barrier token for both would order it away:
/// the reader leaves the first barrier after the writer has arrived at the second.
template <bool HasBarrier> __global__ void write_and_read_between_barriers(int* out) {
  FA1_SHARED(int, value, );
  __syncthreads();
  if (threadIdx.x == 0) {
    value = 7;
  }
  if (HasBarrier) {
    __syncthreads();
  }
  out[threadIdx.x] = value;
  __syncthreads();
}

template <bool HasBarrier> __global__ void warp_between_barriers(int* out) {
  FA1_SHARED(int, value, [kThreads / 32]);
  const unsigned warp = threadIdx.x / 32;
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    value[warp] = 7;
  }
  if (HasBarrier) {
    __syncwarp();
  }
  out[threadIdx.x] = value[warp];
  __syncwarp();
}

__global__ void shuffle_instead_of_barrier(int* out) {
  FA1_SHARED(int, value, [kThreads / 32]);
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) {
    value[warp] = 7;
  }
  const int ignored = __shfl_sync(0xffffffffU, 1, 0);
  out[threadIdx.x] = value[warp] + ignored;
}

/// A copy is written by the thread that began it, when it waits.
template <bool HasBarrier> __global__ void read_copy_of_neighbour(const float* in, int* out) {
  FA1_SHARED(float, tile, [4 * kThreads]);
  const unsigned t = threadIdx.x;
  fa1_copy4_async(&tile[4 * t], in, true);
  fa1_wait_for_copies();
  if (HasBarrier) {
    __syncthreads();
  }
  out[t] = static_cast<int>(tile[4 * ((t + 1) % kThreads)]);
}

/// No barrier at all: the second block would race with the first one's use of the tile if blocks
/// shared it.
__global__ void own_element_only(int* out) {
  FA1_SHARED(int, tile, [kThreads]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x + blockIdx.x);
  out[blockIdx.x * kThreads + threadIdx.x] = tile[threadIdx.x];
}

__global__ void rotating_element(int* out) {
  FA1_SHARED(int, tile, [kThreads]);
  const unsigned mine = (threadIdx.x + blockIdx.x) % kThreads;
  tile[mine] = static_cast<int>(mine);
  out[blockIdx.x * kThreads + threadIdx.x] = tile[mine];
}

} // namespace

TEST_CASE("a correct kernel is free of race reports in every order", "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(5));
  const LaunchConfig config{.block = {kThreads}, .schedule = schedule};
  Output out{};

  const RaceReports reports;
  launch(config, [&] { reverse_through_tile<true>(out.data()); });
  launch(config, [&] { write_and_read_between_barriers<true>(out.data()); });
  launch(config, [&] { warp_between_barriers<true>(out.data()); });

  CHECK(out[0] == 7);
  CHECK(reports.places().empty());
}

TEST_CASE("a missing barrier is reported in every order, with the kernel's file",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(5));
  Output out{};

  const RaceReports reports;
  launch({.block = {kThreads}, .schedule = schedule},
         [&] { reverse_through_tile<false>(out.data()); });

  REQUIRE(reports.count() > 0);
  CHECK(reports.places().front().find("executor_race_test.cpp:") != std::string::npos);
}

TEST_CASE("a race between two barriers is not hidden by the threads that run ahead",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());
  Output out{};

  const RaceReports reports;
  launch({.block = {kThreads}, .schedule = schedule},
         [&] { write_and_read_between_barriers<false>(out.data()); });

  CHECK(reports.count() > 0);
}

TEST_CASE("a race between two warp barriers is not hidden by the threads that run ahead",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());
  Output out{};

  const RaceReports reports;
  launch({.block = {kThreads}, .schedule = schedule},
         [&] { warp_between_barriers<false>(out.data()); });

  CHECK(reports.count() > 0);
}

TEST_CASE("a shuffle orders no memory", "[kernels][executor][quick]") {
  skip_unless_race_checked();
  Output out{};

  const RaceReports reports;
  launch({.block = {kThreads}}, [&] { shuffle_instead_of_barrier(out.data()); });

  CHECK(reports.count() > 0);
}

TEST_CASE("a copy that another thread reads without a barrier is a race in every order",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(5));
  const LaunchConfig config{.block = {kThreads}, .schedule = schedule};
  alignas(16) const float in[4] = {7, 7, 7, 7};
  Output out{};

  const RaceReports reports;
  launch(config, [&] { read_copy_of_neighbour<true>(in, out.data()); });
  const bool right_is_silent = reports.count() == 0;
  const auto right = out[0];
  launch(config, [&] { read_copy_of_neighbour<false>(in, out.data()); });

  CHECK(right == 7);
  CHECK(right_is_silent);
  CHECK(reports.count() > 0);
}

TEST_CASE("shared memory of one block does not race with that of the next",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const unsigned os_threads = GENERATE(1U, 2U);
  const LaunchConfig config{.grid = {8}, .block = {kThreads}, .os_threads = os_threads};
  std::vector<int> out(8 * kThreads);

  const RaceReports reports;
  launch(config, [&] { own_element_only(out.data()); });
  launch(config, [&] { rotating_element(out.data()); });

  CHECK(reports.places().empty());
}

TEST_CASE("a race in a later block is not hidden by the threads that have finished it",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());
  Output out{};

  const RaceReports reports;
  launch({.grid = {2}, .block = {kThreads}, .schedule = schedule}, [&] {
    if (blockIdx.x == 1) {
      reverse_through_tile<false>(out.data());
    }
  });

  CHECK(reports.count() > 0);
}

TEST_CASE("what a launch writes is ordered before what its caller reads and before the next launch",
          "[kernels][executor][quick]") {
  skip_unless_race_checked();
  const LaunchConfig config{.grid = {4}, .block = {kThreads}, .os_threads = 2};
  std::vector<int> data(4 * kThreads, 1);

  const RaceReports reports;
  for (int round = 0; round < 3; ++round) {
    launch(config, [&] { data[blockIdx.x * kThreads + (threadIdx.x + 1) % kThreads] += 1; });
    launch(config, [&] { data[(blockIdx.x + 1) % 4 * kThreads + threadIdx.x] += 1; });
    data[0] += 1;
  }

  CHECK(data[0] == 10);
  CHECK(data[1] == 7);
  CHECK(reports.places().empty());
}

TEST_CASE("blocks on different OS threads are not ordered", "[kernels][executor][quick]") {
  skip_unless_race_checked();
  // Relaxed, so that these order nothing to the race checker either.
  std::atomic<int> started{0};
  std::atomic<bool> written{false};
  int shared_by_blocks = 0;

  const RaceReports reports;
  launch({.grid = {2}, .block = {1}, .os_threads = 2}, [&] {
    started.fetch_add(1, std::memory_order_relaxed);
    while (started.load(std::memory_order_relaxed) <
           2) { // both blocks run, so each on its own OS thread
      std::this_thread::yield();
    }
    if (blockIdx.x == 0) {
      shared_by_blocks = 1;
      written.store(true, std::memory_order_relaxed);
    } else {
      while (!written.load(
          std::memory_order_relaxed)) { // not at the same instant, which the checker may miss
        std::this_thread::yield();
      }
      shared_by_blocks = 2;
    }
  });

  CHECK(reports.count() > 0);
}
