/// A kernel's run, taken apart into the steps in which data moves between HBM and SRAM.
///
/// Computes  for every batch-head, K/V tile j and query block i the phases load K and V (once a tile),
///           load Q, O, m and l, scores, max and denominator, output, store; what each moves; and what
///           every query row computes in them
/// Carries   m, l and O after a tile are the kernel's own, run tile by tile (trace.hpp). What never
///           leaves a tile (S, p, their sum, sum p v) is that of the mirror (tiled_mirror.hpp) on the
///           kernel's carries. Where mirror and kernel then part, `differs` holds the first place
/// Traffic   floats between HBM and SRAM; a row is stored in D columns, as the kernel's instance has it.
///           The sum over the steps is fa1_traffic(): NUMERICS 7,
///               reads   K, V: 2 N D   Q, O: 2 Tc N_q D   l, m: 2 Tc N_q
///               writes  O: Tc N_q D   l, m: 2 Tc N_q
/// Shapes    `rows` is [batch_heads][tiles][n_q]
/// Requires  algorithm_of(kernel), kernel.resumes and at most kEveryTile tiles
/// Error     none; each row's O comes with its distance from the certified truth of the keys so far
/// Special   no keys or no queries: the start step alone
/// Source    kernels/fa1.cuh
#pragma once

#include "numerics/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

enum class Phase { start, load_tile, load_block, scores, softmax, output, store };
std::string_view name_of(Phase phase);

/// One line of an algorithm; a line without phases belongs to none, such as a loop's head.
struct AlgorithmLine {
  std::string_view text;
  std::optional<Phase> phase;
  int depth = 0; ///< loops around it
};

struct Algorithm {
  std::string_view variant; ///< as Kernel::variant has it; mutants and rewrites of it have it too
  std::string_view traffic; ///< the closed form, in floats
  std::vector<AlgorithmLine> lines;
};

/// The variants whose steps are known, one row each.
std::span<const Algorithm> all_algorithms();
/// nullptr: this kernel's steps are not known.
const Algorithm* algorithm_of(const kernels::Kernel& kernel);

/// Floats that were moved, by array.
struct Traffic {
  std::int64_t Q = 0, K = 0, V = 0, O = 0, l = 0, m = 0;

  std::int64_t total() const { return Q + K + V + O + l + m; }
  Traffic& operator+=(const Traffic& other);
  bool operator==(const Traffic&) const = default;
};

struct Moved {
  Traffic read, written; ///< from HBM to SRAM, and back
  bool operator==(const Moved&) const = default;
};

Moved fa1_traffic(const reference::Shape& shape, int Bc, int D);

/// What one query row computes in one tile.
struct RowOfTile {
  TraceStep carries;       ///< of the kernel, with truth, state and cause
  std::vector<float> s, p; ///< of the mirror, as are the next three
  std::vector<float> pv;
  float m_tile = 0, sum_p = 0;
  float carried = 0; ///< alpha l, from the kernel's carries
  /// The first sentence on a row that was right before.
  bool turns_bad = false;
};

/// Where the mirror, from the kernel's carries, gives other bits than the kernel.
struct Difference {
  std::int64_t batch_head = 0, row = 0, tile = 0, column = 0;
  std::string_view quantity; ///< m, l or O
  float kernel = 0, mirror = 0;
};

struct DataStep {
  Phase phase = Phase::start;
  std::int64_t batch_head = 0, tile = 0, block = 0;
  std::int64_t first_key = 0, keys = 0; ///< of the tile
  std::int64_t first_row = 0, rows = 0; ///< of the query block; none in start and load_tile
  Moved moved, so_far;
};

struct FirstBad {
  std::size_t step = 0;
  std::int64_t batch_head = 0, row = 0, tile = 0;
};

struct Steps {
  reference::Shape shape;
  std::int64_t tiles = 0, blocks = 0;
  std::vector<DataStep> steps;
  std::vector<RowOfTile> rows;
  std::optional<Difference> differs;
  std::optional<FirstBad> first_bad; ///< off; where none is, suspicious

  const RowOfTile& row(std::int64_t batch_head, std::int64_t tile, std::int64_t row) const {
    return rows[static_cast<std::size_t>((batch_head * tiles + tile) * shape.n_q + row)];
  }
};

Steps steps_of(const reference::Problem& problem, const kernels::Kernel& kernel);

/// The phase in which a quantity of TraceStep is computed.
Phase phase_of(std::string_view quantity);

/// How many steps steps_of would make.
std::int64_t count_steps(const reference::Shape& shape, int Br, int Bc);

} // namespace fa1::numerics
