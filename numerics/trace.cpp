#include "numerics/trace.hpp"

#include "kernels/tiling.hpp"
#include "numerics/bounds.hpp"
#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/finite.hpp"
#include "reference/tiled_mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <set>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using reference::all_finite;
using reference::Problem;
using reference::State;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The sign of a NaN says nothing, so it is not shown.
float shown(float x) { return std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x; }

bool any_nan(const State& state) {
  return std::isnan(state.l[0]) ||
         std::ranges::any_of(state.O.elements(), [](float x) { return std::isnan(x); });
}

// ---------------------------------------------------------------------------------------------------
// Why
// ---------------------------------------------------------------------------------------------------

/// Everything one tile did to one row, as the recurrence of kernels/fa1.cuh does it in fp32.
struct Tile {
  const Problem& keys; ///< the tile's own keys, one query row
  std::int64_t first_key = 0;
  int Bc = 1;
  const State& before;
  const State& after;

  std::size_t columns() const { return static_cast<std::size_t>(keys.shape.n_kv); }
  std::span<const float> k(std::size_t c) const {
    return keys.K.row(0, static_cast<std::int64_t>(c));
  }
  std::span<const float> v(std::size_t c) const {
    return keys.V.row(0, static_cast<std::int64_t>(c));
  }
  std::int64_t key(std::size_t c) const { return first_key + static_cast<std::int64_t>(c); }

  float dot(std::size_t c) const {
    float sum = 0.0f;
    for (std::size_t i = 0; i < k(c).size(); ++i)
      sum += keys.Q.elements()[i] * k(c)[i];
    return sum;
  }
  float score(std::size_t c) const { return dot(c) * keys.scale; }
  /// Products of floats are exact in long double and their sum is in range.
  long double exact_dot(std::size_t c) const {
    long double sum = 0.0L;
    for (std::size_t i = 0; i < k(c).size(); ++i)
      sum += static_cast<long double>(keys.Q.elements()[i]) * k(c)[i];
    return sum;
  }
  float m_new() const {
    float m = before.m[0];
    for (std::size_t c = 0; c < columns(); ++c)
      m = std::fmax(m, score(c));
    return m;
  }
};

std::string nan_in_inputs(const Tile& tile) {
  for (std::size_t i = 0; i < tile.keys.Q.elements().size(); ++i)
    if (std::isnan(tile.keys.Q.elements()[i]))
      return fmt::format("q[{}] is NaN, so every score of this row is", i);
  for (std::size_t c = 0; c < tile.columns(); ++c)
    for (std::size_t i = 0; i < tile.k(c).size(); ++i)
      if (std::isnan(tile.k(c)[i]))
        return fmt::format("K[{},{}] is NaN: fmaxf ignores the NaN score, the exponential does not",
                           tile.key(c), i);
  for (std::size_t c = 0; c < tile.columns(); ++c)
    for (std::size_t i = 0; i < tile.v(c).size(); ++i)
      if (std::isnan(tile.v(c)[i]))
        return fmt::format("V[{},{}] is NaN, and any weight times NaN is NaN, a weight of 0 too",
                           tile.key(c), i);
  return {};
}

std::string score_overflow(const Tile& tile) {
  for (std::size_t c = 0; c < tile.columns(); ++c) {
    const bool inputs_finite = all_finite(tile.keys.Q.elements()) && all_finite(tile.k(c));
    const float dot = tile.dot(c);
    const long double exact = tile.exact_dot(c);
    if (inputs_finite && !std::isfinite(dot))
      return fmt::format("q.k of key {} overflows to {} before the scale is applied (exact q.k "
                         "{:.4g}, exact score {:.4g})",
                         tile.key(c), dot, static_cast<double>(exact),
                         static_cast<double>(exact * static_cast<long double>(tile.keys.scale)));
    if (inputs_finite && !std::isfinite(tile.score(c)))
      return fmt::format("the scaled score of key {} overflows to {} (exact {:.4g})", tile.key(c),
                         tile.score(c),
                         static_cast<double>(exact * static_cast<long double>(tile.keys.scale)));
  }
  return {};
}

