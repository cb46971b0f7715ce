// Claims about the CPU executor: it runs a CUDA kernel's text as CUDA would, in the order asked
// for, and says so when the kernel breaks a rule. One test per rule; the kernels that break one are
// here too.

#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/tests/launches.hpp"
#include "kernels/tests/race_reports.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace fa1::simt;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using fa1::simt::tests::error_of;
using fa1::simt::tests::one_block;

namespace {

std::vector<unsigned> ascending(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

/// The threads of a block in the order in which they ran each of three phases.
std::array<std::vector<unsigned>, 3> order_of_phases(const LaunchConfig& config) {
  std::array<std::vector<unsigned>, 3> phases;
  phases.fill(std::vector<unsigned>(config.block.x));
  std::array<std::atomic<unsigned>, 3> ran{};
  launch(config, [&] {
    for (std::size_t phase = 0; phase < 3; ++phase) {
      if (blockIdx.x + 1 == gridDim.x) {
        phases[phase][ran[phase].fetch_add(1, std::memory_order_relaxed)] = threadIdx.x;
      }
      __syncthreads();
    }
  });
  return phases;
}

// --- kernels -------------------------------------------------------------------------------------

constexpr unsigned kTile = 64;

template <bool HasBarrier> __global__ void reverse_through_tile(const float* in, float* out) {
  FA1_SHARED(float, tile, [kTile]);
  const unsigned t = threadIdx.x;
  tile[t] = in[t];
  if (HasBarrier) {
    __syncthreads();
  }
  out[t] = tile[kTile - 1 - t];
}

template <bool HasBarrier> __global__ void reverse_through_warp(const float* in, float* out) {
  FA1_SHARED(float, tile, [kTile]);
  const unsigned t = threadIdx.x;
  tile[t] = in[t];
  if (HasBarrier) {
    __syncwarp();
  }
  out[t] = tile[t / 32 * 32 + 31 - t % 32];
}

constexpr unsigned kDivergentFirst = __LINE__ + 3;
__global__ void divergent_barriers() {
  if (threadIdx.x < 24) { // NOLINT(bugprone-branch-clone): two barriers, on lines of their own
    __syncthreads();
  } else {
    __syncthreads(); // kDivergentFirst + 2
  }
}

constexpr unsigned kEarlyExitBarrier = __LINE__ + 6;
__global__ void early_exit(unsigned exiting, int* entered) {
  ++entered[threadIdx.x];
  if (threadIdx.x < exiting) {
    return;
  }
  __syncthreads();
  __syncthreads();
}

constexpr unsigned kBlockBarrierLine = __LINE__ + 3;
__global__ void warp_against_block_barrier() {
  if (threadIdx.x == 0) {
    __syncthreads();
  } else {
    __syncwarp(); // kBlockBarrierLine + 2
  }
}

constexpr unsigned kWarpSyncLine = __LINE__ + 3;
__global__ void different_warp_operations() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    (void)__shfl_sync(0xffffffffU, 1, 0); // kWarpSyncLine + 2
  }
}

constexpr unsigned kLeavesItselfOut = __LINE__ + 1;
__global__ void mask_without_caller() { __syncwarp(0xfffffffeU); }

// The upper half waits for the lower one, which does not wait for it.
constexpr unsigned kMasksDisagree = __LINE__ + 2;
__global__ void masks_disagree() {
  __syncwarp(threadIdx.x < 16 ? 0xffffffffU : 0xffff0000U);
  __syncwarp(threadIdx.x < 16 ? 0xffffU : 0xffffffffU);
}

template <std::size_t Bytes> __global__ void take_static(bool* reached) {
  FA1_SHARED(char, first, [Bytes - 16]);
  FA1_SHARED(char, second, [16]);
  if (threadIdx.x == 0) {
    first[0] = second[0];
    *reached = true;
  }
}

template <typename T> __device__ T* tile_of() {
  FA1_SHARED(T, tile, [4]);
  return tile;
}

/// As people write them elsewhere: bare __shared__, fast exponential, max without a namespace.
__global__ void third_party_softmax(const float* x, float* y, const int n) {
  __shared__ float largest[256];
  __shared__ float sums[256];
  int tx = static_cast<int>(threadIdx.x);
  largest[tx] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  float m = -FA1_INFINITY;
  for (int i = 0; i < n; i++)
    m = max(m, largest[i]);
  sums[tx] = __expf(largest[tx] - m);
  __syncthreads();
  float l = 0;
  for (int i = 0; i < n; i++)
    l += sums[i];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sums[tx] / l;
}

// --- child processes, for kernels that must not survive ------------------------------------------

struct ChildEnd {
  bool clean = false;
  std::string error_output;
};

