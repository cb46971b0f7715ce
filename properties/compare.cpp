#include "properties/compare.hpp"

#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace fa1::properties {

void Findings::violate(std::string detail) {
  if (outcome_.answer != Answer::violated)
    outcome_.detail = std::move(detail);
  outcome_.answer = Answer::violated;
}

void Findings::within(double difference, double allowed, const std::function<std::string()>& what) {
  asked_ = true;
  const double size = std::fabs(difference);
  const double fraction = size == 0.0 ? 0.0 : size / allowed;
  if (!std::isnan(outcome_.fraction) && !(fraction <= outcome_.fraction))
    outcome_.fraction = fraction;
  if (!(size <= allowed))
    violate(fmt::format("{} differs by {:.6g} where {:.6g} is allowed ({:.3g} times)", what(), size,
                        allowed, fraction));
}

void Findings::same_bits(float got, float want, const std::function<std::string()>& what) {
  asked_ = true;
  if (!numerics::same_bits(got, want))
    violate(fmt::format("{} is {:a} ({:.9g}) where {:a} ({:.9g}) is right", what(), got, got, want,
                        want));
}

void Findings::same_value(float got, float want, const std::function<std::string()>& what) {
  if (got == 0.0f && want == 0.0f)
    asked_ = true;
  else
    same_bits(got, want, what);
}

void Findings::require(bool condition, const std::function<std::string()>& what) {
  asked_ = true;
  if (!condition)
    violate(what());
}

Outcome Findings::outcome(const char* why_nothing_was_asked) && {
  if (!asked_)
    return not_applicable(why_nothing_was_asked);
  return std::move(outcome_);
}

std::string at(const char* array, std::int64_t batch_head, std::int64_t row, std::int64_t column) {
  return column < 0 ? fmt::format("{}[{},{}]", array, batch_head, row)
                    : fmt::format("{}[{},{},{}]", array, batch_head, row, column);
}

void same_O(Findings& findings, const Tensor<float>& got, const Tensor<float>& want,
            const char* which, Zeros zeros) {
  findings.require(got.batch_heads() == want.batch_heads() && got.rows() == want.rows() &&
                       got.columns() == want.columns(),
                   [&] { return std::string(which) + ": shapes differ"; });
  if (findings.violated())
    return;
  for (std::int64_t bh = 0; bh < got.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < got.rows(); ++row)
      for (std::int64_t column = 0; column < got.columns(); ++column) {
        const auto what = [&] { return at("O", bh, row, column) + " " + which; };
        if (zeros == Zeros::either_sign)
          findings.same_value(got(bh, row, column), want(bh, row, column), what);
        else
          findings.same_bits(got(bh, row, column), want(bh, row, column), what);
      }
}

void same_m(Findings& findings, const State& got, const State& want, const numerics::Bounds& bounds,
            const kernels::Kernel& kernel, std::size_t i, const char* which) {
  if (!kernel.arithmetic.m_is_maximum())
    return;
  const auto what = [&] { return fmt::format("m[{}] {}", i, which); };
  if (scores_are_reproducible(kernel) || got.m[i] == want.m[i])
    findings.same_value(got.m[i], want.m[i], what);
  else
    findings.within(double{got.m[i]} - double{want.m[i]},
                    2.0 * m_allowed(kernel, bounds, i, want.m[i]), what);
}

void same_m(Findings& findings, const State& got, const State& want, const numerics::Bounds& bounds,
            const kernels::Kernel& kernel, const char* which) {
  for (std::size_t i = 0; i < want.m.size(); ++i)
    same_m(findings, got, want, bounds, kernel, i, which);
}

