/// fa1lab exp [--on cpu|gpu] [--function NAME]... [--from X] [--to X] [--every N]: what an exponential answers for every
/// fp32 argument, against the exact value (numerics/exponential_errors.hpp).
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_exp(CLI::App& program);

} // namespace fa1::reports
