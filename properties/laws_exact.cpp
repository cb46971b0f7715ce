// Relations that hold bit for bit (NUMERICS: a maximum never rounds, exact zeros, powers of two,
// order of operations).
#include "kernels/guarded.hpp"
#include "kernels/traffic.hpp"
#include "numerics/ulp.hpp"
#include "properties/compare.hpp"
#include "properties/laws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace fa1::properties::laws {
namespace {

using kernels::Kernel;
using numerics::Bounds;
using reference::Recipe;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kGap = 104.0; ///< exp(-104) is 0 in fp32, whatever its rounding: e^-104 < 2^-150

/// Every entry is 0 or has a magnitude in [2^-exponent, 2^exponent]: powers of two can be moved
/// about without rounding.
bool within_binades(const Tensor<float>& tensor, int exponent) {
  return std::ranges::all_of(tensor.elements(), [&](float x) {
    const float size = std::fabs(x);
    return x == 0.0f || (size >= std::ldexp(1.0f, -exponent) && size <= std::ldexp(1.0f, exponent));
  });
}

/// No weight is so small, without being 0, that its product with a value could fall below the
/// normal range.
bool weights_far_from_underflow(const Bounds& bounds) {
  return std::ranges::all_of(bounds.spread, [](double spread) { return spread <= 40.0; });
}

/// What infinite inputs alone make of a score, whatever the order of operations: +Inf or -Inf; 0
/// where it stays finite; NaN where it is one or could overflow on the way.
float infinite_part(std::span<const float> q, std::span<const float> k, float scale) {
  double infinite = 0.0, finite = 0.0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double product = double{q[i]} * double{k[i]};
    if (std::isfinite(q[i]) && std::isfinite(k[i]))
      finite += std::fabs(product);
    else
      infinite += product;
  }
  const bool overflows = !(finite * std::max(1.0f, std::fabs(scale)) < 0x1p127);
  return overflows ? kNaN : static_cast<float>(infinite) * (infinite == 0.0 ? 1.0f : scale);
}

/// The maximum of a row where infinite inputs decide it: +Inf, or -Inf where every score is; NaN or 0
/// where they do not.
float infinite_maximum(const Problem& problem, std::int64_t bh, std::int64_t row) {
  float maximum = -kInfinity;
  for (std::int64_t j = 0; j < problem.shape.n_kv; ++j) {
    const float part = infinite_part(problem.Q.row(bh, row), problem.K.row(bh, j), problem.scale);
    if (std::isnan(part))
      return kNaN;
    maximum = std::fmax(maximum, part);
  }
  return maximum;
}

} // namespace

Outcome m_exact(const Case& c) {
  const State state = kernels::run(c.kernel, c.problem);
  const auto& shape = c.problem.shape;
  const kernels::Arithmetic& arithmetic = c.kernel.arithmetic;
  const Bounds bounds = bound_for(c.problem, c.kernel);

  Findings findings;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      float m = -kInfinity;
      for (std::int64_t j = 0; j < shape.n_kv; ++j)
        m = std::fmax(m, score_in_order(c.problem.Q.row(bh, row), c.problem.K.row(bh, j),
                                        c.problem.scale, arithmetic.contracted));
      const auto i = static_cast<std::size_t>(bh * shape.n_q + row);
      const auto what = [&] { return at("m", bh, row, -1); };
      if (scores_are_reproducible(c.kernel))
        findings.same_value(state.m[i], m, what);
      // some products fused, some not: the score errors of both orders
      else if (bounds.obstacle.empty())
        findings.within(state.m[i] == m ? 0.0 : double{state.m[i]} - double{m},
                        bounds.m[i] + m_allowed(c.kernel, bounds, i, m), what);
      // a maximum that infinite inputs make, the same in every order of operations
      else if (const float infinite = infinite_maximum(c.problem, bh, row); std::isinf(infinite))
        findings.same_value(state.m[i], infinite, what);
    }
  return std::move(findings).outcome(
      "dot products that are not reproducible, and scores that overflow");
}

