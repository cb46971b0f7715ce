// Relations that hold up to the forward error bound of numerics/bounds.hpp.
#include "kernels/originals.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "properties/compare.hpp"
#include "properties/laws.hpp"

#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fa1::properties::laws {
namespace {

using kernels::Kernel;
using numerics::Bounds;
using reference::Enclosed;
using reference::Truth;

constexpr std::size_t kPrefixes = 5; ///< tile borders looked at in one case

/// Everything known about the state after `keys` keys.
struct Prefix {
  std::int64_t keys = 0;
  Problem problem;
  State state;
  Truth truth;
  Bounds bounds;
};

/// The carries of the whole problem's run after some tiles, each beside the exact attention over
/// the same keys.
std::vector<Prefix> prefixes(const Case& c) {
  std::vector<Prefix> list;
  State state;
  std::int64_t done = 0;
  for (const std::int64_t border : tile_borders(c, kPrefixes)) {
    const Problem more = with_keys(c.problem, range(done, border - done));
    state = done == 0 ? kernels::run(c.kernel, more) : kernels::resume(c.kernel, more, state);
    Problem all = with_keys(c.problem, range(0, border));
    Truth truth = reference::certify(all);
    Bounds bounds = bound_over_carries(all, c.kernel);
    list.push_back({border, std::move(all), state, std::move(truth), std::move(bounds)});
    done = border;
  }
  return list;
}

bool carries_a_digit(const Bounds& bounds, std::size_t i) {
  return bounds.eta[i] < numerics::kNoDigit;
}

/// Exact l moved from the exact maximum to the computed one.
double l_at_computed_max(const Prefix& p, std::size_t i) {
  return numerics::l_at(double{p.state.m[i]}, p.truth, i).hi;
}

/// What the truth itself may be off by when it is used as above, in double: part of every
/// allowance.
double slack(double value, double radius) { return radius + 0x1p-48 * std::fabs(value); }

/// Asks `law(prefix, row index, batch-head, row)` for every row whose scores carry a digit.
template <class Law> Outcome for_each_prefix_row(const Case& c, Law&& law) {
  if (const Bounds bounds = bound_for(c.problem, c.kernel); !bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  Findings findings;
  const std::int64_t n_q = c.problem.shape.n_q;
  for (const Prefix& p : prefixes(c))
    for (std::int64_t bh = 0; bh < c.problem.shape.batch_heads; ++bh)
      for (std::int64_t row = 0; row < n_q; ++row)
        if (const auto i = static_cast<std::size_t>(bh * n_q + row); carries_a_digit(p.bounds, i))
          law(findings, p, i, bh, row);
  return std::move(findings).outcome("no keys, or no score carries a digit");
}

/// Two problems with the same exact answer: m agrees bit for bit where asked, l and O within both
/// bounds.
Outcome same_answer(const Case& c, const Problem& other, const Kernel& other_kernel,
                    const char* which, bool m_too, bool l_too) {
  const Bounds bounds = bound_for(c.problem, c.kernel),
               other_bounds = bound_for(other, other_kernel);
  for (const Bounds* b : {&bounds, &other_bounds})
    if (!b->obstacle.empty())
      return not_applicable(b->obstacle);
  const State state = kernels::run(c.kernel, c.problem);
  const State other_state = kernels::run(other_kernel, other);

  Findings findings;
  if (m_too && c.kernel.gives_l_and_m)
    same_m(findings, other_state, state, bounds, c.kernel, which);
  if (l_too && c.kernel.gives_l_and_m && !findings.violated())
    l_within(findings, other_state, other_bounds, state, bounds, 1.0, which);
  O_within(findings, other_state, other_bounds, state, bounds, which);
  return std::move(findings).outcome("no score carries a digit");
}

/// max_j |delta_j| per column: what rounding a transformed V adds to any convex combination of it.
std::vector<double> largest_per_column(const Tensor<double>& rounding, std::int64_t batch_head) {
  std::vector<double> largest(static_cast<std::size_t>(rounding.columns()), 0.0);
  for (std::int64_t j = 0; j < rounding.rows(); ++j)
    for (std::int64_t column = 0; column < rounding.columns(); ++column)
      largest[static_cast<std::size_t>(column)] = std::max(
          largest[static_cast<std::size_t>(column)], std::fabs(rounding(batch_head, j, column)));
  return largest;
}

/// O(f(V)) against f applied to computed outputs, for an affine f: `want` in double with its
/// allowance.
template <class Want, class Allowed>
void affine_in_V(Findings& findings, const State& got, const Bounds& got_bounds,
                 const Tensor<double>& rounding, const char* which, Want&& want,
                 Allowed&& allowed) {
  for (std::int64_t bh = 0; bh < got.O.batch_heads(); ++bh) {
    const auto delta = largest_per_column(rounding, bh);
    for (std::int64_t row = 0; row < got.O.rows(); ++row) {
      if (!carries_a_digit(got_bounds, static_cast<std::size_t>(bh * got.O.rows() + row)))
        continue;
      for (std::int64_t column = 0; column < got.O.columns(); ++column)
        findings.within(double{got.O(bh, row, column)} - want(bh, row, column),
                        got_bounds.O(bh, row, column) + allowed(bh, row, column) +
                            delta[static_cast<std::size_t>(column)],
                        [&] { return at("O", bh, row, column) + " " + which; });
    }
  }
}

} // namespace

Outcome l_rescale(const Case& c) {
  return for_each_prefix_row(c, [](Findings& f, const Prefix& p, std::size_t i, std::int64_t bh,
                                   std::int64_t row) {
    const double want = l_at_computed_max(p, i);
    f.within(double{p.state.l[i]} - want, p.bounds.l[i] * want + slack(want, p.truth.l[i].radius),
             [&] { return at("l", bh, row, -1) + fmt::format(" after {} keys", p.keys); });
  });
}

Outcome o_rescale(const Case& c) {
  return for_each_prefix_row(c, [](Findings& f, const Prefix& p, std::size_t i, std::int64_t bh,
                                   std::int64_t row) {
    const double l = l_at_computed_max(p, i);
    for (std::int64_t column = 0; column < p.problem.shape.dv; ++column) {
      const Enclosed& o = p.truth.O(bh, row, column);
      const double want = l * o.hi;
      // |l^ O^ - l o| <= l (1 + r) |O^ - o| + l r |o|
      const double allowed = l * ((1.0 + p.bounds.l[i]) * p.bounds.O(bh, row, column) +
                                  p.bounds.l[i] * std::fabs(o.hi));
      f.within(double{p.state.l[i]} * double{p.state.O(bh, row, column)} - want,
               allowed + slack(want, l * o.radius), [&] {
                 return "l * " + at("O", bh, row, column) + fmt::format(" after {} keys", p.keys);
               });
    }
  });
}

Outcome prefix(const Case& c) {
  return for_each_prefix_row(c, [](Findings& f, const Prefix& p, std::size_t, std::int64_t bh,
                                   std::int64_t row) {
    for (std::int64_t column = 0; column < p.problem.shape.dv; ++column) {
      const Enclosed& o = p.truth.O(bh, row, column);
      f.within(numerics::error_of(p.state.O(bh, row, column), o),
               p.bounds.O(bh, row, column) + o.radius,
               [&] { return at("O", bh, row, column) + fmt::format(" after {} keys", p.keys); });
    }
  });
}

Outcome merge(const Case& c) {
  auto choices = choices_of(c);
  const std::int64_t n_kv = c.problem.shape.n_kv;
  if (n_kv < 2)
    return not_applicable("fewer than two keys");
  const Bounds whole_bounds = bound_for(c.problem, c.kernel);
  if (!whole_bounds.obstacle.empty())
    return not_applicable(whole_bounds.obstacle);

  struct Part {
    State state;
    Bounds bounds;
  };
  std::vector<Part> parts;
  Indices cuts{0, 1 + static_cast<std::int64_t>(choices() % static_cast<std::uint64_t>(n_kv - 1)),
               static_cast<std::int64_t>(choices() % static_cast<std::uint64_t>(n_kv + 1)), n_kv};
  std::ranges::sort(cuts);
  for (std::size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] > cuts[i - 1]) {
      const Problem part = with_keys(c.problem, range(cuts[i - 1], cuts[i] - cuts[i - 1]));
      parts.push_back({kernels::run(c.kernel, part), bound_for(part, c.kernel)});
    }
  if (choices() % 2 == 0)
    std::ranges::reverse(parts); // merging is commutative
  const State whole = kernels::run(c.kernel, c.problem);

