#include "reports/telling.hpp"

#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

namespace fa1::reports {

void print_line(std::ostream& out, std::string_view label, std::string_view text, int width) {
  fmt::print(out, "{:<{}} {}\n", label, width, text);
}

namespace {

std::string with_reason(std::string_view judgement, std::string_view why) {
  return fmt::format("{}{}{}", judgement, why.empty() ? "" : ": ", why);
}

} // namespace

std::string verdict_text(numerics::Judgement judgement, std::string_view why) {
  return with_reason(numerics::name_of(judgement), why);
}

std::string painted_verdict(numerics::Judgement judgement, std::string_view why) {
  const Colour colour = judgement == numerics::Judgement::proved_right   ? Colour::good
                        : judgement == numerics::Judgement::proved_wrong ? Colour::bad
                                                                         : Colour::warning;
  return with_reason(painted(numerics::name_of(judgement), colour), why);
}

} // namespace fa1::reports
