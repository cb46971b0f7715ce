/// Measured worst cases, kept as data: numerics/ratchet.csv.
///
/// A test that measures how bad something gets compares with its row here; it fails when the
/// measurement is worse, and prints the line that would loosen the row. No test holds a tolerance
/// of its own.
///
/// A row is loosened by `fa1lab ratchet --update --reason TEXT` alone, which keeps the reason in
/// the file as a comment above the row. The file ends with a seal, a checksum of all before it, so
/// that a row changed by hand is an error.
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
#include <vector>

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

inline constexpr std::string_view kRatchetHeader = "key,worst,median,cases,how";

/// All rows in their order; the seal is checked where there is one.
std::vector<RatchetRow> ratchet_rows(const std::filesystem::path& file = ratchet_file());
/// The same of a file's text; `file` is for the message.
std::vector<RatchetRow> ratchet_rows_in(const std::string& text, const std::string& file);

RatchetRow ratchet(std::string_view key, const std::filesystem::path& file = ratchet_file());

/// The row as a line of the file, numbers rounded up to two digits.
std::string to_csv(const RatchetRow& row);

/// One line of the file as a row; throws std::runtime_error that begins with `where`.
RatchetRow row_from_csv(std::string_view line, const std::string& where);

/// What putting `now` in the place of `before` does.
enum class RatchetMove { same, tightens, loosens };

/// A row loosens where it admits more (worst, median), rests on fewer cases, or is of another
/// thing (`how`). Numbers are compared as the file would hold them.
RatchetMove move_of(const RatchetRow& before, const RatchetRow& now);

/// The file's text, sealed, with `now` in the place of the row of its key, or at the end where there
/// is none. `reason`, where it is not empty, becomes a comment above the row.
std::string with_row(const std::string& text, const RatchetRow& now, const std::string& reason);

/// Ends with a seal, and the right one.
bool is_sealed(const std::string& text);

/// A test leaves here what it measured, for `fa1lab ratchet --update`.
void note_measured(const RatchetRow& row);
std::filesystem::path measured_folder();

} // namespace fa1::numerics
