/// What a fuzzer, and a test with fixed inputs, does with what a hostile plug-in says of itself.
///
/// read_all   a description is read, and is within the limits of plugin.h, or refused by a PluginError or PluginLacks
///            of one line; throws std::logic_error where something else happens
#pragma once

#include <cstddef>
#include <span>

namespace fa1::kernels {

void read_all(std::span<const std::byte> description);

} // namespace fa1::kernels