  // The parts' weights l e^m / sum are known to a relative error r each; with them O is off by at
  // most sum w (bound of the part) + sum |dw| |O_part - O|, and |dw| <= w ((1 + r) / (1 - r) - 1).
  Findings findings;
  for (std::int64_t bh = 0; bh < c.problem.shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < c.problem.shape.n_q; ++row) {
      const auto i = static_cast<std::size_t>(bh * c.problem.shape.n_q + row);
      double m = -HUGE_VAL, r = 0.0, l = 0.0;
      bool digits = carries_a_digit(whole_bounds, i);
      for (const Part& part : parts) {
        m = std::max(m, double{part.state.m[i]});
        // of l e^m, the part's sum of e^s: a maximum that is off cancels
        r = std::max(r, part.bounds.l[i]);
        digits = digits && carries_a_digit(part.bounds, i);
      }
      if (!digits || !(r < 0.5))
        continue;
      std::vector<double> w;
      for (const Part& part : parts) {
        w.push_back(double{part.state.l[i]} * std::exp(double{part.state.m[i]} - m));
        l += w.back();
      }
      const double dw = (1.0 + r) / (1.0 - r) - 1.0;
      const double l_whole = double{whole.l[i]} * std::exp(double{whole.m[i]} - m);
      findings.within(l - l_whole,
                      (2.0 * r + whole_bounds.l[i]) * std::max(l, l_whole) + 0x1p-40 * l,
                      [&] { return at("l", bh, row, -1) + " merged"; });
      for (std::int64_t column = 0; column < c.problem.shape.dv; ++column) {
        double merged = 0.0;
        for (std::size_t k = 0; k < parts.size(); ++k)
          merged += w[k] / l * double{parts[k].state.O(bh, row, column)};
        double allowed = whole_bounds.O(bh, row, column) + 0x1p-48 * std::fabs(merged);
        for (std::size_t k = 0; k < parts.size(); ++k) {
          const double bound = parts[k].bounds.O(bh, row, column);
          const double apart =
              std::fabs(double{parts[k].state.O(bh, row, column)} - merged) + bound;
          allowed += w[k] / l * (1.0 + dw) * (bound + dw * apart);
        }
        findings.within(merged - double{whole.O(bh, row, column)}, allowed,
                        [&] { return at("O", bh, row, column) + " merged"; });
      }
    }
  return std::move(findings).outcome("no score carries a digit");
}

