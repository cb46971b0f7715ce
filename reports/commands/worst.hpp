/// fa1lab worst RECIPE [--kernel ID] [--objective error|bound] [--seconds S | --evaluations N] [--out FOLDER]: the
/// problem of this shape on which the kernel errs most (numerics/search.hpp).
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_worst(CLI::App& program);

} // namespace fa1::reports
