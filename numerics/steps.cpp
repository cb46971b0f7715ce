#include "numerics/steps.hpp"

#include "numerics/ulp.hpp"
#include "reference/tiled_mirror.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using reference::Problem;
using reference::Shape;
using reference::State;

std::int64_t parts(std::int64_t whole, int part) { return (whole + part - 1) / part; }

/// The carries before tile `tile`, for all rows: the start, or what the kernel left.
State carries_before(const Steps& all, std::int64_t tile) {
  State state = reference::start_state(all.shape);
  if (tile == 0)
    return state;
  for (std::int64_t bh = 0; bh < all.shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < all.shape.n_q; ++r) {
      const TraceStep& carries = all.row(bh, tile - 1, r).carries;
      const auto at = static_cast<std::size_t>(bh * all.shape.n_q + r);
      state.m[at] = carries.m;
      state.l[at] = carries.l;
      std::ranges::copy(carries.O, state.O.row(bh, r).begin());
    }
  return state;
}

std::optional<Difference> difference(const TraceStep& kernel, const reference::TileStep& mirror,
                                     std::span<const float> O) {
  Difference found{kernel.batch_head, kernel.row, kernel.tile, 0, "m", kernel.m, mirror.m_new};
  if (!same_bits(kernel.m, mirror.m_new))
    return found;
  found.quantity = "l";
  found.kernel = kernel.l;
  found.mirror = mirror.l_new;
  if (!same_bits(kernel.l, mirror.l_new))
    return found;
  found.quantity = "O";
  for (std::size_t c = 0; c < O.size(); ++c)
    if (!same_bits(kernel.O[c], O[c])) {
      found.column = static_cast<std::int64_t>(c);
      found.kernel = kernel.O[c];
      found.mirror = O[c];
      return found;
    }
  return std::nullopt;
}

/// Fills in what stays inside tile `tile`, and where the mirror and the kernel part in it.
void add_inside(Steps& all, const Problem& problem, const Kernel& kernel, std::int64_t tile) {
  const std::int64_t first = tile * kernel.Bc;
  const Problem keys = reference::slice_keys(
      problem, first, std::min<std::int64_t>(kernel.Bc, all.shape.n_kv - first));
  std::vector<reference::TileStep> made;
  const State before = carries_before(all, tile);
  const State after =
      reference::tiled_mirror(keys, kernel.Bc, before, [&](const reference::TileStep& step) {
        RowOfTile& row = all.rows[static_cast<std::size_t>(
            (step.batch_head * all.tiles + tile) * all.shape.n_q + step.row)];
        row.s.assign(step.s.begin(), step.s.end());
        row.p.assign(step.p.begin(), step.p.end());
        row.pv.assign(step.pv.begin(), step.pv.end());
        row.sum_p = step.sum_p;
        row.m_tile = -std::numeric_limits<float>::infinity();
        for (const float s : step.s)
          row.m_tile = std::fmax(row.m_tile, s);
        row.carried = row.carries.alpha * step.l_old;
        made.push_back(step);
      });
  for (const reference::TileStep& step : made)
    if (!all.differs)
      all.differs = difference(all.row(step.batch_head, tile, step.row).carries, step,
                               after.O.row(step.batch_head, step.row));
}

/// The steps of one batch-head, in the order in which a block of threads takes them.
class Walk {
public:
  Walk(Steps& all, const Kernel& kernel) : all_(all), kernel_(kernel) {
    all_.steps.push_back({});
    all_.steps.back().rows = all_.shape.n_q;
  }

  void batch_head(std::int64_t bh) {
    DataStep here;
    here.batch_head = bh;
    for (here.tile = 0; here.tile < all_.tiles; ++here.tile) {
      here.first_key = here.tile * kernel_.Bc;
      here.keys = std::min<std::int64_t>(kernel_.Bc, all_.shape.n_kv - here.first_key);
      here.block = here.first_row = here.rows = 0;
      const std::int64_t D = kernel_.D;
      add(here, Phase::load_tile, {{.K = here.keys * D, .V = here.keys * D}, {}});
      for (here.block = 0; here.block < all_.blocks; ++here.block) {
        here.first_row = here.block * kernel_.Br;
        here.rows = std::min<std::int64_t>(kernel_.Br, all_.shape.n_q - here.first_row);
        const std::int64_t n = here.rows;
        add(here, Phase::load_block, {{.Q = n * D, .O = n * D, .l = n, .m = n}, {}});
        add(here, Phase::scores, {});
        add(here, Phase::softmax, {});
        add(here, Phase::output, {});
        add(here, Phase::store, {{}, {.O = n * D, .l = n, .m = n}});
      }
    }
  }

private:
  void add(DataStep step, Phase phase, const Moved& moved) {
    step.phase = phase;
    step.moved = moved;
    step.so_far = all_.steps.back().so_far;
    step.so_far.read += moved.read;
    step.so_far.written += moved.written;
    all_.steps.push_back(step);
  }

  Steps& all_;
  const Kernel& kernel_;
};

