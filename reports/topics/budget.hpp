/// Page: which stage of the recurrence the error of O comes from, for families of inputs, numbers of keys and
/// kernels (numerics/stage_budget.hpp).
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_budget(const TopicAmount& amount);

} // namespace fa1::reports
