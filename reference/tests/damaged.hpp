/// The fuzzers' seeds as a test reads them: each as it is, cut anywhere, and with any byte changed.
#pragma once

#include "reference/tests/file_bytes.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace fa1::reference {

/// Returns the number of seeds in the folder. What `read` throws fails the test.
inline int read_damaged_seeds(const std::filesystem::path& folder,
                              const std::function<void(std::span<const std::byte> bytes)>& read) {
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++seeds;
    const std::string seed = read_file(entry.path().string());
    const auto try_one = [&](const std::string& bytes) {
      try {
        read(std::as_bytes(std::span(bytes)));
      } catch (const std::exception& error) {
        FAIL_CHECK(entry.path() << ": " << error.what());
      }
    };
    try_one(seed);
    for (std::size_t at = 0; at < seed.size(); ++at) {
      try_one(seed.substr(0, at));
      for (const int change : {0x01, 0xff}) {
        std::string changed = seed;
        changed[at] = static_cast<char>(changed[at] ^ change);
        try_one(changed);
      }
    }
  }
  return seeds;
}

} // namespace fa1::reference
