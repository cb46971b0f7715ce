/// One shrunk problem as a file that can be mailed: what `fa1lab shrink --out FILE.safetensors` writes.
///
/// Tensors    q k v (F32), o (F32: what the kernel gave), and what is right: expected, radius, bound (F64, as o). Where
///            the kernel gives l and m also lse, lse_expected, lse_radius, lse_bound (F64, [bh, n]). A right output is
///            within bound + radius of what is expected. Of a kernel that failed there is no o
/// Metadata   `what` (kCaseWhat), kernel (its id), asked_by (the options that name it), scale (a hexadecimal float), fault, bound_of (whose bound it is),
///            shrunk_from, version; unless the kernel failed looks_like and, of the worst element, worst, error,
///            bound and radius
/// Others     `fa1lab judge FILE --scale S` reads the file, too, and so does the safetensors package
/// Right      expected is the certified truth rounded to double, and radius holds that rounding
/// Errors     CaseFileError: one line, which file, what was found, what would be right; reference::FileError of a file
///            that is no safetensors or cannot be written
#pragma once

#include "numerics/case_file.hpp"
#include "numerics/shrink.hpp"

#include <string>
#include <vector>

namespace fa1::numerics {

inline constexpr const char* kCaseWhat = "fa1lab shrunk case";

/// What is right, and how far from it a right output may be.
struct Expected {
  std::vector<double> value, radius, bound;

  double allowed(std::size_t at) const { return bound[at] + radius[at]; }
};
Expected expected_O(const WrongRun& run);
Expected expected_LSE(const WrongRun& run);

/// `any right fp32 kernel`, or the kernel by its id.
std::string bound_of(const WrongRun& run, const kernels::Kernel& kernel);

void write_shrunk_case(const std::string& path, const Shrunk& shrunk, const kernels::Kernel& kernel,
                       const std::string& shrunk_from);

struct ShrunkCase {
  reference::Problem problem;
  std::string kernel;   ///< an id; of a plug-in `plugin.NAME`, of a stranger `stranger.ID`
  std::string asked_by; ///< the options that name it: `--kernel ID`, `--plugin ./mine.so`
};
ShrunkCase read_shrunk_case(const std::string& path);

/// Is this a safetensors file whose metadata name it one? Throws only where one is broken.
bool is_shrunk_case(const std::string& path);

/// The problem as a recipe of explicit entries. Nothing where its batch-heads differ, which a recipe cannot say.
std::optional<reference::Recipe> recipe_of(const reference::Problem& problem);

} // namespace fa1::numerics