template <typename Body> ChildEnd in_child(Body&& body) {
  std::array<int, 2> channel{};
  REQUIRE(pipe(channel.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(channel[1], STDERR_FILENO);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) {
      std::signal(signal, SIG_DFL); // not the test library's handlers
    }
    body();
    _exit(0);
  }
  close(channel[1]);
  ChildEnd end;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(channel[0], buffer.data(), buffer.size())) > 0;) {
    end.error_output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(channel[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  end.clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return end;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

[[gnu::noinline]] unsigned recurse(unsigned depth) {
  volatile char frame[1024];
  frame[depth % sizeof frame] = static_cast<char>(depth);
  const unsigned below = depth == 0 ? 0 : recurse(depth - 1);
  return below + static_cast<unsigned>(frame[depth % sizeof frame]);
}

} // namespace

// --- what runs, where, in which order ------------------------------------------------------------

TEST_CASE("every thread of every block runs the kernel exactly once, with its own indices",
          "[kernels][executor][quick]") {
  const Dim3 grid{3, 2, 2};
  const Dim3 block{5, 4, 3};
  const unsigned os_threads = GENERATE(1U, 2U);
  std::vector<int> visits(12 * 60);

  const LaunchStats stats = launch({.grid = grid, .block = block, .os_threads = os_threads}, [&] {
    const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ++visits[b * 60 + t];
    __syncthreads();
    ++visits[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x * 60 + blockIdx.x * 60 + t];
  });

  CHECK(std::all_of(visits.begin(), visits.end(), [](int visit) { return visit == 2; }));
  CHECK(stats.blocks == 12);
  CHECK(stats.block_barriers == 12);
  CHECK(stats.max_block_barriers == 1);
}

TEST_CASE("a block stays on one OS thread", "[kernels][executor][quick]") {
  constexpr unsigned kBlocks = 16;
  std::vector<std::thread::id> seen(kBlocks * kTile * 2);

  launch({.grid = {kBlocks}, .block = {kTile}, .os_threads = 2}, [&] {
    seen[(blockIdx.x * kTile + threadIdx.x) * 2] = std::this_thread::get_id();
    __syncthreads();
    seen[(blockIdx.x * kTile + threadIdx.x) * 2 + 1] = std::this_thread::get_id();
  });

  for (unsigned block = 0; block < kBlocks; ++block) {
    const auto begin = seen.begin() + block * kTile * 2;
    CHECK(std::set(begin, begin + kTile * 2).size() == 1);
  }
}

TEST_CASE("forward runs threads upwards and reverse downwards in every phase",
          "[kernels][executor][quick]") {
  std::vector<unsigned> upwards = ascending(40);
  std::vector<unsigned> downwards(upwards.rbegin(), upwards.rend());

  const auto forward = order_of_phases(one_block(40, Schedule::forward()));
  const auto reverse = order_of_phases(one_block(40, Schedule::reverse()));

  for (std::size_t phase = 0; phase < 3; ++phase) {
    CHECK(forward[phase] == upwards);
    CHECK(reverse[phase] == downwards);
  }
}

TEST_CASE("the order holds inside a warp after a warp barrier too", "[kernels][executor][quick]") {
  const auto order = [](Schedule schedule) {
    std::vector<unsigned> ran(32);
    std::atomic<unsigned> count{0};
    launch(one_block(32, schedule), [&] {
      __syncwarp();
      ran[count.fetch_add(1, std::memory_order_relaxed)] = threadIdx.x;
    });
    return ran;
  };
  const std::vector<unsigned> upwards = ascending(32);

  const auto shuffled = order(Schedule::shuffled(1));

  CHECK(order(Schedule::forward()) == upwards);
  CHECK(order(Schedule::reverse()) == std::vector<unsigned>(upwards.rbegin(), upwards.rend()));
  CHECK(shuffled != upwards);
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), upwards.begin(), upwards.end()));
}

TEST_CASE("shuffled runs every thread once a phase, in a new order after each barrier",
          "[kernels][executor][quick]") {
  const auto phases = order_of_phases(one_block(40, Schedule::shuffled(1)));

  for (auto phase : phases) {
    std::sort(phase.begin(), phase.end());
    CHECK(phase == ascending(40));
  }
  CHECK(phases[0] != phases[1]);
  CHECK(phases[1] != phases[2]);
  CHECK(phases[0] != phases[2]);
}

TEST_CASE("a shuffled order depends on the seed and the block, not on the number of OS threads",
          "[kernels][executor][quick]") {
  const auto order = [](unsigned blocks, std::uint32_t seed, unsigned os_threads) {
    return order_of_phases({.grid = {blocks},
                            .block = {40},
                            .schedule = Schedule::shuffled(seed),
                            .os_threads = os_threads});
  };

  const auto once = order(3, 1, 1);

  CHECK(order(3, 1, 1) == once);
  CHECK(order(3, 1, 2) == once);
  CHECK(order(3, 2, 1) != once);
  CHECK(order(4, 1, 1) != once);
}

TEST_CASE("a block of one thread never switches at a barrier, a larger one switches once a thread",
          "[kernels][executor][quick]") {
  constexpr unsigned kBarriers = 100;
  const auto barriers = [] {
    for (unsigned i = 0; i < kBarriers; ++i) {
      __syncthreads();
    }
  };

  const LaunchStats alone = launch(one_block(1), barriers);
  const LaunchStats alone_in_warp = launch(one_block(1), [] { __syncwarp(); });
  const LaunchStats many = launch(one_block(kTile), barriers);

  CHECK(alone.block_barriers == kBarriers);
  CHECK(alone.switches == 2); // in and out
  CHECK(alone_in_warp.switches == 2);
  CHECK(many.block_barriers == kBarriers);
  CHECK(many.switches ==
        1 + kTile * (kBarriers + 1)); // the last switch of the last phase leads out
}