/// Why l or O may have become NaN or Inf in this tile.
std::string special_cause(const Tile& tile) {
  if (any_nan(tile.before))
    return "NaN came in with the carries, and nothing removes it from l and O";
  if (std::string nan = nan_in_inputs(tile); !nan.empty())
    return nan;
  if (std::string overflow = score_overflow(tile); !overflow.empty())
    return overflow;
  const float m_new = tile.m_new();
  if (std::isinf(m_new) && m_new < 0.0f)
    return "m and m_new are both -Inf: alpha = exp(m - m_new), like every p, is the exponential of "
           "-inf + inf, which is "
           "NaN; a later finite score repairs m alone";
  if (std::isinf(m_new))
    return "a score is +Inf: its weight exp(s - m_new) is the exponential of inf - inf, which is "
           "NaN";

  const float carried = std::exp(tile.before.m[0] - m_new) * tile.before.l[0];
  for (std::size_t i = 0; i < tile.after.O.elements().size(); ++i) {
    float pv = 0.0f;
    for (std::size_t c = 0; c < tile.columns(); ++c) {
      const float p = std::exp(tile.score(c) - m_new), v = tile.v(c)[i];
      if (std::isinf(v))
        return fmt::format("V[{},{}] is {} and its weight {:.3g}: the product is {}", tile.key(c),
                           i, v, p, p * v);
      if (std::isinf(pv + p * v))
        return fmt::format("sum p v overflows at key {} of column {}: {:.4g} + {:.4g} * {:.4g}, "
                           "though its mean does not",
                           tile.key(c), i, pv, p, v);
      pv += p * v;
    }
    const float o = tile.before.O.elements()[i];
    if (std::isinf(o))
      return fmt::format("O[{}] came in as {} with the carries", i, o);
    if (std::isinf(carried * o))
      return fmt::format("alpha l O overflows in column {}: {:.4g} * {:.4g}", i, carried, o);
    if (std::isinf(carried * o + pv))
      return fmt::format("alpha l O + sum p v overflows in column {}: {:.4g} * {:.4g} + {:.4g}", i,
                         carried, o, pv);
  }
  return {};
}

/// l has stopped growing although a key of at least half the largest weight came in.
constexpr double kWeightThatCounts = 0.5;

std::string stagnation(const Tile& tile) {
  const float m_new = tile.m_new();
  const float carried = std::exp(tile.before.m[0] - m_new) * tile.before.l[0];
  float sum_p = 0.0f;
  for (std::size_t c = 0; c < tile.columns(); ++c)
    sum_p += std::exp(tile.score(c) - m_new);
  if (carried + sum_p == carried && sum_p >= kWeightThatCounts)
    return fmt::format(
        "l stagnates: {:.9g} + {:.4g} = {:.9g} in fp32, so keys are no longer counted", carried,
        sum_p, carried);
  return {};
}

/// What a fault of the recurrence would leave behind, in double.
struct Step {
  std::string_view says;
  double l = 0.0;
  std::vector<double> O;
};

struct Fault {
  std::string_view says;
  bool alpha_on_l = true, alpha_on_O = true;
  bool p_from_old_max = false, keeps_product = false, old_l_divides = false, neighbour = false;
  bool pads = false, drops_tail = false, max_misses_last = false, m_from_zero = false,
       l_from_one = false;
};

