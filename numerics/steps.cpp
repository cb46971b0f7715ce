#include "numerics/steps.hpp"

#include "kernels/originals.hpp"
#include "kernels/tiling.hpp"
#include "numerics/ulp.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using kernels::parts;
using kernels::tiles_of_range;
using reference::Problem;
using reference::Shape;
using reference::State;

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

std::optional<Difference> difference(const TraceStep& kernel, float m, float l,
                                     std::span<const float> O) {
  Difference found{kernel.batch_head, kernel.row, kernel.tile, 0, "m", kernel.m, m};
  if (!same_bits(kernel.m, m))
    return found;
  found.quantity = "l";
  found.kernel = kernel.l;
  found.mirror = l;
  if (!same_bits(kernel.l, l))
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

void put_inside(RowOfTile& row, RowInTile&& made) {
  row.s = std::move(made.s);
  row.p = std::move(made.p);
  row.w = std::move(made.w);
  row.pv = std::move(made.pv);
  row.m_tile = made.m_tile;
  row.sum_p = made.sum_p;
  row.beta = made.beta;
  row.carried = made.carried;
}

/// Fills in what stays inside tile `tile`, and where the mirror and the kernel part in it.
void add_inside(Steps& all, const Problem& problem, const Kernel& kernel, std::int64_t tile) {
  const std::int64_t first = tile * kernel.Bc;
  const Problem keys = reference::slice_keys(
      problem, first, std::min<std::int64_t>(kernel.Bc, all.shape.n_kv - first));
  Mirrored mirror = mirror_of(keys, kernel, carries_before(all, tile));
  for (std::int64_t bh = 0; bh < all.shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < all.shape.n_q; ++r) {
      RowOfTile& row =
          all.rows[static_cast<std::size_t>((bh * all.tiles + tile) * all.shape.n_q + r)];
      const auto at = static_cast<std::size_t>(bh * all.shape.n_q + r);
      if (!all.differs)
        all.differs =
            difference(row.carries, mirror.last.m[at], mirror.last.l[at], mirror.last.O.row(bh, r));
      put_inside(row, std::move(mirror.rows[at]));
    }
}

/// The same of a kernel whose tiles depend on each other within a launch. The mirror runs once; what
/// is compared is the end, and every tile where its carries are the kernel's own.
void add_inside(Steps& all, const Problem& problem, const Kernel& kernel, Inside inside) {
  Mirrored mirror = mirror_of(problem, kernel, reference::start_state(all.shape));
  all.ranges = std::move(mirror.ranges);
  all.merged = std::move(mirror.merged);
  for (std::int64_t bh = 0; bh < all.shape.batch_heads; ++bh)
    for (std::int64_t tile = 0; tile < all.tiles; ++tile)
      for (std::int64_t r = 0; r < all.shape.n_q; ++r) {
        const auto at = static_cast<std::size_t>((bh * all.tiles + tile) * all.shape.n_q + r);
        RowOfTile& row = all.rows[at];
        RowInTile& made = mirror.rows[at];
        if (inside == Inside::sums) {
          row.carries.m = made.m;
          row.carries.l = made.l;
          row.carries.alpha = made.alpha;
          row.carries.O = std::move(made.O);
          row.carries.truth.clear();
          row.carries.ulps.clear();
          row.carries.state = StepState::right;
        } else {
          for (float& o : made.O)
            o /= made.l;
          if (!all.differs)
            all.differs = difference(row.carries, made.m, made.l, made.O);
        }
        put_inside(row, std::move(made));
      }
  for (const TraceStep& end : all.ends) {
    const auto at = static_cast<std::size_t>(end.batch_head * all.shape.n_q + end.row);
    if (!all.differs)
      all.differs = difference(end, mirror.last.m[at], mirror.last.l[at],
                               mirror.last.O.row(end.batch_head, end.row));
  }
}

/// Takes the lines of an algorithm for a program, as a block of threads runs it.
class Walk {
public:
  using OnStep = std::function<void(const DataStep&)>;

  Walk(const Algorithm& algorithm, const Kernel& kernel, const Shape& shape, OnStep on_step)
      : lines_(algorithm.lines), kernel_(kernel), shape_(shape),
        Br_(algorithm.one_row ? 1 : kernel.Br), tiles_(parts(shape.n_kv, kernel.Bc)),
        on_step_(std::move(on_step)) {}

  void batch_head(std::int64_t bh) {
    here_ = {};
    here_.batch_head = bh;
    range_ = {0, tiles_};
    run(1, lines_.size()); // the first line is the start, and that of all batch-heads
  }

private:
  void run(std::size_t from, std::size_t to) {
    while (from < to) {
      const AlgorithmLine& line = lines_[from];
      std::size_t next = from + 1;
      if (line.loop != Loop::none) {
        while (next < to && lines_[next].depth > line.depth)
          ++next;
        repeat(line.loop, from + 1, next);
      } else if (line.phase) {
        while (next < to && lines_[next].phase == line.phase && lines_[next].depth == line.depth)
          ++next;
        emit(from, next);
      }
      from = next;
    }
  }

  void repeat(Loop loop, std::size_t from, std::size_t to) {
    const DataStep before = here_;
    const auto range_before = range_;
    if (loop == Loop::tiles)
      for (std::int64_t j = range_.first; j < range_.second; ++j) {
        here_.tile = j;
        here_.first_key = j * kernel_.Bc;
        here_.keys = std::min<std::int64_t>(kernel_.Bc, shape_.n_kv - here_.first_key);
        run(from, to);
      }
    if (loop == Loop::blocks)
      for (std::int64_t i = 0; i < parts(shape_.n_q, Br_); ++i) {
        here_.block = i;
        here_.first_row = i * Br_;
        here_.rows = std::min<std::int64_t>(Br_, shape_.n_q - here_.first_row);
        run(from, to);
      }
    if (loop == Loop::ranges)
      for (std::int64_t range = 0; range < kernels::kKeyRanges; ++range) {
        here_.range = range;
        range_ = tiles_of_range(tiles_, range);
        here_.tile = std::max<std::int64_t>(0, range_.second - 1);
        run(from, to);
      }
    const std::int64_t last_tile = here_.tile;
    here_ = before;
    range_ = range_before;
    if (loop == Loop::tiles && range_.first < range_.second)
      here_.tile = last_tile; // what follows a loop over tiles knows all of them
  }

  std::int64_t floats(char array, Phase phase) const {
    const std::int64_t D = kernel_.D;
    switch (array) {
    case 'Q':
    case 'O':
    case 'L':
      return here_.rows * D;
    case 'K':
    case 'V':
      return here_.keys * D;
    case 'S':
      return here_.rows * (here_.keys > 0 ? here_.keys : shape_.n_kv);
    case 'X': // of a range without keys the merge reads l alone
      return here_.rows * (phase == Phase::merge && range_.first == range_.second ? 1 : D + 2);
    default:
      return here_.rows;
    }
  }

  void emit(std::size_t from, std::size_t to) {
    DataStep step = here_;
    step.phase = *lines_[from].phase;
    const auto array_of = [&](char letter) -> kernels::Traffic::OfArray& {
      constexpr std::string_view kLetters = "QKVOlm"; // in the order of Traffic::kArrays
      return step.moved
          .arrays[std::min(kLetters.find(letter == 'L' ? 'l' : letter), kLetters.size())];
    };
    for (std::size_t at = from; at < to; ++at) {
      for (const char letter : lines_[at].reads)
        array_of(letter).read += floats(letter, step.phase);
      for (const char letter : lines_[at].writes)
        array_of(letter).written += floats(letter, step.phase);
    }
    on_step_(step);
  }

  std::span<const AlgorithmLine> lines_;
  const Kernel& kernel_;
  Shape shape_;
  std::int64_t Br_, tiles_;
  OnStep on_step_;
  DataStep here_;
  std::pair<std::int64_t, std::int64_t> range_;
};

void walk(const Algorithm& algorithm, const Kernel& kernel, const Shape& shape,
          const Walk::OnStep& on_step) {
  DataStep start;
  start.rows = shape.n_q;
  on_step(start);
  if (shape.n_q == 0 || shape.n_kv == 0)
    return; // nothing is launched
  Walk steps(algorithm, kernel, shape, on_step);
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    steps.batch_head(bh);
}

/// A row is told of when it stops being right; the first that is off (else the first suspicious
/// one), in the order of the steps, is the first bad one.
void mark_bad(Steps& all, Inside inside) {
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
    for (std::size_t i = 1; i < all.steps.size(); ++i) {
      const DataStep& step = all.steps[i];
      for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
        const bool here =
            inside == Inside::sums
                ? step.phase == Phase::finish && all.end(step.batch_head, r).state == looked_for
                : all.row(step.batch_head, step.tile, r).turns_bad &&
                      all.row(step.batch_head, step.tile, r).carries.state == looked_for &&
                      phase_of(all.row(step.batch_head, step.tile, r).carries.quantity) ==
                          step.phase;
        if (here) {
          all.first_bad = {i, step.batch_head, r,
                           inside == Inside::sums ? all.tiles - 1 : step.tile};
          return;
        }
      }
    }
}

} // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 18> kNames{
      "start",   "load K and V", "load Q, O, m, l", "load Q",
      "load K",  "load V and P", "scores",          "store S",
      "maximum", "denominator",  "normalise",       "max and denominator",
      "weights", "output",       "store",           "store the range",
      "merge",   "finish"};
  return kNames[static_cast<std::size_t>(phase)];
}

