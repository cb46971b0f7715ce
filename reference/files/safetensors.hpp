/// Hugging Face's .safetensors: the length of a header, the header in JSON, then the elements.
///
/// SafetensorsFile   the whole header checked when the file is opened; array() for the tensors that are wanted
/// write_safetensors F32 and F64 tensors in the order of their names, after a header padded with blanks to 8 bytes; the
///                   same bytes each time. Written beside the file and then over it, so that a file is old or new
///                   and never half
/// Accepts    F64, F32, F16, BF16, F8_E4M3, F8_E5M2; tensors of other types may lie beside them; __metadata__ of
///            texts; data that begin at any byte, aligned or not
/// Refuses    a header beyond the end of the file, longer than 16 MiB, nested deeper than the format is or with a
///            key twice; NUL in a name; data_offsets that are reversed, leave the file, overlap or leave gaps, or
///            are not as far apart as shape and type say
/// Errors     FileError
/// Source     github.com/huggingface/safetensors, "Format"
#pragma once

#include "reference/files/array.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace fa1::reference {

class SafetensorsFile {
public:
  explicit SafetensorsFile(std::shared_ptr<const Source> source);

  /// In the order of their names.
  std::vector<std::string> names() const;
  /// Throws where the name is unknown, or its type is not read here.
  Array array(const std::string& name) const;
  /// The texts of __metadata__.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

private:
  struct Tensor {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0; ///< from the end of the header on
  };

  void check_offsets(std::uint64_t data_bytes) const;

  std::shared_ptr<const Source> source_;
  std::uint64_t data_ = 0; ///< where the elements begin
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// `values` has as many elements as `shape` says.
struct TensorToWrite {
  std::vector<std::int64_t> shape;
  std::variant<std::span<const float>, std::span<const double>> values;
};
void write_safetensors(const std::string& path, const std::map<std::string, TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata);

/// `q, k, v`, for messages; long lists are cut.
std::string list_of(std::span<const std::string> names);

} // namespace fa1::reference
