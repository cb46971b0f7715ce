#include "reference/files/array_file.hpp"

#include "reference/files/npy.hpp"
#include "reference/files/npz.hpp"
#include "reference/files/safetensors.hpp"

#include <algorithm>
#include <string_view>

namespace fa1::reference {

Array ArrayFile::only() const {
  if (names.size() != 1)
    throw FileError(path + ": holds " + std::to_string(names.size()) + " arrays (" +
                    list_of(names) + "); want a file with one in this place");
  return array(names.front());
}

ArrayFile open_arrays(const std::string& path) {
  const auto file = std::make_shared<FileSource>(path);
  std::string start(std::min<std::uint64_t>(file->size(), 6), '\0');
  file->read(0, std::as_writable_bytes(std::span(start)));
  // An archive without members is its own end.
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    const auto npz = std::make_shared<NpzFile>(file);
    return {path, "npz", npz->names(), [npz](const std::string& name) { return npz->array(name); }};
  }
  if (start == "\x93NUMPY")
    return {path, "npy", {""}, [file](const std::string&) { return read_npy(file); }};
  const auto tensors = std::make_shared<SafetensorsFile>(file);
  return {path, "safetensors", tensors->names(),
          [tensors](const std::string& name) { return tensors->array(name); }};
}

} // namespace fa1::reference