Outcome tile_order(const Case& c) {
  auto choices = choices_of(c);
  const std::int64_t Bc = c.kernel.Bc, n_kv = c.problem.shape.n_kv;
  const std::int64_t full = n_kv / Bc; // a ragged last tile stays last
  if (full < 2)
    return not_applicable("fewer than two full tiles");
  Indices keys;
  for (const std::int64_t tile : permutation(full, choices))
    for (std::int64_t j = 0; j < Bc; ++j)
      keys.push_back(tile * Bc + j);
  for (std::int64_t j = full * Bc; j < n_kv; ++j)
    keys.push_back(j);
  return same_answer(c, with_keys(c.problem, keys), c.kernel, "with the tiles in another order",
                     true, true);
}

Outcome key_permutation(const Case& c) {
  auto choices = choices_of(c);
  return same_answer(c, with_keys(c.problem, permutation(c.problem.shape.n_kv, choices)), c.kernel,
                     "with the keys permuted", true, true);
}

Outcome tile_width(const Case& c) {
  auto choices = choices_of(c);
  const Kernel* other = sibling(c.kernel, false, choices);
  if (other == nullptr)
    return not_applicable("no other kernel of this variant with another Bc");
  return same_answer(c, c.problem, *other, fmt::format("with Bc = {}", other->Bc).c_str(), true,
                     true);
}

