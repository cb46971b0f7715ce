/// The page on real heads: error, bound, entropy, new maxima and condition on the recorded heads (reference/recorded.hpp)
/// beside the synthetic families in the same shape.
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_recorded(const TopicAmount& amount);

} // namespace fa1::reports
