/// fa1lab check [--kernel K|all] [--cases N] [--seed S] [--json]: all invariants on one kernel, or on all of them.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_check(CLI::App& program);

} // namespace fa1::reports