Outcome m_monotone(const Case& c) {
  const auto states = carries_after_tiles(c, std::numeric_limits<std::int64_t>::max());
  const bool known = c.kernel.arithmetic.known;
  const Bounds bounds = known ? Bounds{} : bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);

  Findings findings;
  for (std::size_t t = 1; t < states.size(); ++t)
    for (std::size_t i = 0; i < states[t].m.size(); ++i) {
      // of unknown make: the maximum of the same keys twice, by two orders of operations
      const double lowest =
          double{states[t - 1].m[i]} -
          (known ? 0.0 : 2.0 * m_allowed(c.kernel, bounds, i, states[t - 1].m[i]));
      findings.require(double{states[t].m[i]} >= lowest, [&] {
        return fmt::format("m[{}] falls from {:a} to {:a} in tile {}", i, states[t - 1].m[i],
                           states[t].m[i], t);
      });
    }
  return std::move(findings).outcome("one tile");
}

Outcome l_at_least_one(const Case& c) {
  if (const Bounds bounds = bound_for(c.problem, c.kernel); !bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const auto states = carries_after_tiles(c, std::numeric_limits<std::int64_t>::max());

  Findings findings;
  for (std::size_t t = 0; t < states.size(); ++t) {
    const auto tiles = static_cast<double>(t + 1);
    const double keys = std::min(tiles * c.kernel.Bc, static_cast<double>(c.problem.shape.n_kv));
    // every p <= 1, every alpha <= 1
    const double most = keys * (1.0 + numerics::gamma(c.kernel.Bc + 2.0 * tiles));
    const Bounds so_far =
        c.kernel.arithmetic.known
            ? Bounds{}
            : bound_for(with_keys(c.problem, range(0, static_cast<std::int64_t>(keys))), c.kernel);
    for (std::size_t i = 0; i < states[t].l.size(); ++i) {
      // Of unknown make: the exact l lies in [1, keys]; the kernel's own may be off by its bound.
      const double off = c.kernel.arithmetic.known ? 0.0 : so_far.l[i];
      findings.require(
          double{states[t].l[i]} >= 1.0 - off && double{states[t].l[i]} <= most * (1.0 + off), [&] {
            return fmt::format("l[{}] is {:.9g} after tile {}, where [{:.9g}, {:.9g}] is right", i,
                               states[t].l[i], t, 1.0 - off, most * (1.0 + off));
          });
    }
  }
  return std::move(findings).outcome("no keys");
}

Outcome alpha_unit(const Case& c) {
  if (const Bounds bounds = bound_for(c.problem, c.kernel); !bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const Problem tile =
      with_keys(c.problem, range(0, std::min<std::int64_t>(c.kernel.Bc, c.problem.shape.n_kv)));

  // The same tile again and again sets no new maximum, so l must grow by its sum, and the first
  // launch gives that sum.
  State state = kernels::run(c.kernel, tile);
  const std::vector<float> sum = state.l;
  std::vector<float> want = sum;
  Findings findings;
  for (int repetition = 1; repetition <= 3; ++repetition) {
    state = kernels::resume(c.kernel, tile, state);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] += sum[i];
      findings.same_bits(state.l[i], want[i], [&] {
        return fmt::format("l[{}] after the same tile {} times", i, repetition + 1);
      });
    }
  }
  return std::move(findings).outcome("no keys");
}

Outcome carry_split(const Case& c) {
  const State whole = kernels::run(c.kernel, c.problem);
  const std::int64_t n_kv = c.problem.shape.n_kv;

  Findings findings;
  for (const std::int64_t border : tile_borders(c, 12)) {
    if (border == n_kv)
      continue;
    const State first = kernels::run(c.kernel, with_keys(c.problem, range(0, border)));
    const State both =
        kernels::resume(c.kernel, with_keys(c.problem, range(border, n_kv - border)), first);
    same_run(findings, c.kernel, c.problem, both, whole,
             fmt::format("with the carries handed over after {} keys", border).c_str());
  }
  return std::move(findings).outcome("one tile");
}

Outcome row_block(const Case& c) {
  auto choices = choices_of(c);
  const State whole = kernels::run(c.kernel, c.problem);
  const std::int64_t n_q = c.problem.shape.n_q;

  Findings findings;
  if (n_q > 1) { // leaving out leading rows moves every other row to another place in its block
    const auto left_out =
        1 + static_cast<std::int64_t>(choices() % static_cast<std::uint64_t>(n_q - 1));
    const Indices rows = range(left_out, n_q - left_out);
    const Problem fewer = with_queries(c.problem, rows);
    same_run(findings, c.kernel, fewer, kernels::run(c.kernel, fewer), rows_of(whole, rows),
             fmt::format("without the first {} query rows", left_out).c_str());
  }
  if (const Kernel* other = sibling(c.kernel, true, choices);
      other != nullptr && scores_are_reproducible(c.kernel))
    same_state(findings, kernels::run(*other, c.problem), whole,
               fmt::format("with Br = {}", other->Br).c_str());
  return std::move(findings).outcome("one query row, and no other kernel with this Bc");
}

