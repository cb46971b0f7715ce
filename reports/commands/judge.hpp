/// fa1lab judge Q K V O | FILE [--q NAME ...] [--html FILE]: outputs that somebody else's kernel wrote to files.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_judge(CLI::App& program);

} // namespace fa1::reports
