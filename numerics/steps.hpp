/// A kernel's run, taken apart into the steps in which data moves between HBM and SRAM.
///
/// Computes  the steps of each batch-head, in the order of the lines of its variant's algorithm
///           (which are data, one table in steps.cpp); what each moves; and what every query row
///           computes
/// Carries   of fa1, fa1_element and fa1_paper m, l and O after a tile are the kernel's own, run
///           tile by tile (trace.hpp). Of fa1_deferred and lazy_rescale they are those with which a
///           run of the kernel on the keys so far ends: between tiles HBM holds A = l O, shown is O
///           = A / l. The others keep theirs to themselves: they are the mirror's, and the kernel's
///           own O, l and m come at the end. What never leaves a tile (S, p, their sum, sum p v) is
///           always the mirror's (order_mirror.hpp). Where mirror and kernel part, `differs` holds
///           the first place
/// Traffic   floats between HBM and SRAM; a row is stored in D columns, as the kernel's instance
///           has it. The sum over the steps is the closed form of the variant's row in variants.def
/// Shapes    `rows` is [batch_heads][tiles][n_q], `ends` [batch_heads][n_q]
/// Requires  algorithm_of(kernel) and at most kEveryTile tiles
/// Error     none; where O is shown normalised it comes with its distance from the certified truth
///           of the keys so far, else the final one from that of all keys
/// Special   no keys or no queries: the start step alone
/// Source    kernels/*.cuh of the variant
#pragma once

#include "kernels/traffic.hpp"
#include "numerics/order_mirror.hpp"
#include "numerics/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

enum class Phase {
  start,
  load_tile,
  load_block,
  load_queries,
  load_keys,
  load_weights,
  scores,
  store_scores,
  maximum,
  denominator,
  normalise,
  softmax,
  weights,
  output,
  store,
  store_range,
  merge,
  finish
};
std::string_view name_of(Phase phase);

/// What a line repeats the deeper lines below it for.
enum class Loop { none, tiles, blocks, ranges };

/// One line of an algorithm. Neighbouring lines of one phase are one step.
struct AlgorithmLine {
  std::string_view text;
  std::optional<Phase>
      phase;     ///< none: a line that moves and computes nothing, such as a loop's head
  int depth = 0; ///< loops around it
  Loop loop = Loop::none;
  /// The arrays that move, a letter each: QKVOlm, L (l once for each column of O), S (scores in HBM), X
  /// (states of ranges).
  std::string_view reads{}, writes{};
};

/// What is shown as O inside the run.
enum class Inside {
  O,         ///< O, as the kernel leaves it after the tile
  O_of_sums, ///< O = A / l, as the kernel leaves it where the keys end with the tile
  sums       ///< sums that are divided, merged or judged at the end alone
};

struct Algorithm {
  std::string_view variant; ///< as kernels::original_of has it
  Inside inside;
  bool one_row; ///< a block is one query row, whatever Br is
  std::vector<AlgorithmLine> lines;

  bool has(Phase phase) const;
};

/// The variants whose steps are known, one row each.
std::span<const Algorithm> all_algorithms();
/// nullptr: this kernel's steps are not known.
const Algorithm* algorithm_of(const kernels::Kernel& kernel);

/// The closed form of the variant's row in variants.def, as text and for a shape.
std::string_view traffic_formula(const kernels::Kernel& kernel);
kernels::Traffic closed_form(const kernels::Kernel& kernel, const reference::Shape& shape);

/// What one query row computes in one tile.
struct RowOfTile {
  /// With truth, state and cause, but of Inside::sums; then m, l, O and alpha are the mirror's.
  TraceStep carries;
  std::vector<float> s, p, w, pv; ///< of the mirror, as are the next five; see RowInTile
  float m_tile = 0, sum_p = 0, beta = 0;
  float carried = 0;
  /// The first sentence on a row that was right before.
  bool turns_bad = false;
};

/// Where the mirror gives other bits than the kernel.
struct Difference {
  std::int64_t batch_head = 0, row = 0, tile = 0, column = 0;
  std::string_view quantity; ///< m, l or O
  float kernel = 0, mirror = 0;
};

struct DataStep {
  Phase phase = Phase::start;
  std::int64_t batch_head = 0, tile = 0, block = 0, range = 0;
  std::int64_t first_key = 0, keys = 0; ///< of the tile; none outside of tiles
  std::int64_t first_row = 0, rows = 0; ///< of the query block; none outside of blocks
  kernels::Traffic moved, so_far;
};

struct FirstBad {
  std::size_t step = 0;
  std::int64_t batch_head = 0, row = 0, tile = 0;
};

struct Steps {
  reference::Shape shape;
  std::int64_t tiles = 0, blocks = 0;
  std::int64_t rows_of_block = 1; ///< of a full one
  std::vector<DataStep> steps;
  std::vector<RowOfTile> rows;
  std::vector<TraceStep> ends; ///< the kernel's final O, l and m of each row, judged
  std::vector<reference::State> ranges, merged; ///< of the mirror, Order::ranges alone
  std::optional<Difference> differs;
  std::optional<FirstBad> first_bad; ///< off; where none is, suspicious

  const RowOfTile& row(std::int64_t batch_head, std::int64_t tile, std::int64_t row) const {
    return rows[static_cast<std::size_t>((batch_head * tiles + tile) * shape.n_q + row)];
  }
  const TraceStep& end(std::int64_t batch_head, std::int64_t row) const {
    return ends[static_cast<std::size_t>(batch_head * shape.n_q + row)];
  }
};

Steps steps_of(const reference::Problem& problem, const kernels::Kernel& kernel);

/// The phase in which a quantity of TraceStep is computed.
Phase phase_of(std::string_view quantity);

/// How many steps steps_of would make.
std::int64_t count_steps(const reference::Shape& shape, const kernels::Kernel& kernel);

} // namespace fa1::numerics