TEST_CASE("a finished thread is never run again", "[kernels][executor][quick]") {
  const unsigned exiting = GENERATE(1U, 10U, 63U);
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3));
  std::vector<int> entered(kTile);

  const auto error =
      error_of(one_block(kTile, schedule), [&] { early_exit(exiting, entered.data()); });

  CHECK(error.has_value());
  CHECK(entered == std::vector<int>(kTile, 1));
}

// --- synchronisation faults ----------------------------------------------------------------------

TEST_CASE("a missing barrier gives other bits in reverse than in forward order, a correct kernel "
          "the same",
          "[kernels][executor][quick]") {
  const fa1::tests::RaceReports expected; // the faulty kernel races, as it should
  std::vector<float> in(kTile);
  std::iota(in.begin(), in.end(), 1.0F);
  const auto run = [&](auto kernel, Schedule schedule) {
    std::vector<float> out(kTile);
    launch(one_block(kTile, schedule), [&] { kernel(in.data(), out.data()); });
    std::vector<std::uint32_t> bits;
    bits.reserve(out.size());
    for (const float value : out) {
      bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return bits;
  };

  const auto good = run(reverse_through_tile<true>, Schedule::forward());
  const auto good_warp = run(reverse_through_warp<true>, Schedule::forward());

  CHECK(good[0] == std::bit_cast<std::uint32_t>(64.0F));
  CHECK(run(reverse_through_tile<true>, Schedule::reverse()) == good);
  CHECK(run(reverse_through_tile<true>, Schedule::shuffled(9)) == good);
  CHECK(run(reverse_through_tile<false>, Schedule::forward()) !=
        run(reverse_through_tile<false>, Schedule::reverse()));
  CHECK(good_warp[0] == std::bit_cast<std::uint32_t>(32.0F));
  CHECK(run(reverse_through_warp<true>, Schedule::reverse()) == good_warp);
  CHECK(run(reverse_through_warp<true>, Schedule::shuffled(9)) == good_warp);
  CHECK(run(reverse_through_warp<false>, Schedule::forward()) !=
        run(reverse_through_warp<false>, Schedule::reverse()));
}

TEST_CASE("threads at different barriers are reported with both lines and how many stand at each",
          "[kernels][executor][quick]") {
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3));

  const auto error = error_of(one_block(kTile, schedule), divergent_barriers);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_divergence);
  CHECK_THAT(error->first.file, EndsWith("executor_test.cpp"));
  CHECK(error->first.line == kDivergentFirst);
  CHECK(error->second.line == kDivergentFirst + 2);
  CHECK(error->at_first == 24);
  CHECK(error->elsewhere == 40);
  CHECK(error->exited == 0);
  CHECK(error->total == kTile);
  CHECK_THAT(error->what(),
             ContainsSubstring(std::to_string(kDivergentFirst) + " (24 threads") &&
                 ContainsSubstring(std::to_string(kDivergentFirst + 2) + " (40 threads"));
}

TEST_CASE("threads that returned before a barrier are counted in the report",
          "[kernels][executor][quick]") {
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3));
  std::vector<int> entered(kTile);

  const auto error = error_of(one_block(kTile, schedule), [&] { early_exit(10, entered.data()); });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::exited_before_barrier);
  CHECK(error->first.line == kEarlyExitBarrier);
  CHECK(error->at_first == 54);
  CHECK(error->exited == 10);
  CHECK_THAT(error->what(),
             ContainsSubstring("54 at block barrier") && ContainsSubstring("10 exited of 64"));
}

TEST_CASE("a thread at a block barrier and one at a warp barrier are a divergence",
          "[kernels][executor][quick]") {
  const auto error = error_of(one_block(32), warp_against_block_barrier);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_divergence);
  CHECK(error->first.line == kBlockBarrierLine);
  CHECK(error->second.line == kBlockBarrierLine + 2);
  CHECK(error->elsewhere == 31);
}

TEST_CASE("an exception of the kernel reaches the caller unchanged, and the executor works on",
          "[kernels][executor][quick]") {
  const unsigned os_threads = GENERATE(1U, 2U);
  struct Special : std::runtime_error {
    unsigned thread;
    explicit Special(unsigned t) : std::runtime_error("special"), thread(t) {}
  };
  const LaunchConfig config{.grid = {4}, .block = {8}, .os_threads = os_threads};
  std::optional<unsigned> caught;

  try {
    launch(config, [] {
      __syncthreads();
      if (threadIdx.x == 3) {
        throw Special(threadIdx.x);
      }
      __syncthreads();
    });
  } catch (const Special& special) {
    caught = special.thread;
  }
  const LaunchStats after = launch(config, [] { __syncthreads(); });

  CHECK(caught == 3);
  CHECK(after.block_barriers == 4);
}

TEST_CASE("something thrown that is no std::exception is reported with its thread and block",
          "[kernels][executor][quick]") {
  const auto error = error_of({.grid = {3}, .block = {8, 2}}, [] {
    if (blockIdx.x == 2 && threadIdx.x == 5 && threadIdx.y == 1) {
      throw 42;
    }
  });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::kernel_exception);
  CHECK_THAT(error->what(), ContainsSubstring("thread (5,1,0) of block (2,0,0)"));
}