Outcome query_permutation(const Case& c) {
  auto choices = choices_of(c);
  const Indices rows = permutation(c.problem.shape.n_q, choices);
  const State whole = kernels::run(c.kernel, c.problem);
  const Problem permuted = with_queries(c.problem, rows);

  Findings findings;
  same_run(findings, c.kernel, permuted, kernels::run(c.kernel, permuted), rows_of(whole, rows),
           "with the query rows permuted");
  return std::move(findings).outcome();
}

Outcome batch_neighbours(const Case& c) {
  Recipe recipe = c.recipe;
  recipe.batch_heads = std::max<std::int64_t>(recipe.batch_heads, 3);
  const Problem batch = reference::make_problem(recipe);
  const State whole = kernels::run(c.kernel, batch);

  Findings findings;
  for (std::int64_t bh = 0; bh < recipe.batch_heads; ++bh) {
    const Problem alone = with_batch_heads(batch, {bh});
    same_run(findings, c.kernel, alone, kernels::run(c.kernel, alone), batch_heads_of(whole, {bh}),
             fmt::format("of batch-head {} alone", bh).c_str());
  }
  return std::move(findings).outcome();
}

Outcome repeat(const Case& c) {
  const State first = kernels::run(c.kernel, c.problem);

  Findings findings;
  same_state(findings, kernels::run(c.kernel, c.problem), first, "in the second run");
  // over numbers, where run() leaves NaN
  same_state(findings, kernels::run_into(c.kernel, c.problem, first), first,
             "over the outputs of the first run");
  return std::move(findings).outcome();
}

Outcome schedule(const Case& c) {
  using simt::Schedule;
  auto choices = choices_of(c);
  const State first = kernels::run(c.kernel, c.problem);

  Findings findings;
  // 40: more than one warp, so that what only a warp waits for shows
  for (const unsigned threads : {0u, 2u, static_cast<unsigned>(c.kernel.Br) + 1u, 32u, 40u})
    for (const Schedule order : {Schedule::forward(), Schedule::reverse(),
                                 Schedule::shuffled(static_cast<std::uint32_t>(choices()))}) {
      if (c.kernel.backend == kernels::Backend::cuda && order != Schedule::forward())
        continue; // a GPU chooses its own order
      const State other = kernels::run(c.kernel, c.problem, {order, threads, 1});
      same_state(findings, other, first,
                 fmt::format("with {} threads in {} order",
                             threads == 0 ? static_cast<unsigned>(c.kernel.Br) : threads,
                             simt::to_string(order))
                     .c_str());
    }
  return std::move(findings).outcome();
}

Outcome value_columns(const Case& c) {
  auto choices = choices_of(c);
  const std::int64_t dv = c.problem.shape.dv;
  Indices columns = permutation(dv, choices);
  if (dv > 1)
    columns.resize(1 + choices() % static_cast<std::uint64_t>(dv));
  const State whole = kernels::run(c.kernel, c.problem);
  const Problem other = with_value_columns(c.problem, columns);

  Findings findings;
  same_run(findings, c.kernel, other, kernels::run(c.kernel, other), columns_of(whole, columns),
           "with the columns of V permuted or dropped");
  return std::move(findings).outcome();
}

Outcome value_scale_pow2(const Case& c) {
  auto choices = choices_of(c);
  const Bounds bounds = bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  if (!within_binades(c.problem.V, 20) || !weights_far_from_underflow(bounds))
    return not_applicable("V or p comes near overflow or the subnormals");
  const State whole = kernels::run(c.kernel, c.problem);

  Findings findings;
  for (const float factor : {std::ldexp(1.0f, static_cast<int>(choices() % 33) - 16), -1.0f}) {
    const Problem larger = with_values(c.problem, times(c.problem.V, factor));
    same_run(findings, c.kernel, larger, kernels::run(c.kernel, larger),
             {times(whole.O, factor), whole.l, whole.m},
             fmt::format("with V times {:a}", factor).c_str(), Zeros::either_sign);
  }
  return std::move(findings).outcome();
}

