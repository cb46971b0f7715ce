// Claims about fa1_tuned: it is fa1 bit for bit at equal tiles of keys, in every order of its threads,
// and each place where it waits is needed.
//
// Sizes: fewer rows than a block has and more, keys that fill no tile, one, two and many of them.

#include "kernels/family.cuh"
#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/simt/fiber.hpp"
#include "kernels/tests/race_reports.hpp"
#include "kernels/tests/states.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

namespace {

constexpr unsigned kNone = 0;

/// The lines of the kernel that wait, as they are met, and the one that is left out.
std::set<unsigned> lines_that_wait;
unsigned left_out = kNone;

FA1_WORD bool waits_at(unsigned line) {
  const fa1::simt::race::Unseen list; // of this test, not of the kernel
  lines_that_wait.insert(line);
  return line != left_out;
}

FA1_WORD void block_waits(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  if (waits_at(line))
    __syncthreads(file, line);
}

FA1_WORD void warp_waits(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  if (waits_at(line))
    __syncwarp(0xffffffffU, file, line);
}

FA1_WORD void copies_wait(unsigned line = __builtin_LINE()) {
  if (waits_at(line))
    fa1_wait_for_copies();
}

} // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the kernel's own words, made to count
#define __syncthreads block_waits
#define __syncwarp warp_waits
// NOLINTEND(bugprone-reserved-identifier)
#define fa1_wait_for_copies copies_wait
#include "kernels/fa1_tuned.cuh"
#undef __syncthreads
#undef __syncwarp
#undef fa1_wait_for_copies

using namespace fa1;
using fa1::tests::RaceReports;
using kernels::tests::problem_of;
using kernels::tests::same;
using kernels::tests::same_bits;
using reference::Problem;
using reference::State;

namespace {

template <class Kernel>
void launch(const simt::LaunchConfig& config, Kernel kernel, const Problem& problem, State& state) {
  simt::launch(config, [&] {
    kernel(problem.Q.elements().data(), problem.K.elements().data(), problem.V.elements().data(),
           state.O.elements().data(), state.l.data(), state.m.data(), problem.shape.n_q,
           problem.shape.n_kv, problem.scale);
  });
}

/// Goes on from `state`.
template <int Br, int Bc, int D>
void run_tuned(const Problem& problem, State& state, simt::Schedule schedule,
               unsigned blocks_of_rows = 1) {
  REQUIRE((problem.shape.d == D && problem.shape.dv == D));
  constexpr std::size_t kBytes = sizeof(kernels::TunedTiles<Br, Bc, D>);
  launch({.grid = {static_cast<unsigned>(problem.shape.batch_heads), blocks_of_rows},
          .block = {Br},
          .dynamic_shared_bytes = kBytes,
          .schedule = schedule,
          .shared_limit_bytes = std::max<std::size_t>(kBytes, 48 * 1024)},
         kernels::fa1_tuned<Br, Bc, D>, problem, state);
}

template <int Bc, int D> void run_fa1(const Problem& problem, State& state) {
  launch({.grid = {static_cast<unsigned>(problem.shape.batch_heads)}}, kernels::fa1<1, Bc, D>,
         problem, state);
}

template <int Br, int Bc, int D>
bool is_fa1(const std::string& sizes, simt::Schedule schedule, unsigned blocks = 1) {
  const Problem problem = problem_of(sizes + " d=" + std::to_string(D));
  State expected = reference::start_state(problem.shape);
  State found = expected;
  run_fa1<Bc, D>(problem, expected);
  run_tuned<Br, Bc, D>(problem, found, schedule, blocks);
  return same_bits(found, expected);
}

/// A generator cannot be copied out of a test, so each test asks for its own.
#define EVERY_SCHEDULE                                                                             \
  GENERATE(simt::Schedule::forward(), simt::Schedule::reverse(), simt::Schedule::shuffled(3))

/// What gives away that the kernel does not wait at a line; empty if nothing does in this order.
std::string given_away_by(unsigned line, simt::Schedule schedule) {
  left_out = line;
  std::string how;
  try {
    how = is_fa1<64, 16, 8>("n_q=70 n_kv=43 seed=5 order=ascending", schedule) ? "" : "other bits";
  } catch (const simt::ExecutorError& error) {
    how = to_string(error.fault);
  }
  left_out = kNone;
  return how;
}

std::set<unsigned> all_lines_that_wait() {
  lines_that_wait.clear();
  given_away_by(kNone, simt::Schedule::forward());
  return lines_that_wait;
}

} // namespace

TEST_CASE("fa1_tuned is fa1 bit for bit, ragged or not, in every order of its threads",
          "[kernels][tuned][quick]") {
  const auto schedule = EVERY_SCHEDULE;
  const std::string sizes =
      GENERATE("n_q=1 n_kv=1", "n_q=33 n_kv=16 bh=2", "n_q=70 n_kv=33 order=ascending",
               "n_q=32 n_kv=40 order=descending sigma=30", "n_q=5 n_kv=70 scale=-1");
  CAPTURE(sizes);

  CHECK(is_fa1<32, 4, 4>(sizes, schedule));
  CHECK(is_fa1<64, 16, 8>(sizes, schedule));
  CHECK(is_fa1<32, 32, 16>(sizes, schedule));
}

