#include "numerics/verdict.hpp"

#include "numerics/ulp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa1::numerics {
namespace {

struct Finding {
  Judgement judgement = Judgement::proved_right;
  std::string why;
};

Finding judge_element(const Element& e, double eta, const std::string& obstacle) {
  const double truth = e.truth.hi;
  if (std::isnan(truth))
    return std::isnan(e.got) ? Finding{} : Finding{Judgement::proved_wrong, "the truth is NaN"};
  if (std::isinf(truth))
    return double{e.got} == truth ? Finding{}
                                  : Finding{Judgement::proved_wrong, "the truth is infinite"};
  if (!obstacle.empty()) {
    // The contract does not reach so far; an output equal to the rounded truth is right all the
    // same.
    return e.got == static_cast<float>(truth) ? Finding{} : Finding{Judgement::undecided, obstacle};
  }
  if (!std::isfinite(e.got))
    return {Judgement::proved_wrong, "the truth is finite"};
  const double error = std::fabs(e.error);
  if (!(error - e.truth.radius <= e.bound))
    return {Judgement::proved_wrong, "its error is beyond its bound"};
  if (!(eta < kNoDigit))
    return {Judgement::undecided,
            fmt::format("scores carry no digit (their error bound is {:.3g})", eta)};
  if (std::isinf(e.bound))
    return {Judgement::undecided, "so many roundings have no finite bound"};
  if (!(error + e.truth.radius <= e.bound))
    return {Judgement::undecided,
            fmt::format("the truth's radius {:.3g} is too wide", e.truth.radius)};
  if (e.expected > 0.0 && error > kLambda * e.expected)
    return {Judgement::suspicious,
            fmt::format("its error is {:.1f} times the expected one", error / e.expected)};
  return {};
}

/// Keeps the gravest finding, and among equals the element closest to its bound.
class Court {
public:
  void hear(Element element, double eta, const std::string& obstacle) {
    const Finding finding = judge_element(element, eta, obstacle);
    if (finding.judgement == Judgement::proved_right && !std::isfinite(element.error))
      // NaN or Inf where the truth has the same: a difference says nothing
      element.error = element.ulps = 0.0;
    const bool graver = finding.judgement > verdict_.judgement;
    const bool closer = finding.judgement == verdict_.judgement &&
                        !(element.fraction() <= verdict_.worst.fraction());
    if (!heard_ || graver || closer) {
      verdict_.judgement = finding.judgement;
      verdict_.worst = std::move(element);
      verdict_.why = finding.why;
    }
    ++verdict_.elements[static_cast<std::size_t>(finding.judgement)];
    heard_ = true;
  }
  Verdict verdict() && {
    if (!heard_)
      verdict_.why = "there is no output element";
    return std::move(verdict_);
  }

private:
  Verdict verdict_;
  bool heard_ = false;
};

Element element_of_O(const reference::State& state, const reference::Truth& truth,
                     const Bounds& bounds, std::int64_t bh, std::int64_t row, std::int64_t column) {
  Element e{"O", bh, row, column, state.O(bh, row, column), truth.O(bh, row, column)};
  e.error = error_of(e.got, e.truth);
  e.bound = bounds.O(bh, row, column);
  e.expected = bounds.expected(bh, row, column);
  e.ulps = std::fabs(e.error) / ulp_of(e.truth.hi);
  return e;
}

/// l is the sum at the computed maximum, and its bound is relative.
Element element_of_l(const reference::State& state, const reference::Truth& truth,
                     const Bounds& bounds, std::size_t at) {
  Element e;
  e.output = "l";
  e.got = state.l[at];
  e.truth = l_at(double{state.m[at]}, truth, at);
  e.error = double{e.got} - e.truth.hi;
  e.bound = bounds.l[at] * std::fabs(e.truth.hi);
  e.ulps = std::fabs(e.error) / ulp_of(e.truth.hi);
  return e;
}

Element element_of_LSE(const reference::State& state, const reference::Truth& truth,
                       const Bounds& bounds, std::size_t at) {
  Element e;
  e.output = "LSE";
  // -Inf + -Inf before any key
  const double got = double{state.m[at]} + std::log(double{state.l[at]});
  e.got = static_cast<float>(got);
  e.truth = truth.LSE[at];
  e.error = (got - truth.LSE[at].hi) - truth.LSE[at].lo;
  e.truth.radius += 0x1p-50 * (std::fabs(got) + 1.0); // our own double arithmetic
  e.bound = bounds.LSE[at];
  e.ulps = std::fabs(e.error) / ulp_of(e.truth.hi);
  return e;
}

/// The best that fp32 can give.
reference::State rounded_truth(const reference::Problem& problem, const reference::Truth& truth) {
  reference::State state = reference::start_state(problem.shape);
  const auto nearest = [](const reference::Enclosed& x) { return static_cast<float>(x.hi); };
  std::ranges::transform(truth.O.elements(), state.O.data(), nearest);
  std::ranges::transform(truth.l, state.l.begin(), nearest);
  std::ranges::transform(truth.m, state.m.begin(), nearest);
  return state;
}

/// Has some element of O no business to be where it is? Said without the judge's own functions.
bool beyond_bound(const reference::State& state, const reference::Truth& truth,
                  const Bounds& bounds) {
  for (std::size_t e = 0; e < truth.O.elements().size(); ++e) {
    const reference::Enclosed& right = truth.O.elements()[e];
    const double distance = std::fabs((double{state.O.elements()[e]} - right.hi) - right.lo);
    if (std::isfinite(right.hi) && !(distance <= bounds.O.elements()[e] + right.radius))
      return true;
  }
  return false;
}

} // namespace

