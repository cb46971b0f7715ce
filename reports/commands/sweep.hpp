/// fa1lab sweep --vary KEY=LIST ... RECIPE [--kernel K] [--out FILE] [--shard i/n] [--json]:
/// one record for each point of a grid.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_sweep(CLI::App& program);

} // namespace fa1::reports
