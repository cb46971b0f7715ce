/// The page `worst`: how far typical error, worst error found and bound lie apart (numerics/search.hpp).
///
/// Shows     for some kernels and numbers of keys, d = 4: the median and the worst of problems drawn at random, the
///           worst of as many that a search tried, and its bound; once for the error in u sum p|v|, once for
///           error/bound; and the cases that are kept in numerics/hall_of_fame
/// Requires  the source tree, where the hall of fame is
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_worst(const TopicAmount& amount);

} // namespace fa1::reports