std::string_view name_of(Judgement judgement) {
  switch (judgement) {
  case Judgement::proved_right:
    return "proved right";
  case Judgement::suspicious:
    return "suspicious";
  case Judgement::undecided:
    return "undecided";
  case Judgement::proved_wrong:
    break;
  }
  return "proved wrong";
}

Verdict judge(const reference::Problem& problem, const reference::State& state,
              const reference::Truth& truth, const Bounds& bounds, bool judge_l_and_LSE) {
  const reference::Shape& shape = problem.shape;
  Court court;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row) {
      const auto at = static_cast<std::size_t>(bh * shape.n_q + row);
      for (std::int64_t column = 0; column < shape.dv; ++column)
        court.hear(element_of_O(state, truth, bounds, bh, row, column), bounds.eta[at],
                   bounds.obstacle);
      // l is a sum at the computed maximum. Where the scores carry no digit nothing is known of
      // that maximum, and O has said so already; outside the conditions l can be held against the
      // truth only at the same maximum.
      const bool l_is_known = bounds.obstacle.empty() ? bounds.eta[at] < kNoDigit
                                                      : std::isnan(truth.l[at].hi) ||
                                                            double{state.m[at]} == truth.m[at].hi;
      if (!judge_l_and_LSE || !l_is_known)
        continue;
      for (Element e :
           {element_of_l(state, truth, bounds, at), element_of_LSE(state, truth, bounds, at)}) {
        e.batch_head = bh;
        e.row = row;
        court.hear(std::move(e), bounds.eta[at], bounds.obstacle);
      }
    }
  return std::move(court).verdict();
}

reference::Tensor<Judgement> judge_each_O(const reference::State& state,
                                          const reference::Truth& truth, const Bounds& bounds) {
  const auto& O = state.O;
  reference::Tensor<Judgement> each(O.batch_heads(), O.rows(), O.columns());
  for (std::int64_t bh = 0; bh < O.batch_heads(); ++bh)
    for (std::int64_t row = 0; row < O.rows(); ++row)
      for (std::int64_t column = 0; column < O.columns(); ++column)
        each(bh, row, column) =
            judge_element(element_of_O(state, truth, bounds, bh, row, column),
                          bounds.eta[static_cast<std::size_t>(bh * O.rows() + row)],
                          bounds.obstacle)
                .judgement;
  return each;
}

