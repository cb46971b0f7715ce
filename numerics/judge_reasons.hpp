/// Why an output in a file is wrong, as far as the files alone can tell.
///
/// triage    where NaN and Inf stand in O and which input they can come from
/// reasons   readings of the files under which the output would be right (another layout, arrays in another
///           order, another sharing of KV heads, an LSE to base 2), and the faults of diagnosis_faults.hpp whose
///           wrong answer this is
/// Requires  of reasons: an output that is proved wrong
#pragma once

#include "numerics/judge_files.hpp"

#include <string>
#include <vector>

namespace fa1::numerics {

/// Empty where O is finite. Else which inputs can make its first NaN or Inf, or that none can.
std::vector<std::string> triage(const Quartet& files, reference::Dtype output, const NotFinite& O,
                                const NotFinite& Q, const NotFinite& K, const NotFinite& V);

std::vector<std::string> reasons(const JudgeInput& input, const Quartet& files, std::size_t output,
                                 const Judged& worst, Layout layout, float scale, bool base2_LSE,
                                 const BoundsOf& bounds_of);

} // namespace fa1::numerics
