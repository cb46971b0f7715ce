/// What a plug-in says of itself: the JSON of fa1_describe (plugin.h).
///
/// Errors    PluginError: what is wrong in the text and what would be right; PluginLacks where the
///           kernel takes no host pointers
#pragma once

#include <string>
#include <string_view>

namespace fa1::kernels {

struct Description {
  std::string name;
  bool gives_l_and_m = false, resumes = false;
  int max_d = 0, Br = 1, Bc = 1;
};

Description read_description(std::string_view text);

/// Somebody else's text on one line of printable characters, cut off where it is long.
std::string in_quotes(std::string_view text);

} // namespace fa1::kernels
