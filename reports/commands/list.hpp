/// fa1lab list kernels|invariants|cases|inputs|formats [--json]: what there is, one a line.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_list(CLI::App& program);

} // namespace fa1::reports
