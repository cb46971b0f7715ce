/// Stage budgets as records, for the command `budget` and its page.
///
/// Record   what, recipe, variant, Bc, elements, rms, mean, shares (their sum), unaccounted, largest_unaccounted,
///          second_order (null where a stage is rounded to a coarser format), stages [{stage, format, share,
///          alone, left, bias}]; units as in numerics/stage_budget.hpp
/// Errors   UsageError where the kernel's order of operations is not known, or the input has no budget
#pragma once

#include "numerics/stage_budget.hpp"
#include "reports/records.hpp"

namespace fa1::reports {

/// `kernel` gives the order, `run` all else.
Json budget_record(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                   numerics::BudgetRun run, unsigned threads);

} // namespace fa1::reports