TEST_CASE("of several failing blocks the lowest is reported, on any number of OS threads",
          "[kernels][executor][quick]") {
  const unsigned os_threads = GENERATE(1U, 2U, 4U);
  std::atomic<bool> later_one_failed{false};

  const auto error = error_of({.grid = {64}, .block = {2}, .os_threads = os_threads}, [&] {
    if (blockIdx.x == 5 && os_threads > 1) { // gives a later block the time to be the first to fail
      for (int i = 0; i < 100 && !later_one_failed.load(std::memory_order_relaxed); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (blockIdx.x >= 5) {
      later_one_failed.store(true, std::memory_order_relaxed);
      throw 42;
    }
    __syncthreads();
  });

  REQUIRE(error.has_value());
  CHECK_THAT(error->what(), ContainsSubstring("block (5,0,0)"));
}

// --- warps ---------------------------------------------------------------------------------------

TEST_CASE("shuffles and votes give each thread the value CUDA defines",
          "[kernels][executor][quick]") {
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3));
  constexpr unsigned kAll = 0xffffffffU;
  struct Seen {
    int broadcast, wrapped, down, up, partner, segment_down;
    double wide;
    unsigned ballot;
    int any, none, all;
  };
  std::vector<Seen> seen(96);

  launch(one_block(96, schedule), [&] {
    const int t = static_cast<int>(threadIdx.x);
    Seen& mine = seen[threadIdx.x];
    mine.broadcast = __shfl_sync(kAll, t, 5);
    mine.wrapped = __shfl_sync(kAll, t, 9, 8);
    mine.down = __shfl_down_sync(kAll, t, 4);
    mine.up = __shfl_up_sync(kAll, t, 4);
    mine.partner = __shfl_xor_sync(kAll, t, 16);
    mine.segment_down = __shfl_down_sync(kAll, t, 4, 8);
    mine.wide = __shfl_xor_sync(kAll, t + 0.25, 1);
    mine.ballot = __ballot_sync(kAll, t % 3 == 0);
    mine.any = __any_sync(kAll, t == 40);
    mine.none = __any_sync(kAll, 0);
    mine.all = __all_sync(kAll, t >= 32);
  });

  for (int t = 0; t < 96; ++t) {
    CAPTURE(t);
    const Seen& mine = seen[static_cast<std::size_t>(t)];
    const int lane = t % 32;
    const int base = t - lane;
    unsigned ballot = 0;
    for (int other = 0; other < 32; ++other) {
      ballot |= ((base + other) % 3 == 0 ? 1U : 0U) << other;
    }
    CHECK(mine.broadcast == base + 5);
    CHECK(mine.wrapped == base + lane / 8 * 8 + 1);
    CHECK(mine.down == (lane + 4 < 32 ? t + 4 : t));
    CHECK(mine.up == (lane >= 4 ? t - 4 : t));
    CHECK(mine.partner == base + (lane ^ 16));
    CHECK(mine.segment_down == (lane % 8 + 4 < 8 ? t + 4 : t));
    CHECK(mine.wide == base + (lane ^ 1) + 0.25);
    CHECK(mine.ballot == ballot);
    CHECK(mine.any == (base == 32 ? 1 : 0));
    CHECK(mine.none == 0);
    CHECK(mine.all == (base >= 32 ? 1 : 0));
  }
}

TEST_CASE("a shuffle costs one switch a thread", "[kernels][executor][quick]") {
  constexpr unsigned kShuffles = 50;

  const LaunchStats stats = launch(one_block(64), [] {
    int sum = static_cast<int>(threadIdx.x);
    for (unsigned i = 0; i < kShuffles; ++i) {
      sum = __shfl_xor_sync(0xffffffffU, sum, 1);
    }
  });

  CHECK(stats.warp_operations == 2 * kShuffles);
  CHECK(stats.switches == 1 + 64 * (kShuffles + 1));
}

TEST_CASE("a tree reduction by shuffles sums a warp", "[kernels][executor][quick]") {
  std::array<int, 2> sums{};

  launch(one_block(64), [&] {
    int sum = static_cast<int>(threadIdx.x);
    for (unsigned step = 16; step > 0; step /= 2) {
      sum += __shfl_down_sync(0xffffffffU, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
      sums[threadIdx.x / 32] = sum;
    }
  });

  CHECK(sums == std::array<int, 2>{496, 1520});
}

TEST_CASE("warps wait for themselves only, and so do halves with masks of their own",
          "[kernels][executor][quick]") {
  const Schedule schedule =
      GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3));
  std::vector<int> sums(64);

  const LaunchStats stats = launch(one_block(64, schedule), [&] {
    int value = 1;
    const unsigned half = threadIdx.x % 32 < 16 ? 0xffffU : 0xffff0000U;
    if (threadIdx.x < 32) {
      const unsigned rounds = threadIdx.x < 16 ? 7 : 2;
      for (unsigned i = 0; i < rounds; ++i) {
        value += __shfl_xor_sync(half, value, 1);
      }
      __syncwarp();
    }
    __syncthreads();
    sums[threadIdx.x] = value;
  });

  CHECK(sums[0] == 128);
  CHECK(sums[16] == 4);
  CHECK(sums[32] == 1);
  CHECK(stats.warp_operations == 7 + 2 + 1);
  CHECK(stats.block_barriers == 1);
}

