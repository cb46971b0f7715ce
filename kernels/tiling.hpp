/// How queries and keys are cut into parts, as all kernels and whoever counts after them do it.
///
/// parts           how many parts of a size a whole has, the last one perhaps smaller
/// tiles_of_range  the tiles [first, end) of one of the kKeyRanges ranges of keys; empty past the last
/// ranges_used     how many of these are not empty
/// Requires        sizes of at least 0, parts of at least 1
#pragma once

#include "kernels/instances.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace fa1::kernels {

constexpr std::int64_t parts(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

constexpr std::pair<std::int64_t, std::int64_t> tiles_of_range(std::int64_t tiles,
                                                               std::int64_t range) {
  const std::int64_t width = parts(tiles, kKeyRanges);
  return {std::min(range * width, tiles), std::min((range + 1) * width, tiles)};
}

constexpr std::int64_t ranges_used(std::int64_t tiles) {
  return tiles == 0 ? 0 : parts(tiles, parts(tiles, kKeyRanges));
}

} // namespace fa1::kernels
