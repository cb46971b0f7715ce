#include "kernels/fuzz/readers.hpp"

#include "kernels/plugin.hpp"
#include "kernels/plugin_description.hpp"
#include "reference/fuzz/one_line.hpp"
#include "reference/recipe.hpp"

#include <stdexcept>
#include <string_view>

namespace fa1::kernels {

void read_all(std::span<const std::byte> description) {
  try {
    const Description d =
        read_description({reinterpret_cast<const char*>(description.data()), description.size()});
    constexpr int kMostTile = 4096;
    const auto from_one_to = [](int value, std::int64_t most) {
      return value >= 1 && value <= most;
    };
    if (d.name.empty() || in_quotes(d.name) != "\"" + d.name + "\"" ||
        !from_one_to(d.max_d, reference::kMaxHeadDimension) || !from_one_to(d.Br, kMostTile) ||
        !from_one_to(d.Bc, kMostTile) || (d.resumes && !d.gives_l_and_m))
      throw std::logic_error("a description beyond its limits was taken");
  } catch (const PluginError& error) {
    reference::require_one_line(error);
  } catch (const PluginLacks& error) {
    reference::require_one_line(error);
  }
}

} // namespace fa1::kernels
