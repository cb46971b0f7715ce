/// An array in somebody else's file: which bytes are which element, and elements as numbers.
///
/// Array        a description; the bytes stay where they are
/// read_block   a rectangle of elements, rows x columns, row-major, as doubles
/// Layout       element (i0, i1, ...) lies at offset + sum_k i_k * strides[k] bytes: any order of the axes, dense
///              or not, aligned or not
/// Requires     of read_block: the rectangle lies inside the array
/// Error        none: every value of every Dtype is a double, subnormals included; but i64 beyond 2^53 to nearest
/// Special      Inf and NaN as the formats have them (the payload of a NaN is not kept); f8_e4m3 has no Inf, and
///              NaN at 0x7f and 0xff (OCP 8-bit Floating Point Specification 1.0, called F8_E4M3 or float8_e4m3fn)
/// Memory       a few MiB besides the output, however the elements are spread over the file
#pragma once

#include "reference/files/source.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reference {

enum class Dtype : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64
};
std::string_view name_of(Dtype dtype); ///< `f64`
std::uint64_t size_of(Dtype dtype);    ///< bytes
bool is_floating(Dtype dtype);         ///< the others are read for masks and lengths

struct Array {
  std::string name; ///< what messages call it: `case.safetensors: q`
  Dtype dtype = Dtype::f32;
  bool big_endian = false;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides; ///< bytes, one for each axis
  std::shared_ptr<const Source> source;
  std::uint64_t offset = 0; ///< of element (0, 0, ...)
};

/// One axis of a rectangle.
struct Axis {
  std::int64_t count = 0, stride = 0; ///< bytes
};

/// `out` has rows.count * columns.count entries; `first` is the byte of the first.
void read_block(const Array& array, std::uint64_t first, Axis rows, Axis columns,
                std::span<double> out);

/// The bytes of an element, in the machine's order, as a number.
double decode(Dtype dtype, std::uint64_t code);

/// Bytes of a dense array; throws FileError where the shape has a negative extent or the product does not fit into
/// 63 bits. `name` is for the message.
std::uint64_t dense_bytes(const std::string& name, std::span<const std::int64_t> shape,
                          std::uint64_t item);

/// Strides of a dense array, last axis fastest, or first axis fastest.
std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape, std::uint64_t item,
                                        bool first_fastest);

/// `[2, 3]`.
std::string shape_text(std::span<const std::int64_t> shape);

} // namespace fa1::reference