TEST_CASE("the tile of fa1_tuned that a GPU runs is fa1 bit for bit, too",
          "[kernels][tuned][quick]") {
  const std::string sizes = GENERATE("n_q=130 n_kv=200", "n_q=9 n_kv=64 sigma=4");
  CAPTURE(sizes);

  CHECK(is_fa1<128, 64, 64>(sizes, simt::Schedule::shuffled(2), 2));
}

TEST_CASE("query blocks of fa1_tuned that are dealt out over the grid give the same bits",
          "[kernels][tuned][quick]") {
  const unsigned blocks = GENERATE(1U, 2U, 3U, 7U);

  CHECK(is_fa1<32, 4, 8>("n_q=150 n_kv=9 bh=2", simt::Schedule::shuffled(1), blocks));
}

TEST_CASE(
    "fa1_tuned passes on what is NaN, infinite, 0, subnormal or close to overflow as fa1 does",
    "[kernels][tuned][quick]") {
  const std::string put =
      GENERATE("put=K:3,1:nan", "put=Q:2,0:inf", "put=V:5,0:-inf", "put=K:0,0:-inf;Q:1,0:inf",
               "put=V:0,0:0x1p-149;V:4,1:-0x1p-149", "put=V:1,2:0x1p127;V:6,3:-0x1p127", "v=zero",
               "Q=0*48 scale=-1", "put=V:0,0:-0;V:1,0:-0");
  CAPTURE(put);

  CHECK(is_fa1<32, 4, 8>("n_q=6 n_kv=9 " + put, simt::Schedule::forward()));
}

TEST_CASE("fa1_tuned goes on from the carries of a launch before, and keeps them without keys",
          "[kernels][tuned][quick]") {
  const Problem problem = problem_of("n_q=40 n_kv=23 d=8 seed=4");
  const Problem first = reference::slice_keys(problem, 0, 10);
  const Problem none = reference::slice_keys(problem, 10, 0);
  const Problem second = reference::slice_keys(problem, 10, 13);
  State expected = reference::start_state(problem.shape);
  State found = expected;

  for (const Problem* part : {&first, &second})
    run_fa1<4, 8>(*part, expected);
  for (const Problem* part : {&none, &first, &none, &second})
    run_tuned<32, 4, 8>(*part, found, simt::Schedule::forward());

  CHECK(same_bits(found, expected));
}

TEST_CASE("each place where fa1_tuned waits is needed: without it some order of the threads gives "
          "other bits or a fault",
          "[kernels][tuned][quick]") {
  if (RaceReports::kAvailable)
    SKIP("the racecheck preset needs no luck with the order, see below");
  const auto lines = all_lines_that_wait();
  const auto tells = [](unsigned line) {
    const auto given_away = [&](simt::Schedule schedule) {
      return !given_away_by(line, schedule).empty();
    };
    return given_away(simt::Schedule::forward()) || given_away(simt::Schedule::reverse()) ||
           given_away(simt::Schedule::shuffled(1)) || given_away(simt::Schedule::shuffled(2));
  };

  CHECK(lines.size() == 5); // two for copies, two of the block, one of the warp
  CHECK_FALSE(tells(kNone));
  for (const unsigned line : lines) {
    CAPTURE(line);
    CHECK(tells(line));
  }
}

TEST_CASE("fa1_tuned has no data race, and one where it does not wait",
          "[kernels][tuned][race][quick]") {
  if (!RaceReports::kAvailable)
    SKIP("needs the racecheck preset (ThreadSanitizer)");
  const auto schedule = EVERY_SCHEDULE;

  const auto races_without = [&](unsigned line) {
    const RaceReports reports;
    const std::string how = given_away_by(line, schedule);
    return reports.count() > 0 || !how.empty();
  };

  CHECK_FALSE(races_without(kNone));
  for (const unsigned line : all_lines_that_wait()) {
    CAPTURE(line);
    CHECK(races_without(line));
  }
}

TEST_CASE("the division of fa1_tuned is IEEE division", "[kernels][tuned][quick]") {
  constexpr int kPairs = 500000;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  const auto in_range = [&](int least, int most) {
    const int exponent = std::uniform_int_distribution<int>(least, most)(random);
    return std::ldexp(mantissa(random), exponent);
  };
  constexpr float kNearOne = 0x1.fffffep0f; // all ones: the hardest divisor to take a reciprocal of
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto agrees = [](float x, float l) {
    float quotients[1][4] = {{x, -x, std::nextafterf(x, 0.0f), std::nextafterf(x, kInfinity)}};
    float wanted[4] = {};
    std::transform(quotients[0], quotients[0] + 4, wanted, [l](float y) { return y / l; });
    kernels::divide(quotients, {kernels::divisor_of(l)});
    return std::equal(quotients[0], quotients[0] + 4, wanted, same);
  };

  int wrong = 0, wrong_at_ends = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const float l = pair % 5 == 0 ? kNearOne : in_range(0, pair % 3 == 0 ? 0 : 24);
    wrong += agrees(in_range(-20, 20), l) ? 0 : 1;
    wrong_at_ends += agrees(in_range(-149, 127), in_range(-126, 127)) ? 0 : 1;
  }

  CHECK(wrong == 0);
  CHECK(wrong_at_ends == 0);
  CHECK(agrees(0.0f, 3.0f));
  CHECK(agrees(kInfinity, 3.0f));
  CHECK(agrees(1.0f, std::numeric_limits<float>::quiet_NaN()));
}
