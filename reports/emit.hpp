/// A shrunk problem as one source file that needs nothing of ours.
///
/// emitted    the text: inputs as hexadecimal floats, what is right and how far from it a right output may be, a plain
///            right attention() to be replaced, and a comparison that prints PASS or FAIL and ends with status 0 or 1
/// Languages  c: C99, math.h and stdio.h, `cc FILE -lm`. cuda: the same with a __global__ function, `nvcc FILE`; status 3
///            without a device. python: no module but math and sys
/// Compared   O; and LSE = m + ln l where the fault is one of l and m
/// Exact      numbers read as they were: every float is a hexadecimal float, NaN and Inf by their names
/// To change  the texts are templates/case.{c,cu,py}.mustache
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/shrink.hpp"

#include <string>
#include <string_view>

namespace fa1::reports {

enum class Language { c, cuda, python };

std::string_view ending_of(Language language); ///< `.c`
/// What runs `file`: `cc FILE -lm && ./a.out`.
std::string build_of(Language language, std::string_view file);

/// `file` is how the text calls itself.
std::string emitted(Language language, const numerics::Shrunk& shrunk,
                    const kernels::Kernel& kernel, const std::string& shrunk_from,
                    const std::string& file);

} // namespace fa1::reports
