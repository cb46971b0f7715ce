/// Files for tests: the bytes of .npy and .safetensors, and a folder that goes away.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fa1::reference {

class TestFolder {
public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fa1lab-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no folder for the test's files");
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(std::string_view name) const { return (path_ / name).string(); }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lowest `count` bytes of a number, the least first.
inline std::string little(std::uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

inline std::string floats(std::span<const float> values) {
  std::string bytes;
  for (const float value : values)
    bytes += little(std::bit_cast<std::uint32_t>(value), 4);
  return bytes;
}

inline std::string npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += little(dictionary.size(), version == 1 ? 2 : 4);
  return file.append(dictionary).append(data);
}

inline std::string safetensors(std::string_view header, std::string_view data) {
  return little(header.size(), 8).append(header).append(data);
}

} // namespace fa1::reference