Step step_with(const Tile& tile, const Fault& fault) {
  double m_old = double{tile.before.m[0]};
  double l_old = double{tile.before.l[0]};
  if (fault.m_from_zero && m_old == -kInf)
    m_old = 0.0;
  if (fault.l_from_one && tile.first_key == 0)
    l_old = 1.0;
  std::vector<double> s;
  for (std::size_t c = 0; c < tile.columns(); ++c)
    s.push_back(double{tile.score(c)});
  if (fault.pads)
    s.resize(static_cast<std::size_t>(tile.Bc), 0.0);
  const std::size_t dv = tile.after.O.elements().size();
  Step step{fault.says, l_old, {}};
  for (std::size_t i = 0; i < dv; ++i)
    step.O.push_back(double{tile.before.O.elements()[i]});
  if (fault.drops_tail && tile.columns() < static_cast<std::size_t>(tile.Bc))
    return step;

  double m_new = m_old;
  for (std::size_t c = 0; c < s.size(); ++c)
    if (!fault.max_misses_last || c + 1 < s.size() || c == 0)
      m_new = std::max(m_new, s[c]);
  const double m_of_p = fault.p_from_old_max && m_old != -kInf ? m_old : m_new;
  const double alpha = m_old == -kInf ? 0.0 : std::exp(m_old - m_new);
  double sum_p = 0.0;
  for (double& p : s)
    sum_p += p = std::exp(p - m_of_p);
  step.l = (fault.alpha_on_l ? alpha : 1.0) * l_old + sum_p;
  for (std::size_t i = 0; i < dv; ++i) {
    double sum = (fault.alpha_on_O ? alpha : 1.0) * l_old * step.O[i];
    for (std::size_t c = 0; c < tile.columns(); ++c)
      sum += s[c] * double{tile.v(fault.neighbour ? (c + 1) % tile.columns() : c)[i]};
    step.O[i] =
        fault.keeps_product ? sum : sum / (fault.old_l_divides && l_old > 0.0 ? l_old : step.l);
  }
  return step;
}

/// No rounding of fp32 tells them apart: for naming a cause, not for judging.
bool alike(double a, double b) {
  constexpr double kAlike = 1e-4;
  return std::fabs(a - b) <= kAlike * (std::fabs(a) + std::fabs(b));
}

/// Two results of the step are the same.
bool matches(const Step& step, double l, std::span<const double> O) {
  if (!alike(step.l, l))
    return false;
  for (std::size_t i = 0; i < O.size(); ++i)
    if (!alike(step.O[i], O[i]))
      return false;
  return true;
}

std::string fault_pattern(const Tile& tile) {
  const std::vector<double> O(tile.after.O.elements().begin(), tile.after.O.elements().end());
  const double l = tile.after.l[0];
  const Step right = step_with(tile, {"the recurrence"});
  if (matches(right, l, O))
    return {};
  static constexpr Fault kFaults[] = {
      {.says = "the carried O is not rescaled by alpha", .alpha_on_O = false},
      {.says = "the carried l is not rescaled by alpha", .alpha_on_l = false},
      {.says = "neither l nor O is rescaled by alpha", .alpha_on_l = false, .alpha_on_O = false},
      {.says = "p is formed against the maximum before this tile", .p_from_old_max = true},
      {.says = "O is not divided by l", .keeps_product = true},
      {.says = "O is divided by l before this tile", .old_l_divides = true},
      {.says = "columns past the last key take part with score 0", .pads = true},
      {.says = "the last tile, which is not full, is skipped", .drops_tail = true},
      {.says = "the maximum does not look at the last column of the tile", .max_misses_last = true},
      {.says = "the running maximum starts at 0", .m_from_zero = true},
      {.says = "the denominator starts at 1", .l_from_one = true},
      {.says = "p meets the V row of the next key", .neighbour = true},
  };
  for (const Fault& fault : kFaults) {
    const Step wrong = step_with(tile, fault);
    if (matches(wrong, l, O) && !matches(wrong, right.l, right.O))
      return fmt::format("the step is what comes out when {}", wrong.says);
  }
  return fmt::format("one step of the recurrence from these carries gives l {:.9g} and O[0] "
                     "{:.9g}, the kernel {:.9g} and "
                     "{:.9g}",
                     right.l, right.O[0], l, O[0]);
}

std::string diagnose(const Tile& tile, bool special) {
  if (special)
    if (std::string cause = special_cause(tile); !cause.empty())
      return cause;
  if (std::string overflow = score_overflow(tile); !overflow.empty())
    return overflow;
  if (std::string stuck = stagnation(tile); !stuck.empty())
    return stuck;
  return fault_pattern(tile);
}

