/// The page on published results beside ours: the rows of numerics/papers.hpp, over few shapes or, in a full report,
/// over all.
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_papers(const TopicAmount& amount);

} // namespace fa1::reports
