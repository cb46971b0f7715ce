/// fa1lab merge FILES --out FILE: the parts of a sweep as one file.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_merge(CLI::App& program);

} // namespace fa1::reports
