/// fa1lab trace ID|RECIPE|FILE [--kernel K] --out FILE.html [--json]: one page on which the data of a
/// small run moves between HBM and SRAM, step by step.
///
/// Status   1 where a step is proved wrong, but for the documented limits of the FA1 recurrence
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_trace(CLI::App& program);

} // namespace fa1::reports
