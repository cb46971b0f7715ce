/// fa1lab shrink: the smallest problem on which a kernel is wrong in the same way (numerics/shrink.hpp), as a file to
/// mail and as a source that runs anywhere.
///
/// Input    a recipe, an edge case, a case file of `worst` or of `shrink`; or Q K V in files, three or one that holds
///          them all. An output in the files is not looked at: it could not be asked again on a smaller problem, so a
///          kernel that can be run is always wanted. Files without one are refused
/// Status   0 where nothing is proved wrong, so that there is nothing to shrink and no file is written; 1 where the
///          shrunk problem is wrong, which it always is; 2 bad input; 3 no CUDA device
#pragma once

#include "reports/command.hpp"

namespace fa1::reports {

Command add_shrink(CLI::App& program);

} // namespace fa1::reports
