// Claims about named barriers: who waits for whom, what orders memory, and what is reported where a
// kernel breaks a rule. Each rule has a kernel that breaks it.

#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/tests/launches.hpp"
#include "kernels/tests/race_reports.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

using namespace fa1::simt;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using fa1::simt::tests::error_of;
using fa1::simt::tests::one_block;
using fa1::tests::RaceReports;

namespace {

constexpr unsigned kFull = 1;
constexpr unsigned kEmpty = 2;
constexpr unsigned kRounds = 5;

/// A generator cannot be copied out of a test, so each test asks for its own.
#define EVERY_SCHEDULE                                                                             \
  GENERATE(Schedule::forward(), Schedule::reverse(), Schedule::shuffled(3), Schedule::shuffled(8))

/// Warp 0 fills a tile in each round, warp 1 reads it; the tile is full, then empty.
template <bool WaitsForFull, bool WaitsForEmpty>
__global__ void produce_and_consume(unsigned* out) {
  FA1_SHARED(unsigned, tile, [32]);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned round = 0; round < kRounds; ++round) {
    if (threadIdx.x < 32) {
      if (WaitsForEmpty && round > 0) {
        fa1_barrier_sync(kEmpty, 64);
      }
      tile[lane] = 100 * round + lane;
      if (WaitsForFull) {
        fa1_barrier_arrive(kFull, 64);
      }
    } else {
      if (WaitsForFull) {
        fa1_barrier_sync(kFull, 64);
      }
      out[32 * round + lane] = tile[31 - lane];
      if (WaitsForEmpty && round + 1 < kRounds) {
        fa1_barrier_arrive(kEmpty, 64);
      }
    }
  }
}

/// One round of it.
template <bool HasBarrier> __global__ void hand_over(unsigned* out) {
  FA1_SHARED(unsigned, tile, [32]);
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = lane;
    if (HasBarrier) {
      fa1_barrier_arrive(kFull, 64);
    }
  } else {
    if (HasBarrier) {
      fa1_barrier_sync(kFull, 64);
    }
    out[lane] = tile[31 - lane];
  }
}

std::vector<unsigned> what_the_consumer_reads() {
  std::vector<unsigned> expected;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      expected.push_back(100 * round + 31 - lane);
    }
  }
  return expected;
}

/// Warps 0 and 1 pass the barrier, and then warps 2 and 3, who learn nothing of the first two.
/// Forward and reverse order keep the pairs apart; a program must not rely on it.
__global__ void pairs_in_turn(int* out) {
  FA1_SHARED(int, value, );
  if (threadIdx.x == 0) {
    value = 7;
  }
  fa1_barrier_sync(1, 64);
  if (threadIdx.x == 127) {
    *out = value;
  }
}

constexpr unsigned kCountLine = __LINE__ + 3;
__global__ void counts_differ() {
  if (threadIdx.x < 32) {
    fa1_barrier_arrive(3, 64);
  } else {
    fa1_barrier_sync(3, 96); // kCountLine + 2
  }
}

constexpr unsigned kTwiceLine = __LINE__ + 3;
__global__ void arrives_twice() {
  if (threadIdx.x < 32) {
    fa1_barrier_arrive(3, 64);
    fa1_barrier_arrive(3, 64); // kTwiceLine + 1
  } else {
    fa1_barrier_sync(4, 64);
  }
}

constexpr unsigned kThirdLine = __LINE__ + 1;
__global__ void three_warps_come_where_two_count() { fa1_barrier_arrive(3, 64); }

constexpr unsigned kCrossedLine = __LINE__ + 3;
__global__ void wait_for_each_other() {
  if (threadIdx.x < 32) {
    fa1_barrier_sync(3, 64);
    fa1_barrier_arrive(4, 64);
  } else {
    fa1_barrier_sync(4, 64); // kCrossedLine + 3
    fa1_barrier_arrive(3, 64);
  }
}

constexpr unsigned kAgainstBlockLine = __LINE__ + 3;
__global__ void waits_beside_block_barrier() {
  if (threadIdx.x < 32) {
    fa1_barrier_sync(3, 64);
  } else {
    __syncthreads(); // kAgainstBlockLine + 2
  }
}

