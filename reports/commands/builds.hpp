/// fa1lab builds: what compiler options do to the kernels.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_builds(CLI::App& program);

} // namespace fa1::reports
