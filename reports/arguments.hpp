/// Reading what the user gave, for every command alike. Whatever is wrong becomes a UsageError of one line; a kernel
/// that this machine cannot run becomes an EnvironmentError.
#pragma once

#include "kernels/kernel.hpp"
#include "reference/recipe.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace fa1::reports {

inline constexpr std::string_view kDefaultKernel = "fa1";

/// The kernel `id` for problems of this shape; empty: kDefaultKernel.
const kernels::Kernel& kernel_named(std::string_view id, const reference::Shape& shape);

reference::Recipe recipe_from(std::string_view text);

/// A whole number from `low` to `high`; `name` is the option, for the message.
std::uint64_t whole_number(std::string_view name, std::string_view text, std::uint64_t low,
                           std::uint64_t high);

/// `'one' is not known; want one of one, two, three`, ready to be thrown.
std::string unknown(std::string_view what, std::string_view found, std::string_view known);

} // namespace fa1::reports
