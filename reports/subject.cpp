#include "reports/subject.hpp"

#include "numerics/case_file.hpp"
#include "numerics/shrunk_case.hpp"
#include "reports/command.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace fa1::reports {
namespace {

using kernels::Kernel;

bool is_recipe(std::string_view text) {
  const auto start = text.find_first_not_of(" \t");
  return start != std::string_view::npos && text[start] != '#' &&
         text.find('=') != std::string_view::npos;
}

reference::Recipe recipe_in(const std::filesystem::path& path, KernelChoice& choice) {
  if (const std::optional<reference::Problem> problem = shrunk_problem(path.string(), choice)) {
    if (auto recipe = numerics::recipe_of(*problem))
      return std::move(*recipe);
    throw UsageError(fmt::format("file '{}': holds batch-heads that differ, which no recipe says; "
                                 "want `fa1lab repro` for it",
                                 path.string()));
  }
  std::ifstream file(path);
  if (!file)
    throw UsageError(fmt::format("file '{}' cannot be read", path.string()));
  if ((file >> std::ws).peek() == '{') {
    try {
      const numerics::FoundCase found = numerics::read_case(path);
      if (choice.kernel.empty() && choice.plugin.empty())
        choice.kernel = found.kernel;
      return found.recipe;
    } catch (const numerics::CaseFileError& error) {
      throw UsageError(error.what());
    }
  }
  for (std::string text; std::getline(file, text);) {
    if (!text.empty() && text.back() == '\r')
      text.pop_back();
    if (is_recipe(text))
      return recipe_from(text);
  }
  throw UsageError(fmt::format("file '{}' holds no recipe; want a line such as n_q=3 n_kv=70 d=5",
                               path.string()));
}

} // namespace

const numerics::EdgeCase* edge_case_named(std::string_view id) {
  for (const numerics::EdgeCase& edge_case : numerics::all_edge_cases())
    if (edge_case.id == id)
      return &edge_case;
  return nullptr;
}

reference::Recipe recipe_of(const std::string& what, KernelChoice& choice) {
  if (is_recipe(what))
    return recipe_from(what);
  if (const numerics::EdgeCase* edge_case = edge_case_named(what))
    return recipe_from(edge_case->recipe());
  std::error_code no_matter;
  if (std::filesystem::is_directory(what, no_matter))
    throw UsageError(
        fmt::format("'{}' is a folder; want a file whose first recipe is to be run", what));
  if (std::filesystem::exists(what, no_matter))
    return recipe_in(what, choice);
  try {
    numerics::find_edge_case(what); // names the nearest
  } catch (const std::invalid_argument& error) {
    throw UsageError(
        fmt::format("{}; nor is it a file, nor a recipe, which holds `=`", error.what()));
  }
  throw UsageError(fmt::format("'{}' is neither an edge case, nor a file, nor a recipe", what));
}

std::optional<reference::Problem> shrunk_problem(const std::string& what, KernelChoice& choice) {
  std::error_code no_matter;
  if (!std::filesystem::is_regular_file(what, no_matter) || !numerics::is_shrunk_case(what))
    return {};
  numerics::ShrunkCase found = numerics::read_shrunk_case(what);
  if (choice.kernel.empty() && choice.plugin.empty()) {
    if (found.asked_by != "--kernel " + found.kernel)
      throw UsageError(
          fmt::format("file '{}': a case of {}, which is no kernel of ours; want {}, or "
                      "--kernel K",
                      what, found.kernel, found.asked_by));
    choice.kernel = found.kernel;
  }
  return std::move(found.problem);
}

const Kernel& with_tile_of(const numerics::EdgeCase& edge_case, const Kernel& named,
                           const std::string& asked, kernels::Backend backend) {
  if (named.id == asked || numerics::can_express(edge_case, named))
    return named;
  for (const auto table : kernels::all_tables())
    for (const Kernel& kernel : table)
      if (kernel.id.starts_with(asked + ".") && kernel.backend == backend &&
          numerics::can_express(edge_case, kernel))
        return kernel;
  return named;
}

} // namespace fa1::reports
