/// Page: whether the error of each kernel leans to one side (numerics/bias.hpp), and why equal values drift
/// (numerics/drift.hpp).
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_bias_meter(const TopicAmount& amount);

} // namespace fa1::reports