Outcome same_family(const Case& c) {
  // What each is held against, at its own tile: one that does the same roundings, or fa1.
  struct Relation {
    std::string_view variant, other;
    enum { every_bit, bits_of_O, both_bounds } same;
  };
  constexpr Relation kRelations[] = {
      {"fa1_element", "fa1", Relation::every_bit},
      {"fa1_tuned", "fa1", Relation::every_bit},
      {"fa2", "fa1_deferred", Relation::bits_of_O},
      {"fa1_pipelined", "fa1_deferred", Relation::every_bit},
      {"fa1_deferred", "fa1", Relation::both_bounds},
      {"fa1_paper", "fa1", Relation::both_bounds},
      {"standard", "fa1", Relation::both_bounds},
      {"online_softmax", "fa1", Relation::both_bounds},
      {"split_kv", "fa1", Relation::both_bounds},
      {"lazy_rescale", "fa1", Relation::both_bounds},
  };
  const auto relation =
      std::ranges::find(kRelations, kernels::original_of(c.kernel.variant), &Relation::variant);
  if (relation == std::end(kRelations))
    return not_applicable("the kernel is one that others are held against");
  const Kernel* const other = find_kernel_where([&](const Kernel& k) {
    return k.variant == relation->other && k.build == c.kernel.build && k.D == c.kernel.D &&
           k.Bc == c.kernel.Bc; // Br changes no bit
  });
  if (other == nullptr)
    return not_applicable(fmt::format("this build has no {} at this tile", relation->other));
  const std::string which = "beside " + other->id;
  if (relation->same == Relation::both_bounds || !scores_are_reproducible(c.kernel))
    return same_answer(c, c.problem, *other, which.c_str(), true, true);

  const State state = kernels::run(c.kernel, c.problem), same = kernels::run(*other, c.problem);
  Findings findings;
  if (relation->same == Relation::every_bit)
    same_state(findings, same, state, which.c_str());
  else
    same_O(findings, same.O, state.O, which.c_str());
  return std::move(findings).outcome();
}

Outcome cpu_gpu(const Case& c) {
  const Kernel* const twin = twin_on_cpu(c.kernel);
  if (twin == nullptr)
    return not_applicable("this machine has no such build of this kernel for the CPU");
  const std::string which = "beside " + twin->id;
  if (!c.kernel.arithmetic.portable) {
    Kernel kernel = c.kernel; // m agrees bit for bit where both compute a score alike
    kernel.arithmetic.uniform_dots = twin->arithmetic.uniform_dots;
    return same_answer({c.recipe, c.problem, kernel}, c.problem, *twin, which.c_str(), true, true);
  }
  Findings findings;
  same_state(findings, kernels::run(c.kernel, c.problem), kernels::run(*twin, c.problem),
             which.c_str());
  return std::move(findings).outcome();
}

Outcome head_permutation(const Case& c) {
  auto choices = choices_of(c);
  const Indices components = permutation(c.problem.shape.d, choices);
  Problem other = c.problem;
  other.Q = gather_columns(c.problem.Q, components);
  other.K = gather_columns(c.problem.K, components);
  return same_answer(c, other, c.kernel, "with the head components permuted", false, false);
}

Outcome value_linearity(const Case& c) {
  constexpr float a = 2.0f, b = -0.5f;
  const auto& shape = c.problem.shape;
  const Problem reversed = with_values(c.problem, [&] {
    Indices keys = range(0, shape.n_kv);
    std::ranges::reverse(keys);
    return gather_rows(c.problem.V, keys);
  }());
  Tensor<float> combined = c.problem.V;
  Tensor<double> rounding(shape.batch_heads, shape.n_kv, shape.dv);
  for (std::size_t e = 0; e < combined.elements().size(); ++e) {
    const double exact = double{a} * double{c.problem.V.elements()[e]} +
                         double{b} * double{reversed.V.elements()[e]};
    combined.elements()[e] = static_cast<float>(exact);
    rounding.elements()[e] = double{combined.elements()[e]} - exact;
  }
  const Problem sum = with_values(c.problem, std::move(combined));
  const Bounds first = bound_for(c.problem, c.kernel), second = bound_for(reversed, c.kernel);
  const Bounds both = bound_for(sum, c.kernel);
  for (const Bounds* bounds : {&first, &second, &both})
    if (!bounds->obstacle.empty())
      return not_applicable(bounds->obstacle);
  const State O1 = kernels::run(c.kernel, c.problem), O2 = kernels::run(c.kernel, reversed);

  Findings findings;
  affine_in_V(
      findings, kernels::run(c.kernel, sum), both, rounding, "of 2 V1 - V2 / 2",
      [&](auto bh, auto row, auto column) {
        return double{a} * double{O1.O(bh, row, column)} +
               double{b} * double{O2.O(bh, row, column)};
      },
      [&](auto bh, auto row, auto column) {
        return std::fabs(double{a}) * first.O(bh, row, column) +
               std::fabs(double{b}) * second.O(bh, row, column);
      });
  return std::move(findings).outcome("no score carries a digit");
}

