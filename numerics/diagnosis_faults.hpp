/// The wrong answers that known faults give, in closed form.
///
/// Computes  for one query row: O as a kernel with that fault would give it, in double; the same
///           with |v_j| in the place of v_j (the unit of its rounding errors); and m + ln l
/// Requires  finite inputs, scores that do not overflow, n_kv >= 1
/// Special   LSE is NaN where the fault says nothing of it
/// To add    one row of the table in diagnosis_faults.cpp
#pragma once

#include "numerics/trace.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace fa1::numerics {

/// One query row, and what a fault may depend on.
struct Asked {
  const reference::Problem& problem;
  QueryRow at;
  std::span<const double> dots; ///< q . k_j, exact but for roundings of double
  std::int64_t Bc = 1;          ///< keys of a tile
  std::int64_t Br = 1;          ///< rows of a block
  std::int64_t D = 1;           ///< columns to which Q and K are padded
};

struct WrongRow {
  std::vector<double> O, size; ///< [dv]
  double LSE = std::numeric_limits<double>::quiet_NaN();
  double stretch = 1.0; ///< how many times larger errors of a score are than in the right answer
  /// What one rounding to low precision that falls the other way may move, relative to `size`.
  double grain = 0.0;
};

struct FaultPattern {
  std::string_view name, says;
  bool of_tiles = false; ///< depends on Bc
  WrongRow (*answer)(const Asked&) = nullptr;
};

/// Some names stand twice: the same fault, written in two ways.
std::span<const FaultPattern> all_faults();

/// q . k_j for all keys.
std::vector<double> dots_of(const reference::Problem& problem, QueryRow at);

} // namespace fa1::numerics
