// The entry of libFuzzer.
#include "reports/fuzz/readers.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fa1::reports::read_all(std::as_bytes(std::span(data, size)));
  return 0;
}