Outcome value_shift(const Case& c) {
  auto choices = choices_of(c);
  constexpr float kShifts[] = {1.0f, -3.0f, 1000.0f, 0.1f};
  const float shift = kShifts[choices() % std::size(kShifts)];
  const auto& shape = c.problem.shape;
  Tensor<float> shifted = c.problem.V;
  Tensor<double> rounding(shape.batch_heads, shape.n_kv, shape.dv);
  for (std::size_t e = 0; e < shifted.elements().size(); ++e) {
    const double exact = double{c.problem.V.elements()[e]} + double{shift};
    shifted.elements()[e] = static_cast<float>(exact);
    rounding.elements()[e] = double{shifted.elements()[e]} - exact;
  }
  const Problem other = with_values(c.problem, std::move(shifted));
  const Bounds bounds = bound_for(c.problem, c.kernel), other_bounds = bound_for(other, c.kernel);
  for (const Bounds* b : {&bounds, &other_bounds})
    if (!b->obstacle.empty())
      return not_applicable(b->obstacle);
  if (shape.n_kv == 0)
    return not_applicable("no keys");
  const State state = kernels::run(c.kernel, c.problem);

  Findings findings;
  affine_in_V(
      findings, kernels::run(c.kernel, other), other_bounds, rounding,
      fmt::format("of V + {}", shift).c_str(),
      [&](auto bh, auto row, auto column) {
        return double{state.O(bh, row, column)} + double{shift};
      },
      [&](auto bh, auto row, auto column) { return bounds.O(bh, row, column); });
  return std::move(findings).outcome("no score carries a digit");
}

Outcome value_constant(const Case& c) {
  auto choices = choices_of(c);
  if (c.problem.shape.n_kv == 0)
    return not_applicable("no keys");
  const float any = 1.0f + static_cast<float>(choices() % 1000) / 999.0f;
  const float power = std::ldexp(1.0f, static_cast<int>(choices() % 41) - 20);

  Findings findings;
  for (const float value : {any, power}) {
    Tensor<float> V = c.problem.V;
    std::ranges::fill(V.elements(), value);
    const Problem constant = with_values(c.problem, std::move(V));
    const Bounds bounds = bound_for(constant, c.kernel);
    if (!bounds.obstacle.empty())
      return not_applicable(bounds.obstacle);
    const State state = kernels::run(c.kernel, constant);
    for (std::int64_t bh = 0; bh < state.O.batch_heads(); ++bh)
      for (std::int64_t row = 0; row < state.O.rows(); ++row)
        for (std::int64_t column = 0; column < state.O.columns(); ++column) {
          const auto what = [&] {
            return at("O", bh, row, column) + fmt::format(" of V = {:a}", value);
          };
          if (value == power && asked_bitwise(c.kernel))
            findings.same_bits(state.O(bh, row, column), value, what);
          else // every weight cancels, so this holds even where the scores carry no digit
            findings.within(double{state.O(bh, row, column)} - double{value},
                            bounds.O(bh, row, column), what);
        }
  }
  return std::move(findings).outcome();
}

