/// What a fuzzer, and a test with fixed inputs, does with a hostile case file.
///
/// read_all   the text is read, and written and read again it is equal, byte for byte; or it is refused by a
///            CaseFileError of one line; throws where something else happens
#pragma once

#include <cstddef>
#include <span>

namespace fa1::numerics {

void read_all(std::span<const std::byte> case_file);

} // namespace fa1::numerics