Outcome qk_scale_pow2(const Case& c) {
  auto choices = choices_of(c);
  if (!within_binades(c.problem.Q, 40) || !within_binades(c.problem.K, 40) ||
      !(std::fabs(c.problem.scale) > 0x1p-20f && std::fabs(c.problem.scale) < 0x1p20f))
    return not_applicable("Q, K or the scale comes near overflow or the subnormals");
  const float factor = std::ldexp(1.0f, 1 + static_cast<int>(choices() % 8));
  const State whole = kernels::run(c.kernel, c.problem);
  Problem against_K = c.problem;
  against_K.Q = times(c.problem.Q, factor);
  against_K.K = times(c.problem.K, 1.0f / factor);
  Problem against_scale = c.problem;
  against_scale.Q = against_K.Q;
  against_scale.scale /= factor;

  Findings findings;
  same_run(findings, c.kernel, against_K, kernels::run(c.kernel, against_K), whole,
           "with Q times 2^k and K times 2^-k");
  same_run(findings, c.kernel, against_scale, kernels::run(c.kernel, against_scale), whole,
           "with Q times 2^k and scale times 2^-k");
  return std::move(findings).outcome();
}

Outcome head_zero_padding(const Case& c) {
  const auto& shape = c.problem.shape;
  const bool wider_qk = shape.d < c.kernel.D, wider_v = shape.dv < c.kernel.D;
  if (!wider_qk && !wider_v)
    return not_applicable("d and dv are the largest the kernel serves");
  Problem padded = c.problem;
  if (wider_qk) {
    padded.Q = append_column(padded.Q, 0.0f);
    padded.K = append_column(padded.K, 0.0f);
    padded.shape.d += 1;
  }
  if (wider_v) {
    padded.V = append_column(padded.V, 0.0f);
    padded.shape.dv += 1;
  }
  const State whole = kernels::run(c.kernel, c.problem);
  const State with_zeros = kernels::run(c.kernel, padded);

  Findings findings;
  Problem wider_d = padded; // the columns of V that were there
  wider_d.V = c.problem.V;
  wider_d.shape.dv = shape.dv;
  same_run(findings, c.kernel, wider_d, columns_of(with_zeros, range(0, shape.dv)), whole,
           "with zero columns appended");
  if (wider_v && bound_for(c.problem, c.kernel).obstacle.empty())
    for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
      for (std::int64_t row = 0; row < shape.n_q; ++row)
        findings.same_value(with_zeros.O(bh, row, shape.dv), 0.0f,
                            [&] { return at("O", bh, row, shape.dv); });
  return std::move(findings).outcome();
}

Outcome dominant_key(const Case& c) {
  Recipe recipe = c.recipe;
  if (!recipe.Q.empty() || !recipe.K.empty() || !recipe.put.empty())
    return not_applicable("Q or K are given entry by entry");
  if (recipe.scale && *recipe.scale == 0.0f)
    return not_applicable("a scale of 0 lets no key lead");
  recipe.recorded.clear(); // Q and K are made anew
  recipe.order = reference::Order::dominant;
  recipe.gap = 1.25f * static_cast<float>(kGap);
  const Problem problem = reference::make_problem(recipe);
  const auto& shape = problem.shape;
  const Bounds bounds = bound_for(problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const State state = kernels::run(c.kernel, problem);

  Findings findings;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      std::int64_t first = 0;
      double best = -HUGE_VAL, second = -HUGE_VAL, size = 0.0;
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        double s = 0.0, sum = 0.0;
        for (std::int64_t i = 0; i < shape.d; ++i) {
          s += double{problem.Q(bh, row, i)} * double{problem.K(bh, j, i)};
          sum += std::fabs(double{problem.Q(bh, row, i)} * double{problem.K(bh, j, i)});
        }
        s *= double{problem.scale};
        size = std::max(size, sum * std::fabs(double{problem.scale}));
        if (s > best) {
          second = std::exchange(best, s);
          first = j;
        } else
          second = std::max(second, s);
      }
      const double eta = numerics::gamma(static_cast<double>(shape.d) + 1.0) * size;
      if (!(best - second >= kGap + 2.0 * eta))
        continue;
      for (std::int64_t column = 0; column < shape.dv; ++column) {
        const float got = state.O(bh, row, column), want = problem.V(bh, first, column);
        const auto what = [&] {
          return at("O", bh, row, column) + fmt::format(" under dominant key {}", first);
        };
        if (c.kernel.arithmetic.known)
          findings.same_value(got, want, what);
        else // the others may weigh up to e^-104 each, which its bound allows for
          findings.within(double{got} - double{want}, 2.0 * bounds.O(bh, row, column), what);
      }
    }
  return std::move(findings).outcome("no key leads by 104");
}