bool Algorithm::has(Phase phase) const {
  return std::ranges::any_of(lines, [&](const AlgorithmLine& line) { return line.phase == phase; });
}

std::span<const Algorithm> all_algorithms() {
  constexpr auto kNone = std::nullopt;
  // The two loops of fa1 around the lines of a variant.
  const auto in_loops_of_fa1 = [](std::vector<AlgorithmLine> inner) {
    std::vector<AlgorithmLine> lines{
        {"O = 0, l = 0, m = -inf in HBM", Phase::start, 0},
        {"for each tile j of K and V:", std::nullopt, 0, Loop::tiles},
        {"load Kj, Vj", Phase::load_tile, 1, Loop::none, "KV"},
        {"for each block i of queries:", std::nullopt, 1, Loop::blocks},
        {"load Qi, Oi, mi, li", Phase::load_block, 2, Loop::none, "QOml"},
        {"S = scale Qi Kj^T", Phase::scores, 2}};
    lines.insert(lines.end(), inner.begin(), inner.end());
    lines.push_back({"store Oi, mi, li", Phase::store, 2, Loop::none, "", "Oml"});
    return lines;
  };
  static const std::vector<Algorithm> table = {
      {"fa1", Inside::O, false,
       in_loops_of_fa1({{"m_new = max(m, max_c S_c)", Phase::softmax, 2},
                        {"alpha = exp(m - m_new)", Phase::softmax, 2},
                        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
                        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
                        {"O_new = (alpha l O + p Vj) / l_new", Phase::output, 2}})},
      {"fa1_element",
       Inside::O,
       true,
       {{"O = 0, l = 0, m = -inf in HBM", Phase::start, 0},
        {"for each query row i:", kNone, 0, Loop::blocks},
        {"load q, o, m, l", Phase::load_block, 1, Loop::none, "QOml"},
        {"for each key j:", kNone, 1, Loop::tiles},
        {"load k, v", Phase::load_tile, 2, Loop::none, "KV"},
        {"S = scale q.k", Phase::scores, 2},
        {"m_new = max(m, S)", Phase::softmax, 2},
        {"alpha = exp(m - m_new)", Phase::softmax, 2},
        {"p = exp(S - m_new)", Phase::softmax, 2},
        {"l_new = alpha l + p", Phase::softmax, 2},
        {"o_new = (alpha l o + p v) / l_new", Phase::output, 2},
        {"store o, m, l", Phase::store, 1, Loop::none, "", "Oml"}}},
      {"fa1_paper", Inside::O, false,
       in_loops_of_fa1({{"m_t = max_c S_c", Phase::softmax, 2},
                        {"p_c = exp(S_c - m_t)", Phase::softmax, 2},
                        {"m_new = max(m, m_t)", Phase::softmax, 2},
                        {"alpha = exp(m - m_new)", Phase::softmax, 2},
                        {"beta = exp(m_t - m_new)", Phase::softmax, 2},
                        {"l_new = alpha l + beta sum_c p_c", Phase::softmax, 2},
                        {"O_new = (alpha l O + beta p Vj) / l_new", Phase::output, 2}})},
      {"fa1_deferred", Inside::O_of_sums, false,
       in_loops_of_fa1({{"m_new = max(m, max_c S_c)", Phase::softmax, 2},
                        {"alpha = exp(m - m_new)", Phase::softmax, 2},
                        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
                        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
                        {"A_new = alpha A + p Vj", Phase::output, 2},
                        {"after the last tile: O = A / l", Phase::output, 2}})},
      {"fa1_tuned",
       Inside::O,
       false,
       {{"O = 0, l = 0, m = -inf in HBM", Phase::start, 0},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"load Qi, Oi, mi, li", Phase::load_block, 1, Loop::none, "QOml"},
        {"for each tile j of K and V:", kNone, 1, Loop::tiles},
        {"load Kj, Vj", Phase::load_tile, 2, Loop::none, "KV"},
        {"S = scale Qi Kj^T", Phase::scores, 2},
        {"m_new = max(m, max_c S_c)", Phase::softmax, 2},
        {"alpha = exp(m - m_new)", Phase::softmax, 2},
        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
        {"O_new = (alpha l O + p Vj) / l_new", Phase::output, 2},
        {"store Oi, mi, li", Phase::store, 1, Loop::none, "", "Oml"}}},
      {"fa2",
       Inside::sums,
       false,
       {{"Q, K, V in HBM", Phase::start, 0},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"load Qi; A = 0, l = 0, m = -inf", Phase::load_queries, 1, Loop::none, "Q"},
        {"for each tile j of K and V:", kNone, 1, Loop::tiles},
        {"load Kj, Vj", Phase::load_tile, 2, Loop::none, "KV"},
        {"S = scale Qi Kj^T", Phase::scores, 2},
        {"m_new = max(m, max_c S_c)", Phase::softmax, 2},
        {"alpha = exp(m - m_new)", Phase::softmax, 2},
        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
        {"A_new = alpha A + p Vj", Phase::output, 2},
        {"O = A / l, LSE = m + ln l; store Oi, LSEi", Phase::finish, 1, Loop::none, "", "Om"}}},
      {"fa1_pipelined",
       Inside::sums,
       false,
       {{"O = 0, l = 0, m = -inf in HBM", Phase::start, 0},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"load Qi, mi, li", Phase::load_block, 1, Loop::none, "Qml"},
        {"load Oi: A = l O", Phase::load_block, 1, Loop::none, "OL"},
        {"for each tile j of K and V, up to two at once:", kNone, 1, Loop::tiles},
        {"load warp: Kj, Vj", Phase::load_tile, 2, Loop::none, "KV"},
        {"score warps: S = scale Qi Kj^T", Phase::scores, 2},
        {"softmax warps: m_new = max(m, max_c S_c)", Phase::softmax, 2},
        {"alpha = exp(m - m_new)", Phase::softmax, 2},
        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
        {"correction warps: A_new = alpha A + p Vj", Phase::output, 2},
        {"epilogue warp: O = A / l; store Oi, mi, li", Phase::finish, 1, Loop::none, "", "Oml"}}},
      {"standard",
       Inside::sums,
       false,
       {{"Q, K, V in HBM", Phase::start, 0},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"load Qi", Phase::load_queries, 1, Loop::none, "Q"},
        {"for each tile j of K:", kNone, 1, Loop::tiles},
        {"load Kj", Phase::load_keys, 2, Loop::none, "K"},
        {"S = scale Qi Kj^T", Phase::scores, 2},
        {"store S", Phase::store_scores, 2, Loop::none, "", "S"},
        {"read S: m = max_j S_j", Phase::maximum, 1, Loop::none, "S"},
        {"read S: l = sum_j exp(S_j - m)", Phase::denominator, 1, Loop::none, "S"},
        {"read S: P = exp(S - m) / l takes its place", Phase::normalise, 1, Loop::none, "S", "Slm"},
        {"for each tile j of V:", kNone, 1, Loop::tiles},
        {"load Vj, P", Phase::load_weights, 2, Loop::none, "VS"},
        {"O_new = O + P Vj", Phase::output, 2},
        {"store Oi", Phase::finish, 1, Loop::none, "", "O"}}},
      {"online_softmax",
       Inside::sums,
       false,
       {{"Q, K, V in HBM", Phase::start, 0},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"load Qi; A = 0, l = 0, m = -inf", Phase::load_queries, 1, Loop::none, "Q"},
        {"for each tile j of K:", kNone, 1, Loop::tiles},
        {"load Kj", Phase::load_keys, 2, Loop::none, "K"},
        {"S = scale Qi Kj^T", Phase::scores, 2},
        {"m_new = max(m, max_c S_c)", Phase::softmax, 2},
        {"alpha = exp(m - m_new)", Phase::softmax, 2},
        {"l_new = alpha l + sum_c exp(S_c - m_new)", Phase::softmax, 2},
        {"for each tile j of K and V:", kNone, 1, Loop::tiles},
        {"load Kj, Vj", Phase::load_tile, 2, Loop::none, "KV"},
        {"S = scale Qi Kj^T", Phase::weights, 2},
        {"p_c = exp(S_c - m)", Phase::weights, 2},
        {"A_new = A + p Vj", Phase::output, 2},
        {"O = A / l; store Oi, mi, li", Phase::finish, 1, Loop::none, "", "Oml"}}},
      {"split_kv",
       Inside::sums,
       false,
       {{"Q, K, V in HBM", Phase::start, 0},
        {"for each range of tiles:", kNone, 0, Loop::ranges},
        {"for each block i of queries:", kNone, 1, Loop::blocks},
        {"load Qi; A = 0, l = 0, m = -inf", Phase::load_queries, 2, Loop::none, "Q"},
        {"for each tile j of the range:", kNone, 2, Loop::tiles},
        {"load Kj, Vj", Phase::load_tile, 3, Loop::none, "KV"},
        {"S = scale Qi Kj^T", Phase::scores, 3},
        {"m_new = max(m, max_c S_c)", Phase::softmax, 3},
        {"alpha = exp(m - m_new)", Phase::softmax, 3},
        {"p_c = exp(S_c - m_new)", Phase::softmax, 3},
        {"l_new = alpha l + sum_c p_c", Phase::softmax, 3},
        {"A_new = alpha A + p Vj", Phase::output, 3},
        {"store the state O = A / l, l, m", Phase::store_range, 2, Loop::none, "", "X"},
        {"for each block i of queries:", kNone, 0, Loop::blocks},
        {"for each range of tiles:", kNone, 1, Loop::ranges},
        {"load its state O2, l2, m2", Phase::merge, 2, Loop::none, "X"},
        {"m_new = max(m, m2)", Phase::merge, 2},
        {"a = exp(m - m_new) l, b = exp(m2 - m_new) l2", Phase::merge, 2},
        {"l_new = a + b, O_new = (a O + b O2) / l_new", Phase::merge, 2},
        {"store Oi, mi, li", Phase::finish, 1, Loop::none, "", "Oml"}}},
      {"lazy_rescale", Inside::O_of_sums, false,
       in_loops_of_fa1({{"M = max(m, max_c S_c)", Phase::softmax, 2},
                        {"m_new = M where M - m > 8 ln 2, else m", Phase::softmax, 2},
                        {"alpha = exp(m - m_new), 1 where m stays", Phase::softmax, 2},
                        {"p_c = exp(S_c - m_new)", Phase::softmax, 2},
                        {"l_new = alpha l + sum_c p_c", Phase::softmax, 2},
                        {"A_new = alpha A + p Vj", Phase::output, 2},
                        {"after the last tile: O = A / l", Phase::output, 2}})},
  };
  return table;
}

