/// fa1lab check [--kernel K|all|all.BUILD] [--cases N] [--seed S] [--json [--by-build]]: all invariants on one
/// kernel, on all of them, or on all of a build.
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_check(CLI::App& program);

} // namespace fa1::reports