Outcome idle_tile(const Case& c) {
  const auto& shape = c.problem.shape;
  if (shape.d >= c.kernel.D)
    return not_applicable("no head component is free to lower the scores of a whole tile");
  if (shape.n_kv == 0)
    return not_applicable("no keys");
  const Bounds bounds = bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const double size = numerics::largest_score(c.problem);
  if (!(size < 1e4) || c.problem.scale == 0.0f || !(std::fabs(c.problem.scale) > 1e-20f))
    return not_applicable("scores too large, or a scale that cannot lower them");

  // One more component, 1 in Q: 0 in K leaves a score as it is, -drop lowers it below everything.
  Problem base = c.problem;
  base.Q = append_column(c.problem.Q, 1.0f);
  base.K = append_column(c.problem.K, 0.0f);
  base.shape.d += 1;
  Problem idle = with_keys(base, Indices(static_cast<std::size_t>(c.kernel.Bc), 0));
  const auto drop = static_cast<float>((2.0 * size + 2.0 * kGap) / double{c.problem.scale});
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t j = 0; j < c.kernel.Bc; ++j)
      idle.K(bh, j, shape.d) = -drop;

  const State without = kernels::run(c.kernel, base);
  const State prepended = kernels::resume(c.kernel, base, kernels::run(c.kernel, idle));
  const State appended = kernels::resume(c.kernel, idle, without);
  const State appended_twice = kernels::resume(c.kernel, idle, appended);

  Findings findings;
  same_state(findings, prepended, without, "with an idle tile before", Zeros::either_sign);
  for (std::size_t i = 0; i < without.O.elements().size(); ++i)
    findings.require(
        numerics::float_distance(appended.O.elements()[i], without.O.elements()[i]) <= 1, [&] {
          return fmt::format("O element {} moves from {:a} to {:a} on an idle tile, 1 ulp is right",
                             i, without.O.elements()[i], appended.O.elements()[i]);
        });
  State same = appended;
  same.O = without.O;
  same_state(findings, same, without, "with an idle tile after");
  same_state(findings, appended_twice, appended, "with a second idle tile after");
  return std::move(findings).outcome();
}

