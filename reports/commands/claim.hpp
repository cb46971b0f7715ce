/// fa1lab claim 'error <= 3*u*sum_p_v for n_kv<=8192' [--seconds S | --evaluations N] [--seed N] [--json]: refuted by a
/// problem, or not by so many (numerics/claim.hpp).
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_claim(CLI::App& program);

} // namespace fa1::reports
