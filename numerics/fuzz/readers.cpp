#include "numerics/fuzz/readers.hpp"

#include "numerics/case_file.hpp"
#include "reference/fuzz/one_line.hpp"

#include <stdexcept>
#include <string>

namespace fa1::numerics {

void read_all(std::span<const std::byte> case_file) {
  try {
    const FoundCase found =
        case_from_text({reinterpret_cast<const char*>(case_file.data()), case_file.size()}, "case");
    const std::string written = to_text(found);
    if (to_text(case_from_text(written, "written")) != written)
      throw std::logic_error("written and read again it is another case: " + written);
  } catch (const CaseFileError& error) {
    reference::require_one_line(error);
  }
}

} // namespace fa1::numerics
