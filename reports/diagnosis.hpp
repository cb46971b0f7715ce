/// Where a wrong kernel goes wrong and what that looks like (numerics/diagnosis.hpp), as a record and as lines.
///
/// diagnosis_of      null where nothing is proved wrong; else {parts_at, where, keys, looks_like, suspects}
/// diagnosis_apart   the same in a process of its own, for a kernel that may crash; a GPU is asked in this one
/// lines_of          label and text, for people; no line for null
/// Errors            a kernel that fails while it is asked: the record says so under `parts_at`
#pragma once

#include "kernels/kernel.hpp"
#include "reference/recipe.hpp"
#include "reports/records.hpp"

#include <string>
#include <utility>
#include <vector>

namespace fa1::reports {

Json diagnosis_of(const reference::Problem& problem, const kernels::Kernel& kernel);
Json diagnosis_apart(const reference::Recipe& recipe, const kernels::Kernel& kernel);

std::vector<std::pair<std::string, std::string>> lines_of(const Json& diagnosis);

} // namespace fa1::reports