Outcome hull(const Case& c) {
  const Bounds bounds = bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  if (c.problem.shape.n_kv == 0)
    return not_applicable("no keys");
  const State state = kernels::run(c.kernel, c.problem);

  Findings findings;
  for (std::int64_t bh = 0; bh < state.O.batch_heads(); ++bh)
    for (std::int64_t column = 0; column < state.O.columns(); ++column) {
      double low = HUGE_VAL, high = -HUGE_VAL;
      for (std::int64_t j = 0; j < c.problem.shape.n_kv; ++j) {
        low = std::min(low, double{c.problem.V(bh, j, column)});
        high = std::max(high, double{c.problem.V(bh, j, column)});
      }
      for (std::int64_t row = 0; row < state.O.rows(); ++row) {
        const double o = state.O(bh, row, column);
        // Computed weights are weights too: only the roundings after them can leave the hull.
        const double outside = std::isnan(o) ? o : std::max({0.0, low - o, o - high});
        findings.within(outside, bounds.O(bh, row, column), [&] {
          return at("O", bh, row, column) + fmt::format(" outside [{:.9g}, {:.9g}]", low, high);
        });
      }
    }
  return std::move(findings).outcome();
}

Outcome score_shift(const Case& c) {
  auto choices = choices_of(c);
  if (c.problem.shape.d >= c.kernel.D)
    return not_applicable("no head component is free to shift the scores");
  if (!(std::fabs(c.problem.scale) > 1e-20f))
    return not_applicable("a scale that cannot shift a score");
  const double shift =
      std::ldexp(choices() % 2 == 0 ? 1.0 : -1.0, static_cast<int>(choices() % 11));
  Problem other = c.problem;
  other.Q = append_column(c.problem.Q, 1.0f);
  other.K = append_column(c.problem.K, static_cast<float>(shift / double{c.problem.scale}));
  other.shape.d += 1;
  return same_answer(c, other, c.kernel, fmt::format("with {} added to every score", shift).c_str(),
                     false, false);
}

Outcome duplicate_keys(const Case& c) {
  const std::int64_t n_kv = c.problem.shape.n_kv;
  Indices keys = range(0, n_kv);
  for (std::int64_t j = 0; j < n_kv; ++j)
    keys.push_back(j);
  const Problem twice = with_keys(c.problem, keys);
  const Bounds bounds = bound_for(c.problem, c.kernel), twice_bounds = bound_for(twice, c.kernel);
  for (const Bounds* b : {&bounds, &twice_bounds})
    if (!b->obstacle.empty())
      return not_applicable(b->obstacle);
  const State state = kernels::run(c.kernel, c.problem), doubled = kernels::run(c.kernel, twice);

  Findings findings;
  if (c.kernel.gives_l_and_m) {
    same_m(findings, doubled, state, bounds, c.kernel, "with every key twice");
    l_within(findings, doubled, twice_bounds, state, bounds, 2.0, "with every key twice");
  }
  O_within(findings, doubled, twice_bounds, state, bounds, "with every key twice");
  return std::move(findings).outcome("no score carries a digit");
}

