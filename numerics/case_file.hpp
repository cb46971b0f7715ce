/// One problem that a search found, kept as a file: numerics/hall_of_fame/KERNEL.N.d.OBJECTIVE.json.
///
/// Holds     kernel, objective, the recipe, the entries that were changed after it, in the order of their
///           places, values as hexadecimal floats; error and bound in u sum p|v|, and their quotient,
///           each to kCaseDigits digits; and, for each search that had a part in it, the command, its
///           seed and its evaluations. A command that says --from, or --out where there was a file,
///           went on from what the one before it had found
/// Replay    `fa1lab repro FILE` and `fa1lab run FILE`: the recipe with the changes as its `put`
/// Same      written and read again it is equal, byte for byte
/// Writes    beside the file and then over it, so that a file is old or new and never half
/// Errors    CaseFileError: one line, which file, what was found and what would be right
#pragma once

#include "numerics/search.hpp"

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa1::numerics {

class CaseFileError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr int kCaseDigits = 6;

struct FoundBy {
  std::string command;
  std::uint64_t seed = 1;
  std::int64_t evaluations = 0;
};

struct FoundCase {
  reference::Recipe recipe; ///< with the changes in `put`
  std::string kernel;       ///< id of the instance
  Objective objective = Objective::error;
  Peak peak; ///< rounded to kCaseDigits
  std::vector<FoundBy> found;
};

/// Each number to the digits that a file holds.
Peak rounded(const Peak& peak);

std::string to_text(const FoundCase& found);
/// `where` begins the message.
FoundCase case_from_text(const std::string& text, const std::string& where);

FoundCase read_case(const std::filesystem::path& file);
void write_case(const std::filesystem::path& file, const FoundCase& found);

/// Throws where no file could be written in this folder; makes the folder where there is none.
void require_writable(const std::filesystem::path& folder);

/// `fa1.Br4xBc2xD4.cpu.N64.d4.error.json`
std::string case_file_name(const FoundCase& found);

/// The folder in the source tree that this was built from, and its files in the order of their names.
std::filesystem::path hall_of_fame();
std::vector<std::filesystem::path> hall_of_fame_files();

} // namespace fa1::numerics
