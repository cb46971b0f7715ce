/// False alarms: how often the oracles speak up against kernels that are right.
///
/// Computes  verdicts (numerics/verdict.hpp) over generated problems of all families, counted
/// Expects   no `proved wrong` at all: the bound is a theorem. `suspicious` means beyond kLambda times
///           the expectation of bounds.hpp, which adds the roundings of all keys where independent
///           ones would add in quadrature: were it the standard deviation of a normal error, one
///           element in 1.7 million would be; it is an upper estimate, so fewer are
/// Needs     one call at a time in a process (RapidCheck's global state)
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/verdict.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace fa1::properties {

struct Alarms {
  std::int64_t cases = 0, declined = 0;
  std::array<std::int64_t, 4> verdicts{};    ///< by Judgement
  std::array<std::int64_t, 4> elements{};    ///< by Judgement; of O, l and LSE
  double worst_fraction = 0.0;               ///< of the bound, where there is one
  double worst_expected = 0.0;               ///< error of O over its expectation
  std::string first_wrong, first_suspicious; ///< recipes

  Alarms& operator+=(const Alarms& others);
};

/// `cases` problems drawn by RapidCheck for this kernel's shapes.
Alarms count_alarms(const kernels::Kernel& kernel, int cases, std::uint64_t seed);

} // namespace fa1::properties