constexpr unsigned kZeroLine = __LINE__ + 3;
__global__ void barrier_zero_beside_block_barrier() {
  if (threadIdx.x < 32) {
    fa1_barrier_sync(0, 64);
  } else {
    __syncthreads(); // kZeroLine + 2
  }
}

constexpr unsigned kLeaversLine = __LINE__ + 5;
__global__ void leaves_before(unsigned leaving) {
  if (threadIdx.x < leaving) {
    return;
  }
  fa1_barrier_sync(3, 64);
}

constexpr unsigned kHalvesLine = __LINE__ + 3;
__global__ void halves_of_a_warp() {
  if (threadIdx.x % 32 < 16) { // NOLINT(bugprone-branch-clone): two calls, on lines of their own
    fa1_barrier_sync(3, 64);
  } else {
    fa1_barrier_sync(3, 64); // kHalvesLine + 2
  }
}

} // namespace

// --- what runs -----------------------------------------------------------------------------------

TEST_CASE("a consumer reads what its producer wrote, in every order of the threads",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;
  std::vector<unsigned> out(32 * kRounds);

  const LaunchStats stats =
      launch(one_block(64, schedule), [&] { produce_and_consume<true, true>(out.data()); });

  CHECK(out == what_the_consumer_reads());
  CHECK(stats.named_barriers == 2 * kRounds - 1);
  CHECK(stats.block_barriers == 0);
}

TEST_CASE("arriving does not wait: a warp may arrive at barriers that are waited for the other way "
          "round",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const LaunchStats stats = launch(one_block(64, schedule), [] {
    if (threadIdx.x < 32) {
      fa1_barrier_arrive(1, 64);
      fa1_barrier_arrive(2, 64);
    } else {
      fa1_barrier_sync(2, 64);
      fa1_barrier_sync(1, 64);
    }
  });

  CHECK(stats.named_barriers == 2);
}

TEST_CASE("waiting lasts until the last thread of the count has come",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;
  std::atomic<unsigned> came{0};
  std::atomic<unsigned> left_early{0};

  launch(one_block(96, schedule), [&] {
    ++came;
    if (threadIdx.x < 32) {
      fa1_barrier_arrive(15, 96);
    } else {
      fa1_barrier_sync(15, 96);
      left_early += came.load() < 96 ? 1U : 0U;
    }
  });

  CHECK(left_early == 0);
}

TEST_CASE("the threads that leave a named barrier run in the order of the schedule",
          "[kernels][executor][quick]") {
  const auto order = [](Schedule schedule) {
    std::vector<unsigned> ran(64);
    std::atomic<unsigned> count{0};
    launch(one_block(64, schedule), [&] {
      fa1_barrier_sync(5, 64);
      ran[count.fetch_add(1, std::memory_order_relaxed)] = threadIdx.x;
    });
    return ran;
  };
  std::vector<unsigned> upwards(64);
  std::iota(upwards.begin(), upwards.end(), 0U);

  const auto shuffled = order(Schedule::shuffled(1));

  CHECK(order(Schedule::forward()) == upwards);
  CHECK(order(Schedule::reverse()) == std::vector<unsigned>(upwards.rbegin(), upwards.rend()));
  CHECK(shuffled != upwards);
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), upwards.begin(), upwards.end()));
}

TEST_CASE(
    "the threads that leave a named barrier run behind all others in forward order and before "
    "them in reverse",
    "[kernels][executor][quick]") {
  const bool reverse = GENERATE(false, true);
  const unsigned alone = reverse ? 0 : 2; // the warp that runs last and does not wait
  std::vector<unsigned> warps(96);
  std::atomic<unsigned> count{0};

  launch(one_block(96, reverse ? Schedule::reverse() : Schedule::forward()), [&] {
    const unsigned warp = threadIdx.x / 32;
    if (warp != alone) {
      fa1_barrier_sync(5, 64);
    }
    warps[count.fetch_add(1, std::memory_order_relaxed)] = warp;
  });

  CHECK(warps.front() == 2); // forward the one that did not wait, in reverse the first that did
  CHECK(warps.back() == (reverse ? 0 : 1));
}

TEST_CASE("a warp that is not full counts as a whole one", "[kernels][executor][quick]") {
  const unsigned threads = GENERATE(1U, 33U, 63U);
  const unsigned whole = (threads + 31) / 32 * 32;

  const LaunchStats stats = launch(one_block(threads), [&] { fa1_barrier_sync(1, whole); });

  CHECK(stats.named_barriers == 1);
}

