#include "reports/arguments.hpp"

#include "kernels/launch.hpp"
#include "reports/command.hpp"

#include <fmt/format.h>

#include <charconv>

namespace fa1::reports {

const kernels::Kernel& kernel_named(std::string_view id, const reference::Shape& shape) {
  if (id.ends_with(".cuda"))
    if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
      throw EnvironmentError(fmt::format("kernel '{}' needs CUDA: {}", id, obstacle));
  try {
    return kernels::find_kernel(id.empty() ? kDefaultKernel : id, shape);
  } catch (const kernels::KernelError& error) {
    throw UsageError(error.what());
  }
}

reference::Recipe recipe_from(std::string_view text) {
  try {
    reference::Recipe recipe = reference::parse_recipe(text);
    reference::shape_of(recipe);
    return recipe;
  } catch (const reference::RecipeError& error) {
    throw UsageError(error.what());
  }
}

std::uint64_t whole_number(std::string_view name, std::string_view text, std::uint64_t low,
                           std::uint64_t high) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < low ||
      number > high)
    throw UsageError(fmt::format("{} {}: want a whole number from {} to {}", name,
                                 text.substr(0, 40), low, high));
  return number;
}

std::string unknown(std::string_view what, std::string_view found, std::string_view known) {
  return fmt::format("{} '{}' is unknown; want one of {}", what, found.substr(0, 60), known);
}

} // namespace fa1::reports
