/// Measured worst cases, kept as data: numerics/ratchet.csv.
///
/// A test that measures how bad something gets compares with its row here; it fails when the
/// measurement is worse, and prints the line that would loosen the row. No test holds a tolerance
/// of its own.
///
/// Columns   key, worst, median, cases, how (what was measured and the seed, enough to repeat it)
/// Units     worst and median are fractions of the bound unless `how` says otherwise
/// Errors    std::runtime_error naming the file and line of what cannot be read, or the key that is
///           missing
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace fa1::numerics {

struct RatchetRow {
  std::string key;
  double worst = 0.0;
  double median = 0.0;
  std::int64_t cases = 0;
  std::string how;
};

/// The file in the source tree this was built from.
std::filesystem::path ratchet_file();

RatchetRow ratchet(std::string_view key, const std::filesystem::path& file = ratchet_file());

/// The row as a line of the file, numbers rounded up to two digits.
std::string to_csv(const RatchetRow& row);

} // namespace fa1::numerics
