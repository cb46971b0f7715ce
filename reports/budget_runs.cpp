#include "reports/budget_runs.hpp"

#include "numerics/ulp.hpp"
#include "reports/command.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fa1::reports {

Json budget_record(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                   numerics::BudgetRun run, unsigned threads) {
  if (kernel.mutant || !kernel.arithmetic.known)
    throw UsageError(
        fmt::format("kernel '{}': want one whose order of operations is known", kernel.id));
  if (kernel.arithmetic.contracted)
    throw UsageError(
        fmt::format("kernel '{}' fuses products and sums; want a plain one, such as {}", kernel.id,
                    kernel.variant));
  run.order = kernel.arithmetic.order;
  const numerics::StageBudget budget =
      numerics::stage_budget(reference::make_problem(recipe), run, threads);
  if (!budget.obstacle.empty())
    throw UsageError(fmt::format("budget: {}", budget.obstacle));
  const numerics::BudgetSummary summary = numerics::summarize(budget);

  Json stages = Json::array();
  double shares = 0.0;
  for (std::size_t i = 0; i < numerics::kBudgetStages; ++i) {
    const numerics::StagePart& part = summary.stages[i];
    stages.push_back({{"stage", numerics::name_of(static_cast<numerics::BudgetStage>(i))},
                      {"format", numerics::format_of(run.rounded[i]).id},
                      {"share", number(part.share)},
                      {"alone", number(part.alone)},
                      {"left", number(part.left)},
                      {"bias", number(part.bias)}});
    shares += part.share;
  }
  const bool all_fp32 = std::ranges::all_of(
      run.rounded, [](numerics::FormatId format) { return format == numerics::FormatId::fp32; });
  return {{"what", "budget"},
          {"recipe", reference::to_string(recipe)},
          {"variant", kernel.variant},
          {"Bc", run.Bc},
          {"elements", summary.elements},
          {"rms", number(summary.rms)},
          {"mean", number(summary.mean)},
          {"shares", number(shares)},
          {"unaccounted", number(summary.unaccounted)},
          {"largest_unaccounted", number(summary.largest_unaccounted)},
          {"second_order", all_fp32 ? number(budget.second_order() / numerics::kU) : Json()},
          {"stages", std::move(stages)}};
}

} // namespace fa1::reports
