/// Arrays as files hold them, in memory, for the tests of judging.
#pragma once

#include "reference/files/array.hpp"
#include "reference/tensor.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fa1::tests {

template <class Number>
reference::Array array_of(const char* name, std::vector<std::int64_t> shape,
                          const std::vector<Number>& values, reference::Dtype dtype,
                          bool first_fastest = false) {
  const auto raw = std::as_bytes(std::span(values));
  std::vector<std::byte> bytes(raw.begin(), raw.end());
  reference::Array array;
  array.name = name;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.strides = reference::dense_strides(array.shape, sizeof(Number), first_fastest);
  array.source = std::make_shared<reference::MemorySource>(name, std::move(bytes));
  return array;
}

inline reference::Array f32(const char* name, std::vector<std::int64_t> shape,
                            const std::vector<float>& values, bool first_fastest = false) {
  return array_of(name, std::move(shape), values, reference::Dtype::f32, first_fastest);
}

inline reference::Array f32(const char* name, const reference::Tensor<float>& values) {
  return f32(name, {values.batch_heads(), values.rows(), values.columns()},
             {values.elements().begin(), values.elements().end()});
}

inline bool says(const std::vector<std::string>& lines, std::string_view part) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

} // namespace fa1::tests
