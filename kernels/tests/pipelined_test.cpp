// Claims about fa1_pipelined: it is the deferred recurrence bit for bit in every order of its
// threads, and each of its fifteen named barriers is needed.
//
// Sizes: fewer rows than a block has and more, keys that fill no tile, one, two and many of them.

#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/tests/race_reports.hpp"
#include "kernels/tests/states.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

constexpr unsigned kNone = 0; // is __syncthreads, which stays

/// The named barrier that the kernel below does without.
unsigned left_out = kNone;

FA1_WORD void sync_unless_left_out(unsigned id, unsigned threads,
                                   const char* file = __builtin_FILE(),
                                   unsigned line = __builtin_LINE()) {
  if (id != left_out)
    fa1_barrier_sync(id, threads, file, line);
}

FA1_WORD void arrive_unless_left_out(unsigned id, unsigned threads,
                                     const char* file = __builtin_FILE(),
                                     unsigned line = __builtin_LINE()) {
  if (id != left_out)
    fa1_barrier_arrive(id, threads, file, line);
}

} // namespace

#define fa1_barrier_sync sync_unless_left_out
#define fa1_barrier_arrive arrive_unless_left_out
#include "kernels/fa1_pipelined.cuh"
#undef fa1_barrier_sync
#undef fa1_barrier_arrive

using namespace fa1;
using fa1::tests::RaceReports;
using kernels::tests::problem_of;
using kernels::tests::same_bits;
using reference::Problem;
using reference::State;

namespace {

/// Goes on from `state`.
template <int Br, int Bc, int D>
void run_pipelined(const Problem& problem, State& state, simt::Schedule schedule,
                   unsigned blocks_of_rows = 1) {
  const auto& shape = problem.shape;
  REQUIRE((shape.d == D && shape.dv == D));
  simt::launch({.grid = {static_cast<unsigned>(shape.batch_heads), blocks_of_rows},
                .block = {kernels::kPipelineThreads},
                .schedule = schedule},
               [&] {
                 kernels::fa1_pipelined<Br, Bc, D>(
                     problem.Q.elements().data(), problem.K.elements().data(),
                     problem.V.elements().data(), state.O.elements().data(), state.l.data(),
                     state.m.data(), shape.n_q, shape.n_kv, problem.scale);
               });
}

/// The deferred recurrence over tiles of Bc keys in plain loops.
void run_plainly(const Problem& problem, State& state, std::int64_t Bc) {
  const auto& shape = problem.shape;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      float& l = state.l[static_cast<std::size_t>(bh * shape.n_q + row)];
      float& m = state.m[static_cast<std::size_t>(bh * shape.n_q + row)];
      std::vector<float> A;
      for (std::int64_t i = 0; i < shape.dv; ++i)
        A.push_back(l * state.O(bh, row, i));
      for (std::int64_t key0 = 0; key0 < shape.n_kv; key0 += Bc) {
        const std::int64_t end = std::min(key0 + Bc, shape.n_kv);
        std::vector<float> p;
        float m_new = m;
        for (std::int64_t j = key0; j < end; ++j) {
          float s = 0.0f;
          for (std::int64_t i = 0; i < shape.d; ++i)
            s += problem.Q(bh, row, i) * problem.K(bh, j, i);
          p.push_back(s * problem.scale);
          m_new = std::fmax(m_new, p.back());
        }
        float sum_p = 0.0f;
        for (float& weight : p) {
          weight = expf(weight - m_new);
          sum_p += weight;
        }
        const float alpha = expf(m - m_new);
        for (std::int64_t i = 0; i < shape.dv; ++i) {
          float pv = 0.0f;
          for (std::int64_t j = key0; j < end; ++j)
            pv += p[static_cast<std::size_t>(j - key0)] * problem.V(bh, j, i);
          A[static_cast<std::size_t>(i)] = alpha * A[static_cast<std::size_t>(i)] + pv;
        }
        l = alpha * l + sum_p;
        m = m_new;
      }
      for (std::int64_t i = 0; i < shape.dv; ++i)
        state.O(bh, row, i) = A[static_cast<std::size_t>(i)] / l;
    }
}

template <int Br, int Bc, int D>
bool is_the_recurrence(const std::string& sizes, simt::Schedule schedule, unsigned blocks = 1) {
  const Problem problem = problem_of(sizes + " d=" + std::to_string(D));
  State expected = reference::start_state(problem.shape);
  State found = expected;
  run_plainly(problem, expected, Bc);
  run_pipelined<Br, Bc, D>(problem, found, schedule, blocks);
  return same_bits(found, expected);
}

/// A generator cannot be copied out of a test, so each test asks for its own.
#define EVERY_SCHEDULE                                                                             \
  GENERATE(simt::Schedule::forward(), simt::Schedule::reverse(), simt::Schedule::shuffled(3),      \
           simt::Schedule::shuffled(8))

/// So many shuffled orders are tried. The rarest sign, of V not waited for, shows in a sixteenth.
constexpr std::uint32_t kOrders = 64;

