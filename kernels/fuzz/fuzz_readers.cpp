// The entry of libFuzzer.
#include "kernels/fuzz/readers.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fa1::kernels::read_all(std::as_bytes(std::span(data, size)));
  return 0;
}
