/// The kill matrix: every law and every gate on every specimen of the zoo, spread over the cores.
///
/// Each pair runs in a process of its own, so a kernel that crashes is caught by the law that ran it,
/// and what it did to its memory harms no other. Results do not depend on the number of cores, times
/// aside.
#pragma once

#include "properties/zoo.hpp"
#include "reports/records.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

struct ZooRow {
  properties::Specimen specimen;
  std::vector<properties::Hunt> laws; ///< in the order of all_invariants()
  std::vector<bool> gates;            ///< in the order of all_gates(): true where it rejects
  bool shows = true;                  ///< false: O alone is looked at, and the fault is not in it

  int kills() const;
  /// The law that needed the fewest cases; -1 where none killed.
  int quickest() const;
  bool killed_by_its_law() const;
  /// Killed, or an expected survivor that no law kills.
  bool as_expected() const;
};

struct Zoo {
  std::vector<ZooRow> wrong, right;

  /// Wrong kernels that only this law kills.
  std::vector<std::string> only_killed_by(std::size_t law) const;
  /// Of the faults that the order of threads does not decide, that a stranger promised not to have,
  /// and that show in what it gives, the part that some law catches.
  double part_caught() const;
  bool no_false_alarm() const;
  /// Nothing survives that its row does not say, and no right kernel was found wrong.
  bool as_expected() const;
};

/// Of strangers so much is to be caught, by what they give; of FA1 with its insides known everything.
inline constexpr double kPartOfStrangers = 0.95, kPartFromOAlone = 0.9;

/// Empty rows for all specimens of this build. `stranger`: empty, or what is left of them when their
/// insides are forgotten, as in kernels::as_stranger: o, olm.
Zoo whole_zoo(std::string_view stranger = {});

/// Of a wrong kernel: what every law says, or the laws in turn until one kills, which takes a third of
/// the time and leaves the rest as not asked.
enum class Until { every_law, first_kill };

/// Fills the rows: at most `cases` on each tile for each law.
Zoo visit(Zoo zoo, int cases, std::uint64_t seed, Until until = Until::every_law);

/// The matrix for a terminal, with its legend.
void print(std::ostream& out, const Zoo& zoo);
/// One record a specimen, one a law, one a gate.
Json to_json(const Zoo& zoo, int cases, std::uint64_t seed, Times times);

} // namespace fa1::reports
