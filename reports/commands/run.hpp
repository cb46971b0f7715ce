/// fa1lab run RECIPE [--kernel K] [--truth auto|cpu|gpu] [--out FILE] [--full-map FILE] [--json]: one run on one kernel:
/// verdict, worst element, timing.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_run(CLI::App& program);

} // namespace fa1::reports
