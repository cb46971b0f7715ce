/// Writing a file as a whole: beside it and then over it, so that it is old or new and never half.
///
/// replace_file  what went wrong, `cannot be written` or that and the reason; empty where all went well
/// beside        a name of this process's own, next to `path`
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fa1::reference {

std::string beside(const std::string& path);

std::string replace_file(const std::string& path, std::span<const std::string_view> parts);

} // namespace fa1::reference