JudgeTrial verify_judge(const reference::Problem& problem, const reference::Truth& truth,
                        const Bounds& bounds, const Judge& judge) {
  JudgeTrial trial;
  if (!bounds.obstacle.empty())
    return trial;
  const reference::State rounded = rounded_truth(problem, truth);
  const auto offer = [&](const char* name, const reference::State& state, bool wrong) {
    const bool rejected =
        judge(problem, state, truth, bounds, false).judgement == Judgement::proved_wrong;
    (rejected == wrong ? trial.seen : trial.missed).emplace_back(name);
  };
  const auto offer_wrong = [&](const char* name, const reference::State& state) {
    if (beyond_bound(state, truth, bounds))
      offer(name, state, true);
  };
  offer("the truth rounded to fp32", rounded, false);

  reference::State state = rounded;
  std::ranges::fill(state.O.elements(), 0.0f);
  offer_wrong("zeros", state);
  std::ranges::fill(state.O.elements(), std::numeric_limits<float>::quiet_NaN());
  offer_wrong("NaN everywhere", state);

  const reference::Shape& shape = problem.shape;
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < shape.n_q; ++row)
      std::ranges::copy(rounded.O.row(bh, (row + 1) % shape.n_q), state.O.row(bh, row).begin());
  offer_wrong("rows moved on by one", state);

  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t column = 0; column < shape.dv; ++column) {
      double sum = 0.0;
      for (std::int64_t key = 0; key < shape.n_kv; ++key)
        sum += double{problem.V(bh, key, column)};
      const double mean = shape.n_kv == 0 ? 0.0 : sum / static_cast<double>(shape.n_kv);
      for (std::int64_t row = 0; row < shape.n_q; ++row)
        state.O(bh, row, column) = static_cast<float>(mean);
    }
  offer_wrong("the mean of V", state);

  if (rounded.O.size() == 0)
    return trial;
  const std::size_t middle = rounded.O.elements().size() / 2;
  const reference::Enclosed& right = truth.O.elements()[middle];
  const double bound = bounds.O.elements()[middle];
  constexpr double kFar = 64.0;
  const double edge = bound + right.radius + kFar * ulp_of(std::fabs(right.hi) + bound);
  const auto move = [&](const char* name, double by) {
    state.O = rounded.O;
    state.O.elements()[middle] = static_cast<float>(right.hi + by);
    offer_wrong(name, state);
  };
  move("one element 64 ulp above its bound", edge);
  move("one element 64 ulp below its bound", -edge);
  move("one element 64 bounds off", kFar * bound);
  return trial;
}

std::string to_string(const Element& e) {
  std::string place = e.output == "O" ? fmt::format("O[{},{},{}]", e.batch_head, e.row, e.column)
                                      : fmt::format("{}[{},{}]", e.output, e.batch_head, e.row);
  std::string text =
      std::isnan(e.got) ? place + " = nan" : fmt::format("{} = {:a} ({:.9g})", place, e.got, e.got);
  text += std::isnan(e.truth.hi) ? ", truth nan"
                                 : fmt::format(", truth {:.12g}", e.truth.hi + e.truth.lo);
  if (std::isfinite(e.error))
    text += fmt::format(", error {:.3g} ulp", e.ulps);
  if (std::isfinite(e.fraction()))
    text += fmt::format(" = {:.3g} of its bound", e.fraction());
  return text;
}

std::string to_string(const Verdict& verdict) {
  std::string text(name_of(verdict.judgement));
  if (!verdict.why.empty())
    text += ": " + verdict.why;
  if (!verdict.worst.output.empty())
    text += "; worst " + to_string(verdict.worst);
  return text;
}

} // namespace fa1::numerics