void same_run(Findings& findings, const kernels::Kernel& kernel, const Problem& problem,
              const State& got, const State& want, const char* which, Zeros zeros) {
  if (asked_bitwise(kernel)) {
    same_state(findings, got, want, which, zeros);
    return;
  }
  const numerics::Bounds bounds = bound_over_carries(problem, kernel);
  if (!bounds.obstacle.empty())
    return;
  O_within(findings, got, bounds, want, bounds, which);
  if (!kernel.gives_l_and_m)
    return;
  same_m(findings, got, want, bounds, kernel, which);
  l_within(findings, got, bounds, want, bounds, 1.0, which);
}

bool scores_are_reproducible(const kernels::Kernel& kernel) {
  return kernel.arithmetic.known && kernel.arithmetic.uniform_dots;
}

double m_allowed(const kernels::Kernel& kernel, const numerics::Bounds& bounds, std::size_t i,
                 float m) {
  const bool rounded = !kernel.arithmetic.known && std::isfinite(m);
  return bounds.m[i] + (rounded ? numerics::gamma(4.0) * std::fabs(double{m}) : 0.0);
}

void same_state(Findings& findings, const State& got, const State& want, const char* which,
                Zeros zeros) {
  same_O(findings, got.O, want.O, which, zeros);
  for (std::size_t i = 0; i < want.l.size(); ++i)
    findings.same_bits(got.l[i], want.l[i], [&] { return fmt::format("l[{}] {}", i, which); });
  for (std::size_t i = 0; i < want.m.size(); ++i)
    findings.same_value(got.m[i], want.m[i], [&] { return fmt::format("m[{}] {}", i, which); });
}

void O_within(Findings& findings, const State& a, const numerics::Bounds& bound_a, const State& b,
              const numerics::Bounds& bound_b, const char* which) {
  const Tensor<float>& O = a.O;
  for (std::int64_t bh = 0; bh < O.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < O.rows(); ++row) {
      const auto i = static_cast<std::size_t>(bh * O.rows() + row);
      const bool digits =
          bound_a.eta[i] < numerics::kNoDigit && bound_b.eta[i] < numerics::kNoDigit;
      for (std::int64_t column = 0; column < O.columns(); ++column) {
        const double difference =
            std::fabs(double{O(bh, row, column)} - double{b.O(bh, row, column)});
        const double allowed = bound_a.O(bh, row, column) + bound_b.O(bh, row, column);
        if (digits || !(difference <= allowed))
          findings.within(difference, allowed,
                          [&] { return at("O", bh, row, column) + " " + which; });
      }
    }
}

void l_within(Findings& findings, const State& a, const numerics::Bounds& bound_a, const State& b,
              const numerics::Bounds& bound_b, double factor, const char* which) {
  for (std::size_t i = 0; i < a.l.size(); ++i) {
    if (!(bound_a.eta[i] < numerics::kNoDigit && bound_b.eta[i] < numerics::kNoDigit))
      continue;
    // Both stand for one exact sum e at the same maximum (times `factor` for a), and e <= |b| / (1
    // - its relative error). Where the maxima differ, l moves by e^difference.
    const double moved = a.m[i] == b.m[i] ? 1.0 : std::exp(double{b.m[i]} - double{a.m[i]});
    const double want = factor * moved * double{b.l[i]};
    const double relative = bound_a.l[i] + bound_b.l[i];
    findings.within(double{a.l[i]} - want,
                    relative < 1.0 ? relative / (1.0 - relative) * std::fabs(want) : HUGE_VAL,
                    [&] { return fmt::format("l[{}] {}", i, which); });
  }
}

Outcome not_applicable(std::string why) { return {Answer::not_applicable, 0.0, std::move(why)}; }

numerics::Bounds bound_for(const Problem& problem, const kernels::Kernel& kernel) {
  return numerics::online_softmax(problem, kernel.arithmetic);
}

numerics::Bounds bound_over_carries(const Problem& problem, const kernels::Kernel& kernel) {
  return numerics::online_softmax(problem, kernel.arithmetic.over_carries());
}

bool asked_bitwise(const kernels::Kernel& kernel) {
  return kernel.arithmetic.known && kernel.bitwise;
}

} // namespace fa1::properties