/// Which quantity of a tile that is not right is bad first, in the order in which the tile makes them.
std::string_view first_bad_quantity(const Tile& tile, bool gives_l_and_m) {
  if (!score_overflow(tile).empty())
    return "S";
  if (!gives_l_and_m)
    return "O";
  const float m_new = tile.m_new(), m = tile.after.m[0], l = tile.after.l[0];
  if (m != m_new && !alike(double{m}, double{m_new}))
    return "m";
  if (!std::isnan(tile.before.m[0]) && std::isnan(std::exp(tile.before.m[0] - m_new)))
    return "alpha";
  for (std::size_t c = 0; c < tile.columns(); ++c)
    if (const float s = tile.score(c); !std::isnan(s) && std::isnan(std::exp(s - m_new)))
      return "p";
  const bool l_is_right = alike(step_with(tile, {}).l, double{l}) && stagnation(tile).empty();
  return l_is_right ? "O" : "l";
}

// ---------------------------------------------------------------------------------------------------
// Walking
// ---------------------------------------------------------------------------------------------------

/// Runs the kernel over the keys in pieces that end on tile borders.
class Walker {
public:
  Walker(const Problem& problem, const Kernel& kernel)
      : problem_(problem), kernel_(kernel), state_(reference::start_state(problem.shape)) {}

  /// The carries after keys [0, end); end only grows.
  const State& walk_to(std::int64_t end) {
    if (end == at_)
      return state_;
    if (at_ == 0 || !kernel_.resumes)
      state_ = kernels::run(kernel_, reference::slice_keys(problem_, 0, end),
                            launch_for(kernel_, problem_));
    else
      state_ = kernels::resume(kernel_, reference::slice_keys(problem_, at_, end - at_), state_,
                               launch_for(kernel_, problem_));
    at_ = end;
    return state_;
  }

private:
  const Problem& problem_;
  const Kernel& kernel_;
  State state_;
  std::int64_t at_ = 0;
};

/// All that one row needs to be judged at any tile.
struct Row {
  QueryRow at;
  Problem problem;
  bool exact_scores = false;
  bool certify = false;
  reference::Truth truth; ///< of all keys
};

/// The furthest that the roundings of the recurrence could move an output when the bound's
/// conditions fail.
double allowed_without_bound(const Problem& prefix, int Bc) {
  double largest = 0.0;
  for (const float v : prefix.V.elements())
    if (std::isfinite(v))
      largest = std::max(largest, std::fabs(double{v}));
  const double T = std::ceil(static_cast<double>(prefix.shape.n_kv) / Bc);
  return gamma(4.0 * (static_cast<double>(prefix.shape.d) + Bc + 3.0 * T + 4.0)) * largest;
}

struct Assessment {
  StepState state = StepState::right;
  bool special = false; ///< NaN or Inf is the matter
  std::string why;
};

Assessment assess(const Row& row, const Problem& prefix, const State& after,
                  const reference::Truth& truth, const Kernel& kernel) {
  for (std::size_t c = 0; c < after.O.elements().size(); ++c) {
    const float got = after.O.elements()[c];
    if (std::isfinite(got))
      continue;
    if (row.certify && std::isnan(got) && std::isnan(truth.O.elements()[c].hi) &&
        !std::isnan(row.truth.O.elements()[c].hi))
      return {StepState::off, true, fmt::format("O[{}] is NaN although later keys define it", c)};
    if (row.certify && std::isfinite(truth.O.elements()[c].hi))
      return {StepState::off, true,
              fmt::format("O[{}] is {}, right is {:.9g}", c, shown(got), truth.O.elements()[c].hi)};
  }
  if (!row.certify)
    return {};
  const Bounds bounds = online_softmax(prefix, kernel.arithmetic.over_carries(), row.exact_scores);
  const Verdict verdict = judge(prefix, after, truth, bounds, kernel.gives_l_and_m);
  if (verdict.judgement == Judgement::proved_wrong) {
    const bool special = !std::isfinite(verdict.worst.got);
    return {StepState::off, special, to_string(verdict.worst)};
  }
  if (verdict.judgement == Judgement::suspicious)
    return {StepState::suspicious, false, to_string(verdict)};
  if (verdict.judgement == Judgement::undecided && !bounds.obstacle.empty()) {
    const double allowed = allowed_without_bound(prefix, kernel.Bc);
    for (std::size_t c = 0; c < after.O.elements().size(); ++c) {
      const reference::Enclosed& right = truth.O.elements()[c];
      if (std::isfinite(right.hi) &&
          !(std::fabs(error_of(after.O.elements()[c], right)) - right.radius <= allowed))
        return {
            StepState::off, false,
            fmt::format("O[{}] is {:.9g}, right is {:.9g}", c, after.O.elements()[c], right.hi)};
    }
    // The key that went missing without moving O so far.
    if (std::string overflow = score_overflow({prefix, 0, kernel.Bc, after, after});
        !overflow.empty())
      return {StepState::off, false, "the state holds a wrong score"};
  }
  return {};
}

