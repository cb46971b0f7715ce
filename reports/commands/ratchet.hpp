/// fa1lab ratchet [--update [ROW ...] [--reason TEXT]]: the measured worst cases, shown or changed.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_ratchet(CLI::App& program);

} // namespace fa1::reports
