/// Reading what the user gave, for every command alike. Whatever is wrong becomes a UsageError of one line; a kernel
/// that this machine cannot run becomes an EnvironmentError.
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/judge.hpp"
#include "numerics/search.hpp"
#include "reference/recipe.hpp"
#include "reference/truth_source.hpp"
#include "reports/command.hpp"

#include <charconv>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace fa1::reports {

inline constexpr std::string_view kDefaultKernel = "fa1";

/// The kernel `id` for problems of this shape; empty: kDefaultKernel.
const kernels::Kernel& kernel_named(std::string_view id, const reference::Shape& shape);

/// EnvironmentError where the last part of the id is a build for the GPU and there is none.
void require_device_for(std::string_view id);

/// Which kernel a command is about: --kernel, or --plugin with its --timeout, and --stranger.
class KernelChoice {
public:
  std::string kernel;  ///< an id, or a part of one; empty: the command's own default
  std::string plugin;  ///< path of a shared library; not together with `kernel`
  std::string timeout; ///< seconds a call of the plug-in may take; empty: the usual
  std::string
      stranger; ///< empty, or the outputs that are left when its insides are forgotten: o, olm

  /// Declares the options. `usual` says in the help which kernel is taken where none is named.
  void add_to(CLI::App& app, const std::string& usual);

  /// True where the kernel's insides are not known to the laboratory.
  bool from_outside() const { return !plugin.empty() || !stranger.empty(); }

  /// The kernel for problems of this shape. A plug-in is loaded once; references last as long as this.
  const kernels::Kernel& for_shape(const reference::Shape& shape);
  /// `named` as --stranger asks; references last as long as this.
  const kernels::Kernel& as_asked(const kernels::Kernel& named);
  /// The plug-in of --plugin.
  const kernels::Kernel& loaded();

private:
  const kernels::Kernel* plugin_ = nullptr;
  std::deque<kernels::Kernel> kept_;
};

/// How long a search may take: --seconds, --evaluations, or both.
struct BudgetOptions {
  std::string seconds, evaluations;

  void add_to(CLI::App& app);
  numerics::Budget budget() const; ///< 30 s where nothing was said
};

reference::Recipe recipe_from(std::string_view text);

/// The whole text as a number, or nothing.
template <class Number> std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

/// A whole number from `low` to `high`; `name` is the option, for the message.
std::uint64_t whole_number(std::string_view name, std::string_view text, std::uint64_t low,
                           std::uint64_t high);

/// From a millisecond to an hour.
double seconds_from(std::string_view name, std::string_view text);

/// GPUs and processes of their own are not shared between threads.
bool runs_alone(const kernels::Kernel& kernel);

/// --scale and --layout of tensors in files; nothing where nothing was said.
std::optional<float> scale_from(const std::string& text);
std::optional<numerics::Layout> layout_from(const std::string& text);

/// --truth: auto, cpu or gpu; an EnvironmentError where no GPU can make it.
reference::TruthSource truth_from(const std::string& text);

/// `'one' is not known; want one of one, two, three`, ready to be thrown.
std::string unknown(std::string_view what, std::string_view found, std::string_view known);

} // namespace fa1::reports