TEST_CASE(
    "threads that do not exist or have returned are not waited for, and their values are poison",
    "[kernels][executor][quick]") {
  std::vector<unsigned> seen(40);
  unsigned ballot = 0;

  launch(one_block(40), [&] {
    if (threadIdx.x == 33) {
      return;
    }
    __syncwarp();
    seen[threadIdx.x] = __shfl_down_sync(0xffffffffU, threadIdx.x, 1);
    const unsigned present = __ballot_sync(0xffffffffU, 1);
    if (threadIdx.x == 39) {
      ballot = present;
    }
  });

  CHECK(seen[0] == 1);
  CHECK(seen[32] == 0xffffffffU); // from thread 33, which has returned
  CHECK(seen[39] == 0xffffffffU); // from the thread after the last one
  CHECK(ballot == 0b11111101U);
}

TEST_CASE("a warp mask that leaves out its caller is reported", "[kernels][executor][quick]") {
  const auto error = error_of(one_block(32), mask_without_caller);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::warp_mask_mismatch);
  CHECK(error->first.line == kLeavesItselfOut);
  CHECK_THAT(error->what(), ContainsSubstring("thread (0,0,0)") &&
                                ContainsSubstring("0xfffffffe") &&
                                ContainsSubstring("leaves itself out"));
}

TEST_CASE("warp masks that disagree are reported with both lines", "[kernels][executor][quick]") {
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());

  const auto error = error_of(one_block(32, schedule), masks_disagree);

  REQUIRE(error.has_value());
  CHECK(std::set{error->first.line, error->second.line} ==
        std::set{kMasksDisagree, kMasksDisagree + 1});
}

TEST_CASE("a warp operation whose partners name another mask is a mask mismatch",
          "[kernels][executor][quick]") {
  const auto error = error_of(
      one_block(32), [] { __syncwarp(threadIdx.x == 0 ? 0xffffffffU : 0xfffffffeU << 1 | 3U); });
  const auto mixed =
      error_of(one_block(32), [] { __syncwarp(threadIdx.x < 16 ? 0xffffffffU : 0xffff8000U); });

  CHECK_FALSE(error.has_value()); // the same mask, written differently
  REQUIRE(mixed.has_value());
  CHECK(mixed->fault == Fault::warp_mask_mismatch);
  CHECK_THAT(mixed->what(), ContainsSubstring("0xffffffff") && ContainsSubstring("0xffff8000"));
}

TEST_CASE("a mask mismatch is named as such also while other warps wait at the block barrier",
          "[kernels][executor][quick]") {
  const auto error = error_of(one_block(64), [] {
    if (threadIdx.x < 32) {
      __syncwarp(threadIdx.x < 16 ? 0xffffffffU : 0xffff8000U);
    }
    __syncthreads();
  });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::warp_mask_mismatch);
}

TEST_CASE("different warp operations under one mask are reported with both lines",
          "[kernels][executor][quick]") {
  const auto error = error_of(one_block(32), different_warp_operations);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_divergence);
  CHECK(std::set{error->first.line, error->second.line} ==
        std::set{kWarpSyncLine, kWarpSyncLine + 2});
}

// --- shared memory -------------------------------------------------------------------------------

TEST_CASE("shared memory holds NaN when each block starts", "[kernels][executor][quick]") {
  constexpr unsigned kBlocks = 4;
  const unsigned os_threads = GENERATE(1U, 2U);
  std::vector<int> clean(kBlocks * 2);

  launch({.grid = {kBlocks},
          .block = {8},
          .dynamic_shared_bytes = 8 * sizeof(float),
          .os_threads = os_threads},
         [&] {
           FA1_SHARED(float, tile, [2][4]);
           FA1_DYNAMIC_SHARED(float, scratch);
           const unsigned t = threadIdx.x;
           const bool poisoned = std::isnan(tile[t / 4][t % 4]) && std::isnan(scratch[t]);
           const unsigned voters = __ballot_sync(0xffffffffU, poisoned);
           if (t == 0) {
             clean[blockIdx.x] = std::popcount(voters);
           }
           tile[t / 4][t % 4] = 1.0F;
           scratch[t] = 1.0F;
         });

  for (unsigned block = 0; block < kBlocks; ++block) {
    CHECK(clean[block] == 8);
  }
}