/// What gives away that a barrier is left out; empty if nothing does in this order.
std::string given_away_by(unsigned barrier, simt::Schedule schedule) {
  const Problem problem = problem_of("n_q=4 n_kv=23 d=8 seed=5 order=ascending");
  State expected = reference::start_state(problem.shape);
  State found = expected;
  run_plainly(problem, expected, 2);
  left_out = barrier;
  std::string how;
  try {
    run_pipelined<4, 2, 8>(problem, found, schedule);
  } catch (const simt::ExecutorError& error) {
    how = to_string(error.fault);
  }
  left_out = kNone;
  return !how.empty() ? how : same_bits(found, expected) ? "" : "other bits";
}

} // namespace

TEST_CASE("fa1_pipelined is the deferred recurrence bit for bit, ragged or not, in every order",
          "[kernels][pipelined][quick]") {
  const auto schedule = EVERY_SCHEDULE;
  const std::string sizes =
      GENERATE("n_q=1 n_kv=1", "n_q=3 n_kv=2", "n_q=9 n_kv=11 bh=2", "n_q=17 n_kv=16",
               "n_q=5 n_kv=33 order=ascending", "n_q=5 n_kv=40 order=descending sigma=30");
  CAPTURE(sizes);

  CHECK(is_the_recurrence<4, 2, 1>(sizes, schedule));
  CHECK(is_the_recurrence<3, 5, 8>(sizes, schedule));
  CHECK(is_the_recurrence<16, 16, 8>(sizes, schedule));
}

TEST_CASE("query blocks that are dealt out over the grid give the same bits as one block for all",
          "[kernels][pipelined][quick]") {
  const unsigned blocks = GENERATE(1U, 2U, 3U, 7U);

  CHECK(is_the_recurrence<4, 2, 8>("n_q=21 n_kv=9 bh=2", simt::Schedule::shuffled(1), blocks));
}

TEST_CASE("fa1_pipelined passes on what makes a row NaN or infinite",
          "[kernels][pipelined][quick]") {
  const std::string put =
      GENERATE("put=K:3,1:nan", "put=Q:2,0:inf", "put=V:5,0:-inf", "put=K:0,0:-inf;Q:1,0:inf");
  CAPTURE(put);

  CHECK(is_the_recurrence<4, 2, 8>("n_q=6 n_kv=9 " + put, simt::Schedule::forward()));
}

TEST_CASE("fa1_pipelined goes on from the carries of a launch before, and keeps them without keys",
          "[kernels][pipelined][quick]") {
  const Problem problem = problem_of("n_q=6 n_kv=23 d=8 seed=4");
  const Problem first = reference::slice_keys(problem, 0, 10);
  const Problem none = reference::slice_keys(problem, 10, 0);
  const Problem second = reference::slice_keys(problem, 10, 13);
  State expected = reference::start_state(problem.shape);
  State found = expected;

  for (const Problem* part : {&first, &second})
    run_plainly(*part, expected, 5);
  for (const Problem* part : {&none, &first, &none, &second})
    run_pipelined<3, 5, 8>(*part, found, simt::Schedule::forward());

  CHECK(same_bits(found, expected));
}

TEST_CASE("fa1_pipelined has no data race", "[kernels][pipelined][race][quick]") {
  if (!RaceReports::kAvailable)
    SKIP("needs the racecheck preset (ThreadSanitizer)");
  const auto schedule = EVERY_SCHEDULE;

  const RaceReports reports;
  const bool right = is_the_recurrence<4, 2, 8>("n_q=9 n_kv=15", schedule);

  CHECK(right);
  CHECK(reports.places().empty());
}

TEST_CASE(
    "each named barrier of fa1_pipelined is needed: without it some order of the threads gives "
    "other bits or a fault",
    "[kernels][pipelined][quick]") {
  if (RaceReports::kAvailable)
    SKIP("the racecheck preset needs no luck with the order, see the last test");
  const auto orders_that_tell = [](unsigned barrier) {
    int orders = 0;
    for (std::uint32_t seed = 1; seed <= kOrders; ++seed)
      orders += !given_away_by(barrier, simt::Schedule::shuffled(seed)).empty();
    return orders;
  };

  CHECK(orders_that_tell(kNone) == 0);
  for (unsigned barrier = 1; barrier < simt::kNamedBarriers; ++barrier) {
    CAPTURE(barrier);
    CHECK(orders_that_tell(barrier) > 0);
  }
}

TEST_CASE("without one of its named barriers fa1_pipelined races or breaks a rule in every order",
          "[kernels][pipelined][race][quick]") {
  if (!RaceReports::kAvailable)
    SKIP("needs the racecheck preset (ThreadSanitizer)");
  const auto schedule = EVERY_SCHEDULE;

  for (unsigned barrier = 1; barrier < simt::kNamedBarriers; ++barrier) {
    CAPTURE(barrier);
    const RaceReports reports;
    const std::string how = given_away_by(barrier, schedule);
    CHECK((reports.count() > 0 || how == to_string(simt::Fault::barrier_misuse)));
  }
}
