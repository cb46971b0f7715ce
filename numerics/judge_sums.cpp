#include "numerics/judge_sums.hpp"

#include "numerics/diagnosis_faults.hpp"
#include "numerics/error.hpp"
#include "numerics/ulp.hpp"

#include <algorithm>
#include <cmath>

namespace fa1::numerics {
namespace {

Spread spread_of(std::vector<double> values) {
  if (values.empty())
    return {};
  std::ranges::sort(values);
  return {values.front(), values[values.size() / 2], values.back()};
}

} // namespace

void ErrorSums::add(double error, double weighted, double ulps, double fraction) {
  ++errors_.elements;
  if (weighted > 0.0) {
    const double relative = error / (kU * weighted);
    raise(errors_.max_relative, std::fabs(relative));
    squares_ += relative * relative;
    sum_ += relative;
  }
  raise(errors_.max_ulp, ulps);
  raise(errors_.max_fraction, fraction);
}

JudgedErrors ErrorSums::result() const {
  JudgedErrors errors = errors_;
  const auto n = static_cast<double>(std::max<std::int64_t>(1, errors.elements));
  errors.rms_relative = std::sqrt(squares_ / n);
  errors.mean_relative = sum_ / n;
  return errors;
}

void RowSums::add(const reference::Problem& problem, const reference::Truth& truth,
                  const Bounds& bounds,
                  const std::function<void(std::int64_t r, const JudgedRow& row)>& tell) {
  for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const double lse = truth.LSE[at].hi;
    if (!std::isfinite(lse) || problem.shape.n_kv == 0)
      continue;
    double mean_score = 0.0;
    for (const double dot : dots_of(problem, {0, r})) {
      const double s = dot * double{problem.scale}, p = std::exp(s - lse);
      mean_score += p > 0.0 ? p * s : 0.0;
    }
    max_score_.push_back(truth.m[at].hi);
    entropy_.push_back(std::max(0.0, lse - mean_score));
    double condition = 0.0;
    for (std::int64_t c = 0; c < problem.shape.dv; ++c)
      condition = std::max(condition, bounds.weighted(0, r, c) / std::fabs(truth.O(0, r, c).hi));
    condition_.push_back(condition);
    if (tell)
      tell(r, {0, 0, 0, max_score_.back(), entropy_.back(), condition});
  }
}

RowStatistics RowSums::result() const {
  return {static_cast<std::int64_t>(entropy_.size()), spread_of(max_score_), spread_of(entropy_),
          spread_of(condition_)};
}

void OutputSums::hear(const Verdict& verdict, const Judged& worst) {
  for (std::size_t i = 0; i < output_.elements.size(); ++i)
    output_.elements[i] += verdict.elements[i];
  if (verdict.worst.output.empty())
    return;
  const bool graver = verdict.judgement > output_.judgement;
  const bool closer = verdict.judgement == output_.judgement &&
                      !(worst.fraction <= (output_.worst ? output_.worst->fraction : -1.0));
  if (graver || closer || !output_.worst) {
    output_.judgement = std::max(output_.judgement, verdict.judgement);
    output_.why = verdict.why;
    output_.worst = worst;
  }
}

void OutputSums::wrong(const Judged& element) {
  auto& ten = output_.worst_ten;
  const auto farther = [](const Judged& a, const Judged& b) {
    return std::isnan(a.fraction) ? !std::isnan(b.fraction) : a.fraction > b.fraction;
  };
  if (element.output == "O" && (!output_.wrong_O || farther(element, *output_.wrong_O)))
    output_.wrong_O = element;
  ten.insert(std::ranges::upper_bound(ten, element, farther), element);
  if (ten.size() > kWorstShown)
    ten.pop_back();
}

JudgedOutput OutputSums::result() const {
  JudgedOutput output = output_;
  output.errors = sums_.result();
  return output;
}

} // namespace fa1::numerics