Outcome uniform(const Case& c) {
  Problem equal = c.problem;
  std::ranges::fill(equal.Q.elements(), 0.0f);
  const Bounds bounds = bound_for(equal, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const State state = kernels::run(c.kernel, equal);
  const Truth truth = reference::certify(equal);

  Findings findings;
  const auto keys = static_cast<float>(equal.shape.n_kv); // exact up to 2^24
  for (std::size_t i = 0; i < state.l.size() && c.kernel.gives_l_and_m; ++i) {
    const auto what = [&] { return fmt::format("l[{}] of equal scores", i); };
    const double want = // at the computed maximum
        keys == 0.0f ? 0.0 : double{keys} * std::exp(-double{state.m[i]});
    if (c.kernel.arithmetic.known && c.kernel.arithmetic.m_is_maximum())
      findings.same_bits(state.l[i], keys, what);
    else
      findings.within(double{state.l[i]} - want, bounds.l[i] * want, what);
  }
  for (std::size_t e = 0; e < state.O.elements().size(); ++e) {
    const Enclosed& mean = truth.O.elements()[e];
    findings.within(numerics::error_of(state.O.elements()[e], mean),
                    bounds.O.elements()[e] + mean.radius,
                    [&] { return fmt::format("O element {} of equal scores, the mean of V,", e); });
  }
  return std::move(findings).outcome();
}

Outcome lse_consistent(const Case& c) {
  const Bounds bounds = bound_for(c.problem, c.kernel);
  if (!bounds.obstacle.empty())
    return not_applicable(bounds.obstacle);
  const State state = kernels::run(c.kernel, c.problem);
  const Truth truth = reference::certify(c.problem);

  Findings findings;
  for (std::size_t i = 0; i < state.l.size(); ++i) {
    const double got = double{state.m[i]} + std::log(double{state.l[i]});
    const Enclosed& want = truth.LSE[i];
    const auto what = [&] { return fmt::format("m + ln l of row {}", i); };
    if (std::isinf(want.hi))
      findings.same_bits(static_cast<float>(got), static_cast<float>(want.hi), what);
    else if (carries_a_digit(bounds, i))
      findings.within((got - want.hi) - want.lo, bounds.LSE[i] + slack(got, want.radius), what);
  }
  return std::move(findings).outcome("no score carries a digit");
}

Outcome truth(const Case& c) {
  const Bounds bounds = bound_for(c.problem, c.kernel);
  const State state = kernels::run(c.kernel, c.problem);
  const Truth exact = reference::certify(c.problem);
  const numerics::Verdict verdict =
      numerics::judge(c.problem, state, exact, bounds, c.kernel.gives_l_and_m);

  Findings findings;
  if (verdict.judgement == numerics::Judgement::undecided)
    return not_applicable(verdict.why);
  findings.require(verdict.judgement != numerics::Judgement::proved_wrong,
                   [&] { return to_string(verdict); });
  Outcome outcome = std::move(findings).outcome();
  if (bounds.obstacle.empty()) // otherwise right to the last bit, with no bound to compare with
    outcome.fraction = verdict.worst.fraction();
  outcome.suspicious = verdict.judgement == numerics::Judgement::suspicious;
  return outcome;
}

Outcome given_scores(const Case& c) {
  if (!scores_are_reproducible(c.kernel))
    return not_applicable("the kernel's own scores are not known");
  const reference::Shape& shape = c.problem.shape;
  const State state = kernels::run(c.kernel, c.problem);

  Findings findings;
  double fraction = 0.0;
  std::string undecided = "no keys";
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      // The same scores as exact products: q = 1, k_j = s_j, scale = 1.
      Problem given{{1, 1, shape.n_kv, 1, shape.dv},
                    1.0f,
                    Tensor<float>(1, 1, 1),
                    Tensor<float>(1, shape.n_kv, 1),
                    Tensor<float>(1, shape.n_kv, shape.dv)};
      given.Q(0, 0, 0) = 1.0f;
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        given.K(0, j, 0) = score_in_order(c.problem.Q.row(bh, row), c.problem.K.row(bh, j),
                                          c.problem.scale, c.kernel.arithmetic.contracted);
        std::ranges::copy(c.problem.V.row(bh, j), given.V.row(0, j).begin());
      }
      const auto at = static_cast<std::size_t>(bh * shape.n_q + row);
      State alone{Tensor<float>(1, 1, shape.dv), {state.l[at]}, {state.m[at]}};
      std::ranges::copy(state.O.row(bh, row), alone.O.row(0, 0).begin());
      const Bounds bounds = numerics::online_softmax(given, c.kernel.arithmetic, true);
      numerics::Verdict verdict =
          numerics::judge(given, alone, reference::certify(given), bounds, c.kernel.gives_l_and_m);
      if (verdict.judgement == numerics::Judgement::undecided) {
        undecided = verdict.why;
        continue;
      }
      verdict.worst.batch_head = bh;
      verdict.worst.row = row;
      findings.require(verdict.judgement != numerics::Judgement::proved_wrong,
                       [&] { return to_string(verdict) + "; scores as the kernel computes them"; });
      if (bounds.obstacle.empty()) // otherwise right to the last bit, with no bound to compare with
        fraction = std::max(fraction, verdict.worst.fraction());
    }
  Outcome outcome = std::move(findings).outcome(undecided.c_str());
  outcome.fraction = fraction;
  return outcome;
}

} // namespace fa1::properties::laws
