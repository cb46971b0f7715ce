/// fa1lab bench [--keys N] [--d D] [--min-time S] [--filter REGEX] [--json]: what the truth costs, against other references.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_bench(CLI::App& program);

} // namespace fa1::reports