TraceStep make_step(const Row& row, const Kernel& kernel, std::int64_t tile,
                    const State& all_before, const State& all_after,
                    const reference::Shape& shape) {
  const std::int64_t first = tile * kernel.Bc,
                     count = std::min<std::int64_t>(kernel.Bc, shape.n_kv - first);
  const State before = row_state(all_before, shape, row.at),
              after = row_state(all_after, shape, row.at);
  TraceStep step{row.at.batch_head,
                 row.at.row,
                 tile,
                 first,
                 count,
                 after.m[0],
                 after.l[0],
                 std::exp(before.m[0] - after.m[0]),
                 {after.O.elements().begin(), after.O.elements().end()},
                 {},
                 {},
                 StepState::right,
                 {},
                 {}};
  const Problem keys = reference::slice_keys(row.problem, first, count);
  const Tile here{keys, first, kernel.Bc, before, after};
  reference::Truth truth;
  Problem prefix;
  if (row.certify) {
    prefix = reference::slice_keys(row.problem, 0, first + count);
    truth = reference::certify(prefix);
    step.truth.assign(truth.O.elements().begin(), truth.O.elements().end());
    for (std::size_t c = 0; c < step.O.size(); ++c)
      step.ulps.push_back(std::fabs(error_of(step.O[c], step.truth[c])) / ulp_of(step.truth[c].hi));
  }
  const Assessment found = assess(row, prefix, after, truth, kernel);
  step.state = found.state;
  if (found.state == StepState::right) {
    if (std::string stuck = stagnation(here); !stuck.empty()) {
      step.state = StepState::off;
      step.why = std::move(stuck);
      step.quantity = "l";
    }
    return step;
  }
  step.quantity = first_bad_quantity(here, kernel.gives_l_and_m);
  const std::string cause = diagnose(here, found.special);
  if (!cause.empty())
    step.why = found.why + ": " + cause;
  else if (found.state == StepState::suspicious)
    step.why = found.why + ": the roundings of the carries do not cancel";
  else
    step.why =
        found.why + ": this step is right for the carries it found, so they were off before it";
  return step;
}

/// Tiles at which the recurrence, run as plain loops, first shows something that only events show.
std::set<std::int64_t> events_of(const Row& row, int Bc) {
  std::set<std::int64_t> tiles;
  bool stuck = false, special = false;
  reference::tiled_mirror(row.problem, Bc, reference::start_state(row.problem.shape),
                          [&](const reference::TileStep& s) {
                            if (!special && !std::isfinite(s.l_new)) {
                              special = true;
                              tiles.insert(s.tile);
                            }
                            if (!stuck && s.l_new == s.alpha * s.l_old &&
                                double{s.sum_p} >= kWeightThatCounts) {
                              stuck = true;
                              tiles.insert(s.tile);
                            }
                          });
  return tiles;
}

std::set<std::int64_t> tiles_to_show(const std::vector<Row>& rows, std::int64_t T, int Bc) {
  std::set<std::int64_t> tiles;
  if (T <= kEveryTile) {
    for (std::int64_t t = 0; t < T; ++t)
      tiles.insert(t);
    return tiles;
  }
  for (std::int64_t t = 0; t < kFirstTiles; ++t)
    tiles.insert(t);
  for (std::int64_t t = 0; t < kLastTiles; ++t)
    tiles.insert(T - 1 - t);
  for (std::int64_t t = 1; t < T; t *= 2)
    tiles.insert(t);
  for (const Row& row : rows)
    for (const std::int64_t t : events_of(row, Bc)) {
      tiles.insert(std::max<std::int64_t>(0, t - 1));
      tiles.insert(t);
    }
  return tiles;
}

