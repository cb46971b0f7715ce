#include "numerics/low_precision.hpp"

#include "reference/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace fa1::numerics {
namespace {

bool holds(const Format& format, std::span<const float> values) {
  return std::ranges::all_of(
      values, [&](float x) { return std::isnan(x) || round_to(format, double{x}) == x; });
}

constexpr std::array kDeclared{
    Declared{"fp32", FormatId::fp32, false, "products and sums in fp32, inputs as they are"},
    Declared{"tf32", FormatId::tf32, true,
             "Q, K, V and p rounded or cut to TF32 where they are multiplied, sums in fp32"},
    Declared{"bf16-inputs", FormatId::bf16, false,
             "Q, K and V are bfloat16, p is rounded to it, sums in fp32"},
    Declared{"fp16-inputs", FormatId::fp16, false,
             "Q, K and V are fp16, p is rounded to it, sums in fp32"},
    Declared{"e4m3-inputs", FormatId::e4m3, false,
             "Q, K and V are fp8 (e4m3), p is rounded to it, sums in fp32"},
    Declared{"e5m2-inputs", FormatId::e5m2, false,
             "Q, K and V are fp8 (e5m2), p is rounded to it, sums in fp32"},
};

} // namespace

std::span<const Declared> all_declared() { return kDeclared; }

const Declared* find_declared(std::string_view id) {
  const auto* const found = std::ranges::find(kDeclared, id, &Declared::id);
  return found == kDeclared.end() ? nullptr : found;
}

Rounding rounding_of(const Format& format, bool truncates) {
  if (format.id == format_of(FormatId::fp32).id)
    return {};
  const double ulps = truncates ? 2.0 : 1.0; // in halves
  return {ulps * format.u(), ulps * format.smallest() / 2.0};
}

LowPrecision roundings_of(const Declared& declared, const reference::Problem& problem) {
  const Format& format = format_of(declared.inputs);
  const Rounding once = rounding_of(format, declared.truncates);
  const auto of = [&](const reference::Tensor<float>& values) {
    return holds(format, values.elements()) ? Rounding{} : once;
  };
  return {of(problem.Q), of(problem.K), of(problem.V), once, problem.shape.n_kv};
}

void round_output(Bounds& bounds, const reference::Truth& truth, const Format& format) {
  const Rounding once = rounding_of(format);
  if (once.relative == 0.0 || !bounds.obstacle.empty())
    return;
  for (std::size_t e = 0; e < bounds.O.elements().size(); ++e) {
    const double o = std::fabs(truth.O.elements()[e].hi);
    if (!std::isfinite(o)) // compared for equality
      continue;
    double& bound = bounds.O.elements()[e];
    if (o + bound >= format.largest() && std::isfinite(bound)) {
      bounds.obstacle = "O may reach the largest number of " + std::string(format.id);
      return;
    }
    bound = (bound * (1.0 + once.relative) + once.relative * o + once.tiny) * kEvaluationSlack;
    bounds.expected.elements()[e] += once.relative * o + once.tiny;
  }
}

} // namespace fa1::numerics