TEST_CASE("a shared declaration is one object per block, whoever reaches it and however often",
          "[kernels][executor][quick]") {
  std::vector<const void*> in_loop(32 * 3);
  std::vector<const void*> of_floats(32);
  std::vector<const void*> of_doubles(32 * 2);

  launch(one_block(32), [&] {
    const std::size_t t = threadIdx.x;
    for (std::size_t i = 0; i < 3; ++i) {
      FA1_SHARED(int, again, [8]);
      in_loop[t * 3 + i] = &again;
    }
    if (t % 2 == 0) { // in another order than the other half
      of_doubles[t * 2] = tile_of<double>();
    }
    of_floats[t] = tile_of<float>();
    of_doubles[t * 2 + 1] = tile_of<double>();
    if (t % 2 != 0) {
      of_doubles[t * 2] = tile_of<double>();
    }
  });
  const std::set loop(in_loop.begin(), in_loop.end());
  const std::set floats(of_floats.begin(), of_floats.end());
  const std::set doubles(of_doubles.begin(), of_doubles.end());

  REQUIRE(loop.size() == 1);
  REQUIRE(floats.size() == 1);
  REQUIRE(doubles.size() == 1);
  CHECK(std::set{*loop.begin(), *floats.begin(), *doubles.begin()}.size() == 3);
}

TEST_CASE("static shared memory ends at 48 KiB, and the report has the sum",
          "[kernels][executor][quick]") {
  bool reached = false;
  bool reached_too_much = false;

  launch(one_block(2), [&] { take_static<48 * 1024>(&reached); });
  const auto error = error_of(one_block(2), [&] { take_static<48 * 1024 + 1>(&reached_too_much); });

  CHECK(reached);
  CHECK_FALSE(reached_too_much);
  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::shared_overflow);
  CHECK_THAT(error->first.file, EndsWith("executor_test.cpp"));
  CHECK_THAT(error->what(),
             ContainsSubstring("49153 bytes of static shared memory, a block has 49152"));
}

TEST_CASE("static and dynamic shared memory together end at the launch's limit",
          "[kernels][executor][quick]") {
  bool reached = false;
  LaunchConfig config = one_block(1);
  config.dynamic_shared_bytes = 1024;

  const auto error = error_of(config, [&] { take_static<48 * 1024>(&reached); });
  config.shared_limit_bytes = 49 * 1024;
  launch(config, [&] { take_static<48 * 1024>(&reached); });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::shared_overflow);
  CHECK_THAT(error->what(), ContainsSubstring("50160 bytes"));
  CHECK(reached);
}

TEST_CASE("AddressSanitizer stops a kernel one element past the end of shared memory",
          "[kernels][executor][quick]") {
  if (!kAddressSanitizer) {
    SKIP("needs the address-checking build, FA1_SANITIZE=address");
  }
  const auto run = [](unsigned index) {
    LaunchConfig config = one_block(kTile);
    config.dynamic_shared_bytes = kTile * sizeof(float);
    launch(config, [&] {
      FA1_DYNAMIC_SHARED(float, scratch);
      __syncthreads();
      scratch[threadIdx.x == 7 ? index : 0] = 1.0F;
    });
  };

  const ChildEnd inside = in_child([&] { run(kTile - 1); });
  const ChildEnd outside = in_child([&] { run(kTile); });

  CHECK(inside.clean);
  CHECK_FALSE(outside.clean);
  CHECK_THAT(outside.error_output, ContainsSubstring("heap-buffer-overflow"));
}

TEST_CASE("a kernel that overruns its stack is stopped, not silently wrong",
          "[kernels][executor][quick]") {
  if (fa1::tests::RaceReports::kAvailable) {
    SKIP("a child process cannot be forked reliably under ThreadSanitizer");
  }
  const auto run = [](unsigned depth) { launch(one_block(4), [&] { (void)recurse(depth); }); };

  const ChildEnd shallow = in_child([&] { run(20); });
  const ChildEnd deep = in_child([&] { run(100000); });

  CHECK(shallow.clean);
  CHECK_FALSE(deep.clean);
}

TEST_CASE("a third-party kernel with bare __shared__ and __expf runs as it stands",
          "[kernels][executor][quick]") {
  constexpr unsigned kN = 48;
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());
  std::vector<float> x(2 * kN);
  for (unsigned i = 0; i < 2 * kN; ++i) {
    x[i] = static_cast<float>(i * 37 % 101) / 16.0F;
  }
  std::vector<float> y(2 * kN);

  launch({.grid = {2}, .block = {kN}, .schedule = schedule},
         [&] { third_party_softmax(x.data(), y.data(), static_cast<int>(kN)); });

  // Relative to the exact softmax: the exponent's rounding (half an ulp of a number below 101/16),
  // __expf's stated error, n - 1 additions of positive terms in the sum, whose terms carry __expf's
  // error too, one division.
  constexpr double kU = 0x1p-24;
  const double span = 101.0 / 16.0;
  const double exponential = span * kU + (2 + std::floor(1.173 * span)) * 2 * kU;
  const double bound = 1.01 * (2 * exponential + kN * kU);
  for (unsigned row = 0; row < 2; ++row) {
    const auto begin = x.begin() + row * kN;
    const double m = *std::max_element(begin, begin + kN);
    double l = 0;
    for (unsigned i = 0; i < kN; ++i) {
      l += std::exp(static_cast<double>(x[row * kN + i]) - m);
    }
    for (unsigned i = 0; i < kN; ++i) {
      const double exact = std::exp(static_cast<double>(x[row * kN + i]) - m) / l;
      CHECK_FALSE(!(std::fabs(static_cast<double>(y[row * kN + i]) - exact) <= bound * exact));
    }
  }
}

