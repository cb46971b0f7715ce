/// fa1lab precision RECIPE [--config NAME]... [--tile N] [--json]: what lower precision costs,
/// stage by stage.
/// fa1lab papers [--json]: what others published about it, measured again.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_precision(CLI::App& program);
Command add_papers(CLI::App& program);

} // namespace fa1::reports
