// Claims about what a hostile plug-in says of itself.
#include "kernels/fuzz/readers.hpp"
#include "reference/tests/damaged.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <filesystem>
#include <span>

using namespace fa1;

TEST_CASE("The fuzzer's descriptions, each cut anywhere and with any byte changed, are read or "
          "refused by one line",
          "[kernels][plugin][quick]") {
  const int seeds = reference::read_damaged_seeds(
      std::filesystem::path(FA1_FUZZ_CORPUS) / "description",
      [](std::span<const std::byte> bytes) { kernels::read_all(bytes); });

  CHECK(seeds >= 6);
}
