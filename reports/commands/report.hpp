/// fa1lab report [--quick|--full] [--out DIR]: the error report, one self-contained page with its data beside it.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_report(CLI::App& program);

} // namespace fa1::reports
