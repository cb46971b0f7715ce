/// fa1lab budget RECIPE [--Bc N] [--kernel ID] [--rounded STAGE=FORMAT]... [--json]: which stage of the
/// recurrence the error of O comes from.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_budget(CLI::App& program);

} // namespace fa1::reports