TEST_CASE("pairs of warps pass barriers of their own, each block its own",
          "[kernels][executor][quick]") {
  const unsigned os_threads = GENERATE(1U, 2U);
  const LaunchConfig config{.grid = {3}, .block = {128}, .os_threads = os_threads};

  const LaunchStats stats = launch(config, [] {
    for (unsigned round = 0; round < 4; ++round) {
      fa1_barrier_sync(1 + threadIdx.x / 64, 64);
    }
    fa1_barrier_sync(0, 128);
    __syncthreads();
  });

  CHECK(stats.named_barriers == 3 * (2 * 4 + 1));
  CHECK(stats.block_barriers == 3);
}

// --- faults --------------------------------------------------------------------------------------

TEST_CASE("a missing named barrier shows in one of the two orders, as wrong values or as a fault",
          "[kernels][executor][quick]") {
  const RaceReports expected; // the faulty kernels race, as they should
  const auto read = [](auto kernel, Schedule schedule) {
    std::vector<unsigned> out(32 * kRounds);
    const auto error = error_of(one_block(64, schedule), [&] { kernel(out.data()); });
    return error.has_value() ? std::vector<unsigned>{} : out;
  };

  const auto without_full_forward = read(produce_and_consume<false, true>, Schedule::forward());
  const auto without_full_reverse = read(produce_and_consume<false, true>, Schedule::reverse());
  const auto without_empty_forward = read(produce_and_consume<true, false>, Schedule::forward());

  CHECK((without_full_forward != what_the_consumer_reads() ||
         without_full_reverse != what_the_consumer_reads()));
  CHECK(without_empty_forward != what_the_consumer_reads());
}

TEST_CASE("a barrier's number and count are checked at the call", "[kernels][executor][quick]") {
  const auto number = error_of(one_block(64), [] { fa1_barrier_sync(16, 64); });
  const auto count = error_of(one_block(64), [] { fa1_barrier_arrive(1, 48); });
  const auto nobody = error_of(one_block(64), [] { fa1_barrier_sync(1, 0); });
  const auto too_many = error_of(one_block(33), [] { fa1_barrier_sync(1, 96); });

  REQUIRE((number.has_value() && count.has_value() && nobody.has_value() && too_many.has_value()));
  for (const auto* error : {&number, &count, &nobody, &too_many}) {
    CHECK((*error)->fault == Fault::barrier_misuse);
    CHECK_THAT((*error)->first.file, EndsWith("named_barrier_test.cpp"));
    CHECK((*error)->first.line != 0);
  }
  CHECK_THAT(number->what(), ContainsSubstring("fa1_barrier_sync(16, 64)") &&
                                 ContainsSubstring("barriers are 0 to 15"));
  CHECK_THAT(count->what(),
             ContainsSubstring("fa1_barrier_arrive(1, 48)") && ContainsSubstring("multiple of 32"));
  CHECK_THAT(nobody->what(), ContainsSubstring("multiple of 32"));
  CHECK_THAT(too_many->what(), ContainsSubstring("the block has 33 threads"));
}

TEST_CASE("counts that differ are reported with both lines", "[kernels][executor][quick]") {
  const bool reverse = GENERATE(false, true);
  const Schedule schedule = reverse ? Schedule::reverse() : Schedule::forward();

  const auto error = error_of(one_block(96, schedule), counts_differ);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_misuse);
  CHECK(error->first.line == (reverse ? kCountLine : kCountLine + 2));
  CHECK(error->second.line == (reverse ? kCountLine + 2 : kCountLine));
  CHECK_THAT(error->what(), ContainsSubstring(reverse ? "counts to 96" : "counts to 64"));
}

TEST_CASE("a warp that arrives again before the barrier is complete is reported with both lines",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(64, schedule), arrives_twice);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_misuse);
  CHECK(error->first.line == kTwiceLine + 1);
  CHECK(error->second.line == kTwiceLine);
  CHECK_THAT(error->what(), ContainsSubstring("more arrivals than threads"));
}

TEST_CASE("arrivals beyond the count are reported, at the latest when the block ends",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(96, schedule), three_warps_come_where_two_count);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_misuse);
  CHECK(error->first.line == kThirdLine);
  CHECK_THAT(error->what(), ContainsSubstring("more"));
}

