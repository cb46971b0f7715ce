/// fa1lab compare OLD NEW [--json]: what got worse, better, new or lost.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_compare(CLI::App& program);

} // namespace fa1::reports
