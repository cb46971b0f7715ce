#include "reports/arguments.hpp"

#include "kernels/launch.hpp"
#include "kernels/plugin.hpp"
#include "reference/certified_cuda.hpp"
#include "reports/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fa1::reports {

void require_device_for(std::string_view id) {
  if (const std::size_t dot = id.rfind('.');
      dot != std::string_view::npos && id.substr(dot).starts_with(".cuda"))
    if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
      throw EnvironmentError(fmt::format("kernel '{}' needs CUDA: {}", id, obstacle));
}

const kernels::Kernel& kernel_named(std::string_view id, const reference::Shape& shape) {
  require_device_for(id);
  try {
    return kernels::find_kernel(id.empty() ? kDefaultKernel : id, shape);
  } catch (const kernels::KernelError& error) {
    throw UsageError(error.what());
  }
}

void KernelChoice::add_to(CLI::App& app, const std::string& usual) {
  app.add_option("--kernel", kernel, "Id, or a part of it such as fa1.Br4xBc2 [" + usual + "]");
  app.add_option("--plugin", plugin,
                 "A kernel from outside instead: a shared library (see kernels/plugin.h)");
  app.add_option("--timeout", timeout, "Seconds that one call of the plug-in may take [10]");
  app.add_option("--stranger", stranger,
                 "Forget how the kernel works, and take these outputs alone: o or olm");
}

const kernels::Kernel& KernelChoice::loaded() {
  if (plugin_ != nullptr)
    return *plugin_;
  if (!kernel.empty())
    throw UsageError("--kernel and --plugin both name a kernel; want one of them");
  kernels::PluginOptions options;
  if (!timeout.empty())
    options.timeout = seconds_from("--timeout", timeout);
  try {
    plugin_ = &kept_.emplace_back(kernels::load_plugin(plugin, options));
  } catch (const kernels::PluginLacks& error) {
    throw EnvironmentError(error.what());
  } catch (const kernels::PluginError& error) {
    throw UsageError(error.what());
  }
  return *plugin_;
}

const kernels::Kernel& KernelChoice::as_asked(const kernels::Kernel& named) {
  if (stranger.empty())
    return named;
  if (stranger != "o" && stranger != "olm")
    throw UsageError("--stranger " + unknown("outputs", stranger, "o, olm"));
  return kept_.emplace_back(kernels::as_stranger(named, stranger == "olm"));
}

const kernels::Kernel& KernelChoice::for_shape(const reference::Shape& shape) {
  if (plugin.empty()) {
    if (!timeout.empty())
      throw UsageError("--timeout is for plug-ins; want --plugin LIB.so with it");
    return as_asked(kernel_named(kernel, shape));
  }
  if (!loaded().serves(shape))
    throw UsageError(fmt::format("plug-in '{}' serves d and dv up to {}, not d={} dv={}", plugin,
                                 loaded().D, shape.d, shape.dv));
  return as_asked(loaded());
}

void BudgetOptions::add_to(CLI::App& app) {
  app.add_option("--seconds", seconds, "Time, at most an hour [30, without --evaluations]");
  app.add_option("--evaluations", evaluations, "Problems that are tried");
}

numerics::Budget BudgetOptions::budget() const {
  numerics::Budget budget;
  constexpr std::uint64_t kMost = 1'000'000'000'000;
  if (!evaluations.empty())
    budget.evaluations =
        static_cast<std::int64_t>(whole_number("--evaluations", evaluations, 1, kMost));
  if (!seconds.empty() || evaluations.empty())
    budget.seconds = seconds.empty() ? 30.0 : seconds_from("--seconds", seconds);
  return budget;
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
  const auto number = read_number<std::uint64_t>(text);
  if (!number || *number < low || *number > high)
    throw UsageError(fmt::format("{} {}: want a whole number from {} to {}", name,
                                 text.substr(0, 40), low, high));
  return *number;
}

bool runs_alone(const kernels::Kernel& kernel) {
  return kernel.backend != kernels::Backend::cpu || !kernel.asked_by.empty();
}

std::optional<float> scale_from(const std::string& text) {
  if (text.empty())
    return std::nullopt;
  const auto scale = read_number<float>(text);
  if (!scale || !std::isfinite(*scale))
    throw UsageError(fmt::format("--scale {}: want a finite fp32 number", text));
  return scale;
}

std::optional<numerics::Layout> layout_from(const std::string& text) {
  if (text.empty())
    return std::nullopt;
  if (text != "bhnd" && text != "bnhd")
    throw UsageError(unknown("--layout", text, "bhnd, bnhd"));
  return text == "bhnd" ? numerics::Layout::bhnd : numerics::Layout::bnhd;
}

double seconds_from(std::string_view name, std::string_view text) {
  constexpr double kLeast = 0.001, kMost = 3600.0;
  const auto number = read_number<double>(text);
  if (!number || !(*number >= kLeast && *number <= kMost))
    throw UsageError(
        fmt::format("{} {}: want seconds from {} to {}", name, text.substr(0, 40), kLeast, kMost));
  return *number;
}

reference::TruthSource truth_from(const std::string& text) {
  if (text == "auto")
    return reference::TruthSource::automatic;
  if (text == "cpu")
    return reference::TruthSource::cpu;
  if (text != "gpu")
    throw UsageError(unknown("--truth", text, "auto, cpu, gpu"));
  if (const std::string obstacle = reference::certify_cuda_obstacle(); !obstacle.empty())
    throw EnvironmentError("--truth gpu: " + obstacle);
  return reference::TruthSource::gpu;
}

std::string unknown(std::string_view what, std::string_view found, std::string_view known) {
  return fmt::format("{} '{}' is unknown; want one of {}", what, found.substr(0, 60), known);
}

} // namespace fa1::reports
