/// fa1lab run RECIPE [--kernel K] [--json]: one run on one kernel: verdict, worst element, timing.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_run(CLI::App& program);

} // namespace fa1::reports
