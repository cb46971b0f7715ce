/// The smallest fault that laws and gates see: a table over what is off and by how much.
#pragma once

#include "properties/sensitivity.hpp"

#include <array>
#include <cstdint>
#include <iosfwd>
#include <vector>

namespace fa1::reports {

inline constexpr int kSmallestExponent = -23, kLargestExponent = -4;

/// The exponent of the smallest power of two that is caught with 95 % probability in 100 cases;
/// kUnseen where not even 2^kLargestExponent is.
inline constexpr int kUnseen = kLargestExponent + 1;

struct SensitivityRow {
  properties::Injection injection;
  std::array<int, properties::kKnownIds.size()> laws{}; ///< by what is known of the kernel
  std::vector<int> gates;                               ///< in the order of all_gates()
};

std::vector<SensitivityRow> measure_sensitivity(int cases, std::uint64_t seed);

void print(std::ostream& out, const std::vector<SensitivityRow>& rows, int cases);
void print_json(std::ostream& out, const std::vector<SensitivityRow>& rows, int cases,
                std::uint64_t seed);

} // namespace fa1::reports
