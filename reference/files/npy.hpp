/// NumPy's .npy: a magic word, a version, a header that is a Python dictionary, then the elements.
///
/// read_npy   the array of a file, or of a member of an archive
/// Accepts    versions 1, 2 and 3; descr f8, f4, f2, and for masks b1, u1, i1, i2, i4, i8, with < > = or |; either order of the
///            axes; any rank up to 32
/// Refuses    everything else, by name: structured and object arrays, `V2` (which is how bfloat16 is written by
///            ml_dtypes: nothing in the file says so), a header longer than 64 KiB, a key that is
///            missing, unknown or given twice, data that end early or go on after the last element
/// Errors     FileError
/// Source     numpy.lib.format (NEP 1)
#pragma once

#include "reference/files/array.hpp"

#include <memory>
#include <string>

namespace fa1::reference {

/// Longest prefix of a file that says how long the file must be.
inline constexpr std::uint64_t kLongestNpyHeader = std::uint64_t{64} << 10;

/// What the header says: `size` is the length of the whole file.
struct NpyHeader {
  Array array; ///< without a source
  std::uint64_t size = 0;
};

/// `prefix` holds the beginning of the file, all of it or kLongestNpyHeader and 12 bytes.
NpyHeader parse_npy_header(const std::string& name, std::span<const std::byte> prefix);

Array read_npy(std::shared_ptr<const Source> source);

} // namespace fa1::reference
