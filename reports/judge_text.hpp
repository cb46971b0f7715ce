/// What `fa1lab judge` says to people; the Python package prints the same.
///
/// print        every line of a record; colours where it is `coloured` and standard output takes them
/// hexadecimal  a number as text; Inf and NaN by their names
#pragma once

#include "numerics/judge.hpp"

#include <ostream>
#include <string>

namespace fa1::reports {

void print(std::ostream& out, const numerics::JudgeRecord& record, bool coloured);

std::string hexadecimal(double x);

} // namespace fa1::reports
