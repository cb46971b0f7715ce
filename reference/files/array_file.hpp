/// A file with arrays in it, whatever its format.
///
/// open_arrays   tells npy, npz and safetensors apart by how the file begins, not by its name
/// Errors        FileError
#pragma once

#include "reference/files/array.hpp"

#include <functional>
#include <string>
#include <vector>

namespace fa1::reference {

struct ArrayFile {
  std::string path, format;                            ///< format: npy, npz, safetensors
  std::vector<std::string> names;                      ///< of its arrays; one, empty, for npy
  std::function<Array(const std::string& name)> array; ///< throws FileError

  /// The one array that it holds.
  Array only() const;
};

ArrayFile open_arrays(const std::string& path);

} // namespace fa1::reference
