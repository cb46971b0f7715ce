/// The smallest precision fault that two statistical screens see, both on the same problems.
///
/// Fault     every entry of K, or of V, times 1 + size xi before the kernel sees it, xi uniform in [-1, 1]: what
///           a silent conversion of an input to fewer bits does
/// by_lambda an element of O beyond kLambda times the expectation of bounds.hpp, which adds absolute values
///           over the keys
/// by_squares the sum of squares of the errors of O beyond squares_allowed of the variances of expectation.hpp, which
///           follows the recurrence rounding by rounding
/// Seen      on each of `problems` problems, which are those of the recipe with seeds from 1 on
/// Size      told as what the fault alone does to O: RMS of O^(faulty) - O^(right) in u sum p|v|. Sizes tried are
///           2^(1/4) apart
/// Requires  a recipe that meets the conditions of bounds.hpp; the kernel is fa1 (tiled_mirror.hpp)
#pragma once

#include <cstdint>
#include <string>

namespace fa1::numerics {

enum class FaultyInput { K, V };

struct SmallestFaults {
  double right = 0.0;      ///< RMS error of the right kernel, u sum p|v|
  double by_lambda = 0.0;  ///< RMS of the smallest fault seen; infinite where none is
  double by_squares = 0.0; ///< the same
  int false_alarms = 0;    ///< of either screen on the right kernel
};

SmallestFaults smallest_faults(const std::string& recipe, std::int64_t Bc, FaultyInput where,
                               int problems);

} // namespace fa1::numerics
