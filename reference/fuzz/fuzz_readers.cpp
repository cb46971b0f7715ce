// The entry of libFuzzer, for one format: FA1_FUZZ_FORMAT is npy, npz, safetensors or recipe.
#include "reference/fuzz/readers.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fa1::reference::read_all(FA1_FUZZ_FORMAT, std::as_bytes(std::span(data, size)));
  return 0;
}
