#include "reports/telling.hpp"

#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

namespace fa1::reports {

void print_line(std::ostream& out, std::string_view label, std::string_view text, int width) {
  fmt::print(out, "{:<{}} {}\n", label, width, text);
}

std::string painted_verdict(numerics::Judgement judgement, std::string_view why) {
  const Colour colour = judgement == numerics::Judgement::proved_right   ? Colour::good
                        : judgement == numerics::Judgement::proved_wrong ? Colour::bad
                                                                         : Colour::warning;
  return fmt::format("{}{}{}", painted(numerics::name_of(judgement), colour),
                     why.empty() ? "" : ": ", why);
}

} // namespace fa1::reports
