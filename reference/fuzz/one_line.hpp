/// A refusal is one line, whatever was read: what every fuzzer asks.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fa1::reference {

/// Throws std::logic_error where what is said is not one line.
inline void require_one_line(const std::exception& complaint) {
  const std::string_view says = complaint.what();
  if (says.empty() || says.find('\n') != std::string_view::npos)
    throw std::logic_error("a complaint that is not one line: " + std::string(says));
}

} // namespace fa1::reference
