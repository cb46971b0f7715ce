/// The page on what lower precision would cost: every configuration of numerics/emulation.hpp, its error split into that of the
/// rounded inputs and that of the arithmetic, and how the latter grows with the keys.
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_precision(const TopicAmount& amount);

} // namespace fa1::reports
