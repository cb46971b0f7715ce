#include "reference/files/array.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace fa1::reference {
namespace {

static_assert(std::endian::native == std::endian::little, "load() puts bytes in this order");

constexpr std::uint64_t kPiece = std::uint64_t{4} << 20; ///< bytes read at once
constexpr std::uint64_t kSmallPiece = std::uint64_t{4} << 10;
constexpr std::uint64_t kSparse = 16; ///< bytes read for one that is wanted

/// Formats of 8 bits; e4m3 uses its largest exponent for numbers.
double small_float(std::uint32_t code, int exponent_bits, int fraction_bits, bool infinities) {
  const int top = (1 << exponent_bits) - 1, bias = top >> 1;
  const int exponent = static_cast<int>(code >> fraction_bits) & top;
  const int fractions = (1 << fraction_bits) - 1;
  const int fraction = static_cast<int>(code) & fractions;
  const double sign = (code >> (exponent_bits + fraction_bits)) & 1u ? -1.0 : 1.0;
  if (exponent == top && infinities)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == top && fraction == fractions)
    return std::numeric_limits<double>::quiet_NaN();
  const int significand = exponent == 0 ? fraction : fraction + fractions + 1;
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
}

std::uint64_t load(const std::byte* bytes, std::uint64_t size, bool big_endian) {
  std::uint64_t code = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t place = big_endian ? size - 1 - i : i;
    code |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * place);
  }
  return code;
}

std::uint64_t extent_of(const Axis& rows, const Axis& columns, std::uint64_t item) {
  return static_cast<std::uint64_t>((rows.count - 1) * rows.stride +
                                    (columns.count - 1) * columns.stride) +
         item;
}

struct Target {
  double* out;
  std::int64_t row_step; ///< entries from one row of the output to the next
};

void read_piece(const Array& array, std::uint64_t first, Axis rows, Axis columns, Target target,
                std::vector<std::byte>& buffer) {
  const std::uint64_t item = size_of(array.dtype), extent = extent_of(rows, columns, item);
  const std::uint64_t wanted = static_cast<std::uint64_t>(rows.count * columns.count) * item;
  if (extent > kPiece || (extent > kSmallPiece && extent / kSparse > wanted)) {
    const bool by_rows =
        columns.count == 1 ||
        (rows.count > 1 && rows.count * rows.stride >= columns.count * columns.stride);
    const Axis& cut = by_rows ? rows : columns;
    Axis low = cut, high = cut;
    low.count = cut.count / 2;
    high.count -= low.count;
    const std::uint64_t second = first + static_cast<std::uint64_t>(low.count * cut.stride);
    Target after = target;
    after.out += by_rows ? low.count * target.row_step : low.count;
    read_piece(array, first, by_rows ? low : rows, by_rows ? columns : low, target, buffer);
    read_piece(array, second, by_rows ? high : rows, by_rows ? columns : high, after, buffer);
    return;
  }
  buffer.resize(extent);
  array.source->read(first, buffer);
  for (std::int64_t r = 0; r < rows.count; ++r)
    for (std::int64_t c = 0; c < columns.count; ++c)
      target.out[r * target.row_step + c] =
          decode(array.dtype, load(buffer.data() + r * rows.stride + c * columns.stride, item,
                                   array.big_endian));
}

} // namespace

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
  case Dtype::f64:
    return "f64";
  case Dtype::f32:
    return "f32";
  case Dtype::f16:
    return "f16";
  case Dtype::bf16:
    return "bf16";
  case Dtype::f8_e4m3:
    return "f8_e4m3";
  case Dtype::f8_e5m2:
    return "f8_e5m2";
  case Dtype::boolean:
    return "bool";
  case Dtype::u8:
    return "u8";
  case Dtype::i8:
    return "i8";
  case Dtype::i16:
    return "i16";
  case Dtype::i32:
    return "i32";
  case Dtype::i64:
    break;
  }
  return "i64";
}

std::uint64_t size_of(Dtype dtype) {
  switch (dtype) {
  case Dtype::f64:
  case Dtype::i64:
    return 8;
  case Dtype::f32:
  case Dtype::i32:
    return 4;
  case Dtype::f16:
  case Dtype::bf16:
  case Dtype::i16:
    return 2;
  default:
    return 1;
  }
}

bool is_floating(Dtype dtype) { return dtype < Dtype::boolean; }

double decode(Dtype dtype, std::uint64_t code) {
  switch (dtype) {
  case Dtype::f64:
    return std::bit_cast<double>(code);
  case Dtype::f32:
    return double{std::bit_cast<float>(static_cast<std::uint32_t>(code))};
  case Dtype::f16:
    return double{static_cast<float>(
        Eigen::half(Eigen::half_impl::raw_uint16_to_half(static_cast<std::uint16_t>(code))))};
  case Dtype::bf16:
    return double{std::bit_cast<float>(static_cast<std::uint32_t>(code << 16))};
  case Dtype::f8_e4m3:
    return small_float(static_cast<std::uint32_t>(code), 4, 3, false);
  case Dtype::f8_e5m2:
    return small_float(static_cast<std::uint32_t>(code), 5, 2, true);
  case Dtype::boolean:
  case Dtype::u8:
    return static_cast<double>(code);
  case Dtype::i8:
    return static_cast<std::int8_t>(code);
  case Dtype::i16:
    return static_cast<std::int16_t>(code);
  case Dtype::i32:
    return static_cast<std::int32_t>(code);
  case Dtype::i64:
    break;
  }
  return static_cast<double>(static_cast<std::int64_t>(code));
}

void read_block(const Array& array, std::uint64_t first, Axis rows, Axis columns,
                std::span<double> out) {
  if (rows.count == 0 || columns.count == 0)
    return;
  std::vector<std::byte> buffer;
  read_piece(array, first, rows, columns, {out.data(), columns.count}, buffer);
}

std::uint64_t dense_bytes(const std::string& name, std::span<const std::int64_t> shape,
                          std::uint64_t item) {
  auto bytes = static_cast<std::int64_t>(item);
  bool fits = true, empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      throw FileError(name + ": shape " + shape_text(shape) + " has a negative extent");
    empty = empty || extent == 0;
    // The product of the others must fit too: strides are made of it.
    fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes);
  }
  if (!fits)
    throw FileError(name + ": shape " + shape_text(shape) + " has more bytes than 2^63");
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape, std::uint64_t item,
                                        bool first_fastest) {
  std::vector<std::int64_t> strides(shape.size());
  auto stride = static_cast<std::int64_t>(item);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = first_fastest ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

} // namespace fa1::reference
