/// What a command is asked about: an edge case by its id, a recipe, or a file that holds one; and the
/// kernel that shows an edge case.
///
/// Errors   UsageError of one line that names what was found and what would be right
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/edge_cases.hpp"
#include "reference/recipe.hpp"
#include "reports/arguments.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace fa1::reports {

/// nullptr where no edge case has this id.
const numerics::EdgeCase* edge_case_named(std::string_view id);

/// The recipe that `what` is (it holds `=`), that of an edge case, the first one in the file of that name,
/// or that of a case file (numerics/case_file.hpp), which begins with a brace. The kernel of a case file
/// becomes `choice.kernel` where no kernel was chosen.
reference::Recipe recipe_of(const std::string& what, KernelChoice& choice);

/// The problem of a shrunk case (numerics/shrunk_case.hpp), and its kernel as `choice.kernel` where none was chosen;
/// nothing where `what` is no safetensors file of `fa1lab shrink`. recipe_of reads such a file, too, as a recipe of
/// explicit entries, but for one whose batch-heads differ.
std::optional<reference::Problem> shrunk_problem(const std::string& what, KernelChoice& choice);

/// `named` where it can express the case or `asked` is its whole id; else the instance that `asked` is a
/// part of, on `backend`, that can; else `named`.
const kernels::Kernel& with_tile_of(const numerics::EdgeCase& edge_case,
                                    const kernels::Kernel& named, const std::string& asked,
                                    kernels::Backend backend);

} // namespace fa1::reports