/// A row is told of when it stops being right; the first that is off (else the first suspicious one), in
/// the order of the steps, is the first bad one.
void mark_bad(Steps& all) {
  for (std::int64_t bh = 0; bh < all.shape.batch_heads; ++bh)
    for (std::int64_t tile = 0; tile < all.tiles; ++tile)
      for (std::int64_t r = 0; r < all.shape.n_q; ++r) {
        const auto at = static_cast<std::size_t>((bh * all.tiles + tile) * all.shape.n_q + r);
        RowOfTile& row = all.rows[at];
        const StepState before =
            tile == 0 ? StepState::right : all.row(bh, tile - 1, r).carries.state;
        row.turns_bad = row.carries.state != StepState::right && row.carries.state != before;
      }
  for (const StepState looked_for : {StepState::off, StepState::suspicious})
    for (std::size_t i = 0; i < all.steps.size(); ++i) {
      const DataStep& step = all.steps[i];
      for (std::int64_t r = step.first_row; i > 0 && r < step.first_row + step.rows; ++r) {
        const RowOfTile& row = all.row(step.batch_head, step.tile, r);
        if (row.turns_bad && row.carries.state == looked_for &&
            phase_of(row.carries.quantity) == step.phase) {
          all.first_bad = {i, step.batch_head, r, step.tile};
          return;
        }
      }
    }
}

} // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 7> kNames{
      "start",  "load K and V", "load Q, O, m, l", "scores", "max and denominator",
      "output", "store"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::span<const Algorithm> all_algorithms() {
  static const std::vector<Algorithm> table = {
      {"fa1",
       "reads 2 N D + Tc Nq (2 D + 2), writes Tc Nq (D + 2)",
       {
           {"O = 0, l = 0, m = -inf in HBM", Phase::start, 0},
           {"for each tile j of K and V:", std::nullopt, 0},
           {"load Kj, Vj", Phase::load_tile, 1},
           {"for each block i of queries:", std::nullopt, 1},
           {"load Qi, Oi, mi, li", Phase::load_block, 2},
           {"S = scale Qi Kj^T", Phase::scores, 2},
           {"m_new = max(m, max_c S_c)", Phase::softmax, 2},
           {"alpha = exp(m - m_new)", Phase::softmax, 2},
           {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
           {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
           {"O_new = (alpha l O + p Vj) / l_new", Phase::output, 2},
           {"store Oi, mi, li", Phase::store, 2},
       }},
  };
  return table;
}

const Algorithm* algorithm_of(const Kernel& kernel) {
  // A mutant is fa1 with one change, a rewrite is the same recurrence written otherwise.
  const bool of_fa1 =
      kernel.variant.starts_with("mutant.") || kernel.variant.starts_with("rewrite.");
  for (const Algorithm& algorithm : all_algorithms())
    if (algorithm.variant == (of_fa1 ? "fa1" : kernel.variant))
      return &algorithm;
  return nullptr;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  Q += other.Q;
  K += other.K;
  V += other.V;
  O += other.O;
  l += other.l;
  m += other.m;
  return *this;
}

Moved fa1_traffic(const Shape& shape, int Bc, int D) {
  if (shape.n_q == 0)
    return {};
  const std::int64_t keys = shape.batch_heads * shape.n_kv,
                     rows = shape.batch_heads * shape.n_q * parts(shape.n_kv, Bc);
  return {{.Q = rows * D, .K = keys * D, .V = keys * D, .O = rows * D, .l = rows, .m = rows},
          {.O = rows * D, .l = rows, .m = rows}};
}

Phase phase_of(std::string_view quantity) {
  return quantity == "S" ? Phase::scores : quantity == "O" ? Phase::output : Phase::softmax;
}

std::int64_t count_steps(const Shape& shape, int Br, int Bc) {
  if (shape.n_q == 0)
    return 1;
  constexpr std::int64_t kOfBlock = 5; // load, scores, max and denominator, output, store
  return 1 + shape.batch_heads * parts(shape.n_kv, Bc) * (1 + kOfBlock * parts(shape.n_q, Br));
}

Steps steps_of(const Problem& problem, const Kernel& kernel) {
  Steps all;
  all.shape = problem.shape;
  all.tiles = parts(problem.shape.n_kv, kernel.Bc);
  all.blocks = parts(problem.shape.n_q, kernel.Br);
  Walk walk(all, kernel);
  if (problem.shape.n_q == 0)
    return all;
  all.rows.resize(
      static_cast<std::size_t>(problem.shape.batch_heads * all.tiles * problem.shape.n_q));
  for (TraceStep& step : trace(problem, kernel).steps) {
    const std::int64_t at =
        (step.batch_head * all.tiles + step.tile) * problem.shape.n_q + step.row;
    all.rows[static_cast<std::size_t>(at)].carries = std::move(step);
  }
  for (std::int64_t tile = 0; tile < all.tiles; ++tile)
    add_inside(all, problem, kernel, tile);
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    walk.batch_head(bh);
  mark_bad(all);
  return all;
}

} // namespace fa1::numerics
