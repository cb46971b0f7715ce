/// What a fuzzer, and a test with fixed inputs, does with a hostile file of results.
///
/// read_all   the text is read as things, or refused by a UsageError of one line; throws where something else happens
#pragma once

#include <cstddef>
#include <span>

namespace fa1::reports {

void read_all(std::span<const std::byte> results);

} // namespace fa1::reports