TEST_CASE("a deadlock names who waits where and for how many", "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(64, schedule), wait_for_each_other);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_deadlock);
  CHECK(error->first.line == kCrossedLine);
  CHECK(error->second.line == kCrossedLine + 3);
  CHECK(error->at_first == 32);
  CHECK(error->elsewhere == 32);
  CHECK(error->exited == 0);
  CHECK_THAT(error->what(),
             ContainsSubstring(std::to_string(kCrossedLine) +
                               " (32 threads from (0,0,0)) waits for barrier 3, which has 32 of "
                               "64 threads") &&
                 ContainsSubstring(std::to_string(kCrossedLine + 3) +
                                   " (32 threads from (32,0,0)) waits for barrier 4"));
}

TEST_CASE("a warp at a named barrier and one at the block's are a deadlock",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(64, schedule), waits_beside_block_barrier);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_deadlock);
  CHECK(error->first.line == kAgainstBlockLine);
  CHECK(error->second.line == kAgainstBlockLine + 2);
}

TEST_CASE("barrier 0 is the one of __syncthreads and not to be used as both at once",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(64, schedule), barrier_zero_beside_block_barrier);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_misuse);
  CHECK(std::minmax(error->first.line, error->second.line) ==
        std::minmax(kZeroLine, kZeroLine + 2));
}

TEST_CASE("threads that left before a named barrier are counted in the report",
          "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;
  const unsigned leaving = GENERATE(32U, 40U);

  const auto error = error_of(one_block(64, schedule), [&] { leaves_before(leaving); });

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::exited_before_barrier);
  CHECK(error->first.line == kLeaversLine);
  CHECK(error->at_first == 64 - leaving);
  CHECK(error->exited == leaving);
  CHECK_THAT(error->what(),
             ContainsSubstring(leaving == 32 ? "has 32 of 64 threads" : "has 0 of 64 threads") &&
                 ContainsSubstring(std::to_string(leaving) + " exited of 64"));
}

TEST_CASE("the threads of a warp come to a barrier from one line", "[kernels][executor][quick]") {
  const Schedule schedule = EVERY_SCHEDULE;

  const auto error = error_of(one_block(64, schedule), halves_of_a_warp);

  REQUIRE(error.has_value());
  CHECK(error->fault == Fault::barrier_misuse);
  CHECK(std::minmax(error->first.line, error->second.line) ==
        std::minmax(kHalvesLine, kHalvesLine + 2));
}

// --- memory --------------------------------------------------------------------------------------

TEST_CASE("producer and consumer with both barriers are free of race reports",
          "[kernels][executor][race][quick]") {
  if (!RaceReports::kAvailable) {
    SKIP("needs the race-checking build, FA1_SANITIZE=thread");
  }
  const Schedule schedule = EVERY_SCHEDULE;
  std::vector<unsigned> out(32 * kRounds);

  const RaceReports reports;
  launch(one_block(64, schedule), [&] { produce_and_consume<true, true>(out.data()); });

  CHECK(out == what_the_consumer_reads());
  CHECK(reports.places().empty());
}

TEST_CASE("a missing named barrier is reported in every order, with the kernel's file",
          "[kernels][executor][race][quick]") {
  if (!RaceReports::kAvailable) {
    SKIP("needs the race-checking build, FA1_SANITIZE=thread");
  }
  const Schedule schedule = EVERY_SCHEDULE;
  std::vector<unsigned> out(32);

  const RaceReports reports;
  launch(one_block(64, schedule), [&] { hand_over<false>(out.data()); });
  const std::size_t without = reports.count();
  launch(one_block(64, schedule), [&] { hand_over<true>(out.data()); });

  CHECK(reports.count() == without);
  REQUIRE(reports.count() > 0);
  CHECK(reports.places().front().find("named_barrier_test.cpp:") != std::string::npos);
}

TEST_CASE("a barrier that another pair of warps has used orders nothing for the next pair",
          "[kernels][executor][race][quick]") {
  if (!RaceReports::kAvailable) {
    SKIP("needs the race-checking build, FA1_SANITIZE=thread");
  }
  const Schedule schedule = GENERATE(Schedule::forward(), Schedule::reverse());
  int out = 0;

  const RaceReports reports;
  launch(one_block(128, schedule), [&] { pairs_in_turn(&out); });

  CHECK(reports.count() > 0);
}