const TraceStep* first_in_state(const std::vector<TraceStep>& steps, StepState state) {
  const auto found = std::ranges::find(steps, state, &TraceStep::state);
  return found == steps.end() ? nullptr : &*found;
}

} // namespace

Problem row_problem(const Problem& problem, QueryRow at) {
  const reference::Shape& full = problem.shape;
  Problem row{{1, 1, full.n_kv, full.d, full.dv},
              problem.scale,
              reference::Tensor<float>(1, 1, full.d),
              reference::Tensor<float>(1, full.n_kv, full.d),
              reference::Tensor<float>(1, full.n_kv, full.dv)};
  std::ranges::copy(problem.Q.row(at.batch_head, at.row), row.Q.data());
  for (std::int64_t j = 0; j < full.n_kv; ++j) {
    std::ranges::copy(problem.K.row(at.batch_head, j), row.K.row(0, j).begin());
    std::ranges::copy(problem.V.row(at.batch_head, j), row.V.row(0, j).begin());
  }
  return row;
}

State row_state(const State& state, const reference::Shape& shape, QueryRow at) {
  const auto row = static_cast<std::size_t>(at.batch_head * shape.n_q + at.row);
  State one{reference::Tensor<float>(1, 1, shape.dv), {state.l[row]}, {state.m[row]}};
  std::ranges::copy(state.O.row(at.batch_head, at.row), one.O.data());
  return one;
}

kernels::Launch launch_for(const Kernel& kernel, const Problem& problem) {
  kernels::Launch launch;
  if (kernel.backend == kernels::Backend::cpu && problem.shape.n_q == 1)
    launch.threads_per_block = 1;
  return launch;
}

bool scores_are_exact(const Problem& problem) {
  if (problem.shape.d != 1)
    return problem.shape.d == 0;
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (const float q : std::span(problem.Q.data() + bh * problem.shape.n_q,
                                   static_cast<std::size_t>(problem.shape.n_q)))
      for (const float k : std::span(problem.K.data() + bh * problem.shape.n_kv,
                                     static_cast<std::size_t>(problem.shape.n_kv))) {
        const float product = q * k, score = product * problem.scale;
        if (double{product} != double{q} * double{k} ||
            double{score} != double{product} * double{problem.scale})
          return false;
      }
  return true;
}

Trace trace(const Problem& problem, const Kernel& kernel, std::vector<QueryRow> rows) {
  const reference::Shape& shape = problem.shape;
  if (rows.empty())
    for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
      for (std::int64_t r = 0; r < shape.n_q; ++r)
        rows.push_back({bh, r});
  Trace trace;
  trace.tiles = kernels::parts(shape.n_kv, kernel.Bc);
  if (trace.tiles == 0 || rows.empty())
    return trace;

  std::vector<Row> all;
  for (const QueryRow at : rows) {
    Row row{at, row_problem(problem, at), false, shape.n_kv <= kKeysToCertify, {}};
    row.exact_scores = scores_are_exact(row.problem);
    if (row.certify)
      row.truth = reference::certify(row.problem);
    all.push_back(std::move(row));
  }

  std::set<std::int64_t> tiles = tiles_to_show(all, trace.tiles, kernel.Bc);
  const auto walk = [&](const std::set<std::int64_t>& wanted) {
    std::vector<TraceStep> steps;
    Walker walker(problem, kernel);
    for (const std::int64_t tile : wanted) {
      const State before = walker.walk_to(tile * kernel.Bc);
      const State& after = walker.walk_to(std::min(shape.n_kv, (tile + 1) * kernel.Bc));
      for (const Row& row : all)
        steps.push_back(make_step(row, kernel, tile, before, after, shape));
    }
    return steps;
  };
  trace.steps = walk(tiles);

  // Between the last shown tile that is right and the first that is off, others may be off already.
  const StepState looked_for = first_in_state(trace.steps, StepState::off) != nullptr
                                   ? StepState::off
                                   : StepState::suspicious;
  if (const TraceStep* first = first_in_state(trace.steps, looked_for); first != nullptr) {
    const std::int64_t off_tile = first->tile;
    std::int64_t good = -1, bad = off_tile;
    for (const TraceStep& step : trace.steps)
      if (step.tile < off_tile)
        good = step.tile;
    std::set<std::int64_t> more;
    while (bad - good > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      const std::vector<TraceStep> there = walk({middle});
      (first_in_state(there, looked_for) != nullptr ? bad : good) = middle;
    }
    if (bad != off_tile) {
      tiles.insert(bad);
      tiles.insert(bad - 1);
      trace.steps = walk(tiles);
    }
    trace.first_off = *first_in_state(trace.steps, looked_for);
  }
  trace.left_out = trace.tiles - static_cast<std::int64_t>(tiles.size());
  return trace;
}

