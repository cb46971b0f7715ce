/// Which right kernel a wrong one, or one written otherwise, is held beside.
///
/// original_of(variant)  mutant.NAME: the variant whose text NAME.edit changes; rewrite.NAME: fa1, whose
///                       recurrence it computes; any other variant itself
#pragma once

#include <string_view>

namespace fa1::kernels {

std::string_view original_of(std::string_view variant);

} // namespace fa1::kernels
