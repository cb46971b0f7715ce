/// The carries after every tile beside the exact answer for the keys so far: where do kernel and
/// truth part, and why?
///
/// Computes  per tile and query row: m, l, O as the kernel leaves them (the kernel itself is run
/// tile by tile, from
///           carries to carries; one that cannot resume is run on every prefix), alpha = expf(m_old
///           - m), the certified truth of the prefix, the error in ulp of the truth, whether the
///           tile is off, and one sentence on the cause
/// Off       proved wrong against the bound of the prefix; or NaN or Inf although a later key
/// defines the answer; or l has
///           stopped growing (l + p = l for a key of full weight). Where the bound's conditions
///           fail: further away than every rounding of the recurrence together could move it,
///           gamma(4 (d + Bc + 3 T + 4)) max|v|. A step that is only suspicious (beyond kLambda
///           times the statistical expectation) is marked so, and is the first off tile where none
///           is proved so.
/// Long      more than kEveryTile tiles: the first kFirstTiles, the last kLastTiles, every power of
/// two, those where a plain-loop run
///           of the recurrence shows NaN, Inf or stagnation, and the first off one by bisection
///           between them (which assumes that what is off stays off)
/// Cost      one certified prefix per tile shown
#pragma once

#include "kernels/kernel.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

inline constexpr std::int64_t kEveryTile = 64;
inline constexpr std::int64_t kFirstTiles = 4;
inline constexpr std::int64_t kLastTiles = 2;
/// Beyond so many keys a prefix is not certified: O and l are shown without truth, and only events
/// make a tile off.
inline constexpr std::int64_t kKeysToCertify = std::int64_t{1} << 22;

enum class StepState { right, suspicious, off };

struct TraceStep {
  std::int64_t batch_head = 0, row = 0, tile = 0, first_key = 0, columns = 0;
  float m = 0, l = 0, alpha = 0;
  std::vector<float> O;
  std::vector<reference::Enclosed>
      truth;                ///< of O for the keys so far; empty where it was not certified
  std::vector<double> ulps; ///< |O - truth| in ulp of the truth, per column
  StepState state = StepState::right;
  std::string why; ///< off and suspicious steps: what is wrong and from where it came
  /// off and suspicious steps: the first quantity of the tile that is bad: S, alpha, p, m, l or O
  std::string_view quantity;
};

struct Trace {
  std::int64_t tiles = 0;
  std::int64_t left_out = 0;    ///< tiles not shown
  std::vector<TraceStep> steps; ///< tiles outermost
  std::optional<TraceStep> first_off;
};

struct QueryRow {
  std::int64_t batch_head = 0, row = 0;
  bool operator==(const QueryRow&) const = default;
};

/// The problem of one query row alone, and what a state holds of it.
reference::Problem row_problem(const reference::Problem& problem, QueryRow at);
reference::State row_state(const reference::State& state, const reference::Shape& shape,
                           QueryRow at);

/// Rows empty: all of them.
Trace trace(const reference::Problem& problem, const kernels::Kernel& kernel,
            std::vector<QueryRow> rows = {});

void print(std::ostream& out, const Trace& trace);

/// How to run one query row against many keys on the CPU: a block of one thread never waits at a
/// barrier.
kernels::Launch launch_for(const kernels::Kernel& kernel, const reference::Problem& problem);

/// True where no score of a d = 1 problem needs rounding: the recurrence can then be judged on its
/// own.
bool scores_are_exact(const reference::Problem& problem);

} // namespace fa1::numerics