TEST_CASE("bare __shared__ is the weaker kind: not poisoned, and the next block sees the last "
          "one's values",
          "[kernels][executor][quick]") {
  std::vector<float> found(3);

  launch({.grid = {3}}, [&] {
    __shared__ float kept;
    found[blockIdx.x] = kept;
    kept = static_cast<float>(blockIdx.x + 1);
  });

  CHECK(found == std::vector<float>{0.0F, 1.0F, 2.0F});
}

// --- accesses of 16 bytes, and copies ------------------------------------------------------------

TEST_CASE("four floats are loaded and stored at once", "[kernels][executor][quick]") {
  alignas(16) float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) float to[8] = {};

  launch(one_block(2), [&] {
    float x[4];
    fa1_load4(x, from + 4 * threadIdx.x);
    fa1_store4(to + 4 * (1 - threadIdx.x), x);
  });

  CHECK(std::vector<float>(to, to + 8) == std::vector<float>{5, 6, 7, 8, 1, 2, 3, 4});
}

TEST_CASE("an address that is no multiple of 16 bytes is reported with the word and the line",
          "[kernels][executor][quick]") {
  alignas(16) float data[8] = {};
  alignas(16) float tile[8] = {};
  float x[4] = {};
  unsigned line = 0;
  const auto report = [&](const char* word, const auto& kernel) {
    CAPTURE(word);
    const auto error = error_of(one_block(1), kernel);
    REQUIRE(error.has_value());
    CHECK(error->fault == Fault::misaligned);
    CHECK(error->first.line == line);
    CHECK_THAT(error->what(), ContainsSubstring(word));
    CHECK_THAT(error->what(), ContainsSubstring("4 bytes past a multiple of 16"));
  };

  report("fa1_load4", [&] { line = __LINE__, fa1_load4(x, data + 1); });
  report("fa1_store4", [&] { line = __LINE__, fa1_store4(data + 1, x); });
  report("fa1_copy4_async", [&] { line = __LINE__, fa1_copy4_async(tile, data + 1, true); });
  report("fa1_copy4_async", [&] { line = __LINE__, fa1_copy4_async(tile + 1, data, true); });
}

TEST_CASE("a copy arrives when its thread waits for it, is NaN until then, and 0 where nothing is",
          "[kernels][executor][quick]") {
  alignas(16) const float from[4] = {1, 2, 3, 4};
  alignas(16) float to[8] = {};
  bool nan_before = false;
  std::vector<float> after;

  launch(one_block(1), [&] {
    fa1_copy4_async(to, from, true);
    fa1_copy4_async(to + 4, from, false);
    nan_before = std::all_of(to, to + 8, [](float x) { return std::isnan(x); });
    fa1_wait_for_copies();
    after.assign(to, to + 8);
  });

  CHECK(nan_before);
  CHECK(after == std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0});
}

TEST_CASE("a thread waits for its own copies, and one that nobody waits for never arrives",
          "[kernels][executor][quick]") {
  alignas(16) const float from[4] = {1, 2, 3, 4};
  alignas(16) float of_neighbours[8] = {};
  alignas(16) float of_blocks[4] = {};

  launch(one_block(2), [&] {
    fa1_copy4_async(of_neighbours + 4 * threadIdx.x, from, true);
    __syncthreads();
    if (threadIdx.x == 0)
      fa1_wait_for_copies();
  });
  launch({.grid = {2}, .block = {1}}, [&] {
    if (blockIdx.x == 0)
      fa1_copy4_async(of_blocks, from, true);
    else
      fa1_wait_for_copies();
  });

  CHECK(of_neighbours[0] == 1.0f);
  CHECK(std::isnan(of_neighbours[4]));
  CHECK(std::isnan(of_blocks[0]));
}

// --- launches ------------------------------------------------------------------------------------

TEST_CASE("a launch that CUDA would refuse is refused, saying what would be right",
          "[kernels][executor][quick]") {
  struct Row {
    LaunchConfig config;
    const char* says;
  };
  const Row row = GENERATE(values<Row>({
      {{.block = {0}}, "block (0,1,1) is empty"},
      {{.block = {1025}}, "at most 1024"},
      {{.block = {32, 33}}, "1056 threads: at most 1024"},
      {{.block = {4, 4, 65}}, "z at most 64"},
      {{.block = {0xffffffffU, 2}}, "at most 1024"},
      {{.grid = {2, 0}}, "grid (2,0,1) is empty"},
      {{.grid = {1, 65536}}, "at most 65535"},
      {{.dynamic_shared_bytes = 49153},
       "49153 bytes of dynamic shared memory: a block may have 49152"},
      {{.os_threads = 0}, "os_threads is 0"},
  }));
  CAPTURE(row.says);
  bool ran = false;

  const auto error = error_of(row.config, [&] { ran = true; });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::launch_config);
  CHECK_THAT(error->what(), ContainsSubstring(row.says));
  CHECK_FALSE(ran);
}

TEST_CASE("the largest block CUDA allows runs", "[kernels][executor][quick]") {
  std::vector<int> sum(1024);

  launch(one_block(1024), [&] {
    FA1_SHARED(int, tile, [1024]);
    tile[threadIdx.x] = 1;
    __syncthreads();
    sum[threadIdx.x] = tile[threadIdx.x] + tile[1023 - threadIdx.x];
  });

  CHECK(sum == std::vector<int>(1024, 2));
}

