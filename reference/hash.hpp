/// A 64-bit hash of a text, the same on every machine (std::hash is not): FNV-1a. It tells texts apart
/// that nobody chose to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace fa1::reference {

constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return hash;
}

} // namespace fa1::reference