Outcome single_key(const Case& c) {
  if (c.problem.shape.n_kv == 0)
    return not_applicable("no keys");
  const Problem one = with_keys(c.problem, {0});
  if (const Bounds bounds = bound_for(one, c.kernel); !bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const State state = kernels::run(c.kernel, one);
  const State want{gather_rows(one.V, Indices(static_cast<std::size_t>(one.shape.n_q), 0)),
                   std::vector<float>(state.l.size(), 1.0f), state.m};

  Findings findings;
  same_run(findings, c.kernel, one, state, want, "with one key", Zeros::either_sign);
  return std::move(findings).outcome();
}

Outcome written(const Case& c) {
  Recipe recipe = c.recipe;
  if (!recipe.Q.empty() || !recipe.K.empty() || !recipe.V.empty() || !recipe.put.empty())
    return not_applicable("entries are given one by one, for another d");
  recipe.recorded.clear(); // it may have fewer columns
  // Without padding the kernel meets our own buffers, whose ends bite.
  recipe.d = c.kernel.D;
  recipe.dv = c.kernel.D;
  const Problem problem = reference::make_problem(recipe);

  const kernels::GuardReport report = kernels::run_guarded(c.kernel, problem);

  Findings findings;
  findings.require(report.violation.empty(), [&] { return report.violation; });
  if (report.violation.empty())
    same_run(findings, c.kernel, problem, kernels::run(c.kernel, problem), report.state,
             "between guarded and plain buffers");
  return std::move(findings).outcome();
}

Outcome traffic(const Case& c) {
  if (!kernels::traffic_is_counted(c.kernel) || c.kernel.traffic.empty())
    return not_applicable("the loads and stores of this instance are not counted");
  const kernels::Traffic counted = kernels::counted_traffic(c.kernel, c.problem).traffic;
  const kernels::Traffic predicted = kernels::predicted_traffic(c.kernel, c.problem.shape);

  Findings findings;
  for (std::size_t i = 0; i < kernels::Traffic::kArrays.size(); ++i) {
    const kernels::Traffic::OfArray found = counted.arrays[i], want = predicted.arrays[i];
    findings.require(found == want, [&] {
      return fmt::format("{}: {} floats read and {} written, want {} and {}",
                         kernels::Traffic::kArrays[i], found.read, found.written, want.read,
                         want.written);
    });
  }
  return std::move(findings).outcome();
}

Outcome nan_locality(const Case& c) {
  auto choices = choices_of(c);
  const auto& shape = c.problem.shape;
  if (shape.n_q == 0 || shape.n_kv == 0 || shape.batch_heads == 0 || shape.d == 0 || shape.dv == 0)
    return not_applicable("an empty tensor");
  const Bounds bounds = bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const State clean = kernels::run(c.kernel, c.problem);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(choices() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t bh = below(shape.batch_heads), row = below(shape.n_q), key = below(shape.n_kv);
  const std::int64_t component = below(shape.d), column = below(shape.dv);

  Findings findings;
  // `touched` says where the NaN must show in O; l must show it where `touches_l` does; all else
  // keeps its bits, or, in a kernel of unknown make, stays within its bound.
  const auto untouched = [&](float got, float want, double allowed, auto&& what) {
    if (c.kernel.arithmetic.known)
      findings.same_bits(got, want, what);
    else
      findings.within(double{got} - double{want}, 2.0 * allowed, what);
  };
  const auto expect = [&](const Problem& poisoned, const char* where, auto&& touched,
                          auto&& touches_l) {
    const State state = kernels::run(c.kernel, poisoned);
    for (std::int64_t b = 0; b < shape.batch_heads; ++b)
      for (std::int64_t r = 0; r < shape.n_q; ++r) {
        const auto i = static_cast<std::size_t>(b * shape.n_q + r);
        const auto what_l = [&] { return at("l", b, r, -1) + " with a NaN in " + where; };
        if (touches_l(b, r))
          findings.same_bits(c.kernel.gives_l_and_m ? state.l[i] : kNaN, kNaN, what_l);
        else if (c.kernel.gives_l_and_m)
          untouched(state.l[i], clean.l[i], bounds.l[i] * double{clean.l[i]}, what_l);
        for (std::int64_t col = 0; col < shape.dv; ++col) {
          const auto what = [&] { return at("O", b, r, col) + " with a NaN in " + where; };
          if (touched(b, r, col))
            findings.same_bits(state.O(b, r, col), kNaN, what);
          else
            untouched(state.O(b, r, col), clean.O(b, r, col), bounds.O(b, r, col), what);
        }
      }
  };
  Problem in_Q = c.problem, in_K = c.problem, in_V = c.problem;
  in_Q.Q(bh, row, component) = kNaN;
  in_K.K(bh, key, component) = kNaN;
  in_V.V(bh, key, column) = kNaN;
  expect(
      in_Q, at("Q", bh, row, component).c_str(),
      [&](auto b, auto r, auto) { return b == bh && r == row; },
      [&](auto b, auto r) { return b == bh && r == row; });
  expect(
      in_K, at("K", bh, key, component).c_str(), [&](auto b, auto, auto) { return b == bh; },
      [&](auto b, auto) { return b == bh; });
  if (c.kernel.gives_l_and_m && c.kernel.arithmetic.known) {
    // m is the maximum of the scores that are numbers. Of other makes nothing is asked: l and O of
    // the row are NaN, and some say NaN for m too, or start it anew behind the NaN.
    Indices others = range(0, shape.n_kv);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(key));
    const State without = kernels::run(c.kernel, with_keys(c.problem, others));
    const State with_nan = kernels::run(c.kernel, in_K);
    for (std::int64_t r = 0; r < shape.n_q; ++r)
      same_m(findings, with_nan, without, bounds, c.kernel,
             static_cast<std::size_t>(bh * shape.n_q + r),
             ("with a NaN in " + at("K", bh, key, component)).c_str());
  }
  expect(
      in_V, at("V", bh, key, column).c_str(),
      [&](auto b, auto, auto col) { return b == bh && col == column; },
      [](auto, auto) { return false; });
  return std::move(findings).outcome();
}

} // namespace fa1::properties::laws