TEST_CASE("a launch inside a kernel is refused", "[kernels][executor][quick]") {
  const auto error = error_of(one_block(1), [] { launch(one_block(1), [] {}); });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::launch_config);
}

TEST_CASE("CUDA's words outside a launch are an error with their name",
          "[kernels][executor][quick]") {
  CHECK_THROWS_AS(__syncthreads(), std::logic_error);
  CHECK_THROWS_AS(__syncwarp(), std::logic_error);
  CHECK_THROWS_AS(__shfl_sync(0xffffffffU, 1, 0), std::logic_error);
}

TEST_CASE("a schedule prints and parses back", "[kernels][executor][quick]") {
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse(),
                                     Schedule::shuffled(0), Schedule::shuffled(4294967295U));

  CHECK(parse_schedule(to_string(schedule)) == schedule);
}

TEST_CASE("text that is no schedule is refused, saying what would be right",
          "[kernels][executor][quick]") {
  const std::string text =
      GENERATE("", "Forward", "shuffled", "shuffled:", "shuffled:x", "shuffled:-1", "shuffled:1 ",
               "shuffled:4294967296", "reverse:1");

  CHECK_THROWS_WITH(parse_schedule(text),
                    ContainsSubstring(std::string("'").append(text).append("'")) &&
                        ContainsSubstring("forward, reverse or shuffled:SEED"));
}

// --- intrinsics ----------------------------------------------------------------------------------

namespace {

/// The distance between the two floats around `exact`, which must be of normal size.
double ulp_around(double exact) {
  int exponent = 0;
  (void)std::frexp(exact, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

double error_in_ulp(float computed, double exact) {
  return std::fabs(static_cast<double>(computed) - exact) / ulp_around(exact);
}

} // namespace

TEST_CASE("__expf keeps its stated error wherever the result is normal",
          "[kernels][executor][quick]") {
  double worst = 0;
  for (int i = -87 * 4096; i <= 88 * 4096; ++i) {
    const float x = static_cast<float>(i) / 4096.0F + static_cast<float>(i % 7) * 0x1p-20F;
    const double allowed = 2 + std::floor(std::fabs(1.173 * static_cast<double>(x)));
    worst = std::max(worst, error_in_ulp(__expf(x), std::exp(static_cast<double>(x))) / allowed);
  }

  CHECK(worst > 0.25); // the model does err, or it would be no model of __expf
  CHECK(worst <= 1);
  CHECK(__expf(-FA1_INFINITY) == 0);
  CHECK(__expf(FA1_INFINITY) == FA1_INFINITY);
  CHECK(std::isnan(__expf(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("__fdividef, __logf and rsqrtf keep their stated errors", "[kernels][executor][quick]") {
  double worst_quotient = 0;
  double worst_log_near_one = 0;
  double worst_log = 0;
  double worst_root = 0;
  for (int i = 1; i < 20000; ++i) {
    const float x =
        std::ldexp(1.0F + static_cast<float>(i * 7919 % 200003) / 200003.0F, i % 61 - 30);
    const float y =
        std::ldexp(1.0F + static_cast<float>(i * 104729 % 199999) / 199999.0F, i % 83 - 41);
    const double log_error =
        std::fabs(static_cast<double>(__logf(x)) - std::log(static_cast<double>(x)));
    worst_quotient =
        std::max(worst_quotient,
                 error_in_ulp(__fdividef(x, y), static_cast<double>(x) / static_cast<double>(y)));
    worst_root =
        std::max(worst_root, error_in_ulp(rsqrtf(x), 1 / std::sqrt(static_cast<double>(x))));
    if (x >= 0.5F && x <= 2.0F) {
      worst_log_near_one = std::max(worst_log_near_one, log_error);
    } else {
      worst_log = std::max(worst_log, log_error / ulp_around(std::log(static_cast<double>(x))));
    }
  }

  CHECK((worst_quotient > 0.5 && worst_quotient <= 2)); // more than one rounding, as the hardware
  CHECK((worst_root > 0.5 && worst_root <= 2));
  CHECK((worst_log_near_one > 0 && worst_log_near_one <= std::exp2(-21.41)));
  CHECK((worst_log > 0.5 && worst_log <= 3));
  CHECK(__fdividef(1.0F, 0x1.8p126F) == 0);
  CHECK(std::isnan(__fdividef(FA1_INFINITY, 0x1.8p126F)));
  CHECK(__fdividef(0x1p126F, 0x1p126F) == 1);
}

TEST_CASE("the _rn operations round once each, also where the compiler may fuse",
          "[kernels][executor][quick]") {
  const float x = 1.0F + 0x1p-12F;
  volatile float squared = x * x; // rounds away 2^-24

  CHECK(__fadd_rn(__fmul_rn(x, x), -squared) == 0);
  CHECK(__fsub_rn(__fmul_rn(x, x), squared) == 0);
  CHECK(__fmaf_rn(x, x, -squared) == 0x1p-24F);
  CHECK(__frcp_rn(3.0F) == __fdiv_rn(1.0F, 3.0F));
  CHECK(__fsqrt_rn(2.25F) == 1.5F);
}
