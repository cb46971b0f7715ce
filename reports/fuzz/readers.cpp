#include "reports/fuzz/readers.hpp"

#include "reference/fuzz/one_line.hpp"
#include "reports/command.hpp"
#include "reports/results.hpp"

namespace fa1::reports {

void read_all(std::span<const std::byte> results) {
  try {
    things_in({reinterpret_cast<const char*>(results.data()), results.size()}, "results");
  } catch (const UsageError& error) {
    reference::require_one_line(error);
  }
}

} // namespace fa1::reports
