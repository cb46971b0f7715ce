/// Why an output in a file is wrong, as far as the files alone can tell.
///
/// triage    where NaN and Inf stand in O and which input they can come from
/// reasons   readings of the files under which the output would be right (another layout, arrays in another
///           order, another sharing of KV heads, another mask, another convention for rows without a key, an LSE to
///           base 2), and the faults of diagnosis_faults.hpp whose wrong answer this is. Under a mask those are looked
///           for in the rows of the worst element's head that may see the same keys as its row
/// Requires  of reasons: an output that is proved wrong
#pragma once

#include "numerics/judge_files.hpp"
#include "numerics/masks.hpp"

#include <string>
#include <vector>

namespace fa1::numerics {

/// Given what happens to the scores, too.
using ChangedBoundsOf =
    std::function<Bounds(const reference::Problem&, const reference::Truth&, const ScoreChange&)>;

/// What was judged, and how.
struct Case {
  const JudgeInput& input;
  const Quartet& files;
  const Mask& mask;
  const MaskOptions& asked; ///< as it came, for arrays of other shapes
  Layout layout;
  float scale;
  bool base2_LSE;
  const ChangedBoundsOf& bounds_of;
};

/// Empty where O is finite. Else which inputs can make its first NaN or Inf, or that none can.
std::vector<std::string> triage(const Quartet& files, const Mask& mask, reference::Dtype output,
                                const NotFinite& O, const NotFinite& Q, const NotFinite& K,
                                const NotFinite& V);

std::vector<std::string> reasons(const Case& judged, std::size_t output, const Judged& worst);

} // namespace fa1::numerics
