/// fa1lab bias [RECIPE] [--kernel ID]... [--seeds N] [--seed S] [--json]: does a kernel's error lean to one side?
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_bias(CLI::App& program);

} // namespace fa1::reports
