/// What people read of one run, alike in every command: lines with a label, and a verdict in its colour.
#pragma once

#include "numerics/verdict.hpp"

#include <ostream>
#include <string>
#include <string_view>

namespace fa1::reports {

/// The label in a column of its own.
void print_line(std::ostream& out, std::string_view label, std::string_view text, int width = 9);

/// `proved wrong: its error is beyond its bound`; `why` may be empty.
std::string verdict_text(numerics::Judgement judgement, std::string_view why);
/// The same with the judgement in its colour.
std::string painted_verdict(numerics::Judgement judgement, std::string_view why);

} // namespace fa1::reports
