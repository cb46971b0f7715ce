#include "reference/files/replace.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace fa1::reference {

std::string beside(const std::string& path) {
  return path + "." + std::to_string(getpid()) + ".new";
}

std::string replace_file(const std::string& path, std::span<const std::string_view> parts) {
  const std::string fresh = beside(path);
  std::error_code error;
  {
    std::ofstream out(fresh, std::ios::binary);
    for (const std::string_view part : parts)
      out << part;
    out.close();
    if (!out) {
      std::filesystem::remove(fresh, error);
      return "cannot be written";
    }
  }
  std::filesystem::rename(fresh, path, error);
  return error ? "cannot be written: " + error.message() : std::string{};
}

} // namespace fa1::reference