const Algorithm* algorithm_of(const Kernel& kernel) {
  for (const Algorithm& algorithm : all_algorithms())
    if (algorithm.variant == kernels::original_of(kernel.variant))
      return &algorithm;
  return nullptr;
}

std::string_view traffic_formula(const Kernel& kernel) {
  if (!kernel.traffic.empty())
    return kernel.traffic;
  for (const Kernel& known : kernels::all_kernels())
    if (known.variant == algorithm_of(kernel)->variant)
      return known.traffic;
  throw kernels::KernelError("kernel '" + kernel.id + "': no row of variants.def has its lines");
}

kernels::Traffic closed_form(const Kernel& kernel, const Shape& shape) {
  Kernel told = kernel;
  told.traffic = traffic_formula(kernel);
  return kernels::predicted_traffic(told, shape);
}

Phase phase_of(std::string_view quantity) {
  return quantity == "S" ? Phase::scores : quantity == "O" ? Phase::output : Phase::softmax;
}

std::int64_t count_steps(const Shape& shape, const Kernel& kernel) {
  std::int64_t count = 0;
  walk(*algorithm_of(kernel), kernel, shape, [&](const DataStep&) { ++count; });
  return count;
}

Steps steps_of(const Problem& problem, const Kernel& kernel) {
  const Algorithm& algorithm = *algorithm_of(kernel);
  Steps all;
  all.shape = problem.shape;
  all.tiles = parts(problem.shape.n_kv, kernel.Bc);
  all.rows_of_block = algorithm.one_row ? 1 : kernel.Br;
  all.blocks = parts(problem.shape.n_q, all.rows_of_block);
  walk(algorithm, kernel, problem.shape, [&](DataStep step) {
    if (!all.steps.empty())
      step.so_far = all.steps.back().so_far;
    for (std::size_t array = 0; array < step.so_far.arrays.size(); ++array) {
      step.so_far.arrays[array].read += step.moved.arrays[array].read;
      step.so_far.arrays[array].written += step.moved.arrays[array].written;
    }
    all.steps.push_back(step);
  });
  if (problem.shape.n_q == 0 || all.tiles == 0)
    return all;
  all.rows.resize(
      static_cast<std::size_t>(problem.shape.batch_heads * all.tiles * problem.shape.n_q));
  all.ends.resize(static_cast<std::size_t>(problem.shape.batch_heads * problem.shape.n_q));
  Kernel on_prefixes = kernel; // a launch that resumes would multiply O by l again
  on_prefixes.resumes = kernel.resumes && algorithm.inside == Inside::O;
  for (TraceStep& step : trace(problem, on_prefixes).steps) {
    const auto row = static_cast<std::size_t>(step.batch_head * problem.shape.n_q + step.row);
    const std::int64_t at =
        (step.batch_head * all.tiles + step.tile) * problem.shape.n_q + step.row;
    const TraceStep before = std::move(all.ends[row]); // tiles come in order
    all.ends[row] = step;
    // A row that went bad earlier says why it did then.
    if (step.tile > 0 && step.state != StepState::right && before.state == step.state) {
      all.ends[row].why = before.why;
      all.ends[row].quantity = before.quantity;
    }
    all.rows[static_cast<std::size_t>(at)].carries = std::move(step);
  }
  if (algorithm.inside == Inside::O)
    for (std::int64_t tile = 0; tile < all.tiles; ++tile)
      add_inside(all, problem, kernel, tile);
  else
    add_inside(all, problem, kernel, algorithm.inside);
  mark_bad(all, algorithm.inside);
  return all;
}

} // namespace fa1::numerics
