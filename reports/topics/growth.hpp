/// The page on growth: how the errors of fa1 grow with everything they may grow with, beside what was
/// predicted (numerics/growth.hpp).
///
/// Slopes    least squares on log-log axes over all problems, 95 % interval (sweep.hpp's log_log_slope), of the RMS
///           error in u sum p|v|; beside it the same slope of the RMS error that expectation.hpp predicts for these
///           very problems, and of the closed form where V is of one sign
/// Kernel    reference/tiled_mirror.hpp, bit for bit fa1 with tiles of any width; grades are of the kernels themselves
/// Heavy     1/16 of the keys, 6 above the rest: they carry 96 % of the weight
#pragma once

#include "reports/topics.hpp"

namespace fa1::reports {

Json measure_growth(const TopicAmount& amount);

} // namespace fa1::reports
