/// The file of a sweep: a first line that says which sweep it is and what program made it, then one
/// record a line, one for each point, in their order.
///
/// SweepTitle    what the first line says. Two files belong together where all but the shard agree
/// SweepLog      the file of a running sweep: what is there is read and checked, a last line
///               without its end is dropped, and new records are appended. Started again, it goes on
/// merge         the files of all shards as the one file that the sweep without shards writes, byte
///               for byte
/// Points        are numbered from 1; shard i of n has the points i, i + n, i + 2 n, ...
/// Memory        one line at a time
/// Errors        UsageError naming the file and the line, or the point that is twice or never
///               there. Nothing is written before everything that is there has been found sound
#pragma once

#include "numerics/sweep.hpp"
#include "reports/output.hpp"
#include "reports/records.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fa1::reports {

struct Shard {
  std::uint64_t which = 1, of = 1; ///< from 1
  std::uint64_t points(std::uint64_t all) const { return (all + of - which) / of; }
  /// The number, from 1, of the k-th point of this shard, k from 0.
  std::uint64_t point(std::uint64_t k) const { return which + k * of; }
};

/// `i/n`; throws UsageError.
Shard shard_from(std::string_view text);

/// The first line without its end. `kernel` as a command line names it; empty where it is varied.
Json sweep_title(const std::string& recipe, const std::vector<numerics::Axis>& axes,
                 const std::string& kernel, const numerics::Grid& grid, const Shard& shard);

/// `point 17 (n_kv=64 d=8)`, from 1.
std::string point_in_words(const numerics::Grid& grid, std::uint64_t number);

/// A record that was found; `number` is its point's.
using SeenRecord = std::function<void(std::uint64_t number, const Json& record)>;

class SweepLog {
public:
  /// Reads what is there and calls `seen` with each record.
  SweepLog(const std::filesystem::path& path, const Json& title, const numerics::Grid& grid,
           const Shard& shard, const SeenRecord& seen);

  std::uint64_t done() const { return done_; } ///< points of this shard that are there
  void append(const Json& record);
  void finish() { file_.synchronise(); }

private:
  /// Counts the records into done_; returns the bytes up to the last whole line.
  std::int64_t check(const std::string& path, const Json& title, const numerics::Grid& grid,
                     const Shard& shard, const SeenRecord& seen);

  GrowingFile file_;
  std::uint64_t done_ = 0;
};

/// Returns the number of points; `seen` is called with each record.
std::uint64_t merge(const std::vector<std::string>& files, const std::string& out,
                    const SeenRecord& seen);

/// True for the first line of a sweep's file.
bool is_sweep_title(const Json& line);

} // namespace fa1::reports