void print(std::ostream& out, const Trace& trace) {
  constexpr std::size_t kColumnsShown = 4;
  std::int64_t last_tile = -1;
  for (const TraceStep& step : trace.steps) {
    if (step.tile > last_tile + 1)
      out << fmt::format("... {} tile(s) left out\n", step.tile - last_tile - 1);
    if (step.tile != last_tile)
      out << fmt::format("tile {}, keys {}..{}\n", step.tile, step.first_key,
                         step.first_key + step.columns - 1);
    last_tile = step.tile;
    out << fmt::format("  row {}{}  m {:.9g} ({:a})  l {:.9g} ({:a})  alpha {:.9g} ({:a})\n",
                       step.batch_head > 0 ? fmt::format("{}/", step.batch_head) : "", step.row,
                       shown(step.m), shown(step.m), shown(step.l), shown(step.l),
                       shown(step.alpha), shown(step.alpha));
    std::vector<std::size_t> columns(step.O.size());
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    if (columns.size() > kColumnsShown) {
      if (!step.ulps.empty())
        std::ranges::stable_sort(columns, [&](std::size_t a, std::size_t b) {
          const auto key = [&](std::size_t c) {
            return std::isnan(step.ulps[c]) ? kInf : step.ulps[c];
          };
          return key(a) > key(b);
        });
      columns.resize(1);
    }
    for (const std::size_t c : columns) {
      out << fmt::format("    O[{}] {:.9g} ({:a})", c, shown(step.O[c]), shown(step.O[c]));
      if (!step.truth.empty())
        out << (std::isnan(step.truth[c].hi) ? "  truth undefined"
                : std::isnan(step.ulps[c])
                    ? fmt::format("  truth {:.12g}", step.truth[c].hi + step.truth[c].lo)
                    : fmt::format("  truth {:.12g}  error {:.3g} ulp",
                                  step.truth[c].hi + step.truth[c].lo, step.ulps[c]));
      out << (step.O.size() > columns.size()
                  ? fmt::format("  (the worst of {} columns)\n", step.O.size())
                  : "\n");
    }
    const bool first = trace.first_off && trace.first_off->tile == step.tile &&
                       trace.first_off->row == step.row &&
                       trace.first_off->batch_head == step.batch_head;
    if (first)
      out << fmt::format("    ^ the first tile that is {}\n",
                         step.state == StepState::off ? "off" : "suspicious");
    else if (step.state != StepState::right)
      out << (step.state == StepState::off ? "    ^ off\n" : "    ^ suspicious\n");
  }
  if (trace.tiles == 0)
    out << "no keys, so no tile: the carries are the start values O = 0, l = 0, m = -inf\n";
  else if (!trace.first_off)
    out << "no tile is off\n";
  else
    out << fmt::format("first tile that is {}: tile {}: {}\n",
                       trace.first_off->state == StepState::off ? "off" : "suspicious",
                       trace.first_off->tile, trace.first_off->why);
  if (trace.left_out > 0)
    out << fmt::format("{} of {} tiles left out\n", trace.left_out, trace.tiles);
}

} // namespace fa1::numerics
