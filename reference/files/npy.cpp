#include "reference/files/npy.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace fa1::reference {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostAxes = 32;

/// The header: a Python dictionary of a text, a truth value and a tuple of whole numbers, and nothing else.
class Literal {
public:
  Literal(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

  void parse() {
    want("{");
    while (!takes("}")) {
      const std::string key = quoted();
      want(":");
      if (key == "descr")
        set(descr, key, quoted());
      else if (key == "fortran_order")
        set(fortran_order, key, truth_value());
      else if (key == "shape")
        set(shape, key, tuple());
      else
        wrong("the unknown key '" + key + "'", "descr, fortran_order and shape");
      if (!takes(",")) {
        want("}");
        break;
      }
    }
    skip();
    if (at_ != text_.size())
      wrong("text after the dictionary", "spaces and a line end");
    if (!descr || !fortran_order || !shape)
      wrong("no key '" +
                std::string(!descr           ? "descr"
                            : !fortran_order ? "fortran_order"
                                             : "shape") +
                "'",
            "descr, fortran_order and shape");
  }

  [[noreturn]] void wrong(const std::string& found, const std::string& want) const {
    throw FileError(name_ + ": the npy header has " + found + "; want " + want);
  }

private:
  template <class Value>
  void set(std::optional<Value>& place, const std::string& key, Value value) {
    if (place)
      wrong("the key '" + key + "' twice", "it once");
    place = std::move(value);
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
      ++at_;
  }
  bool takes(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word))
      return false;
    at_ += word.size();
    return true;
  }
  std::string here() const {
    if (at_ >= text_.size())
      return "its end";
    std::string shown;
    for (const char letter : text_.substr(at_, 12))
      shown += letter >= ' ' && letter <= '~' ? letter : '?';
    return "'" + shown + "'";
  }
  void want(std::string_view word) {
    if (!takes(word))
      wrong(here() + " at byte " + std::to_string(at_), "'" + std::string(word) + "'");
  }

  std::string quoted() {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      wrong(here() + " at byte " + std::to_string(at_),
            "a text in quotes (structured types are not read)");
    const char quote = text_[at_++];
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos)
      wrong("a text without its closing quote", "one");
    const std::string_view inside = text_.substr(at_, end - at_);
    if (!std::ranges::all_of(inside, [](char c) { return c >= ' ' && c <= '~' && c != '\\'; }))
      wrong("a text with unusual characters", "plain ASCII");
    at_ = end + 1;
    return std::string(inside);
  }

  bool truth_value() {
    if (takes("True"))
      return true;
    if (takes("False"))
      return false;
    wrong(here() + " as fortran_order", "True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    bool comma = true;
    want("(");
    while (!takes(")")) {
      if (!comma)
        wrong(here() + " in shape", "',' or ')'");
      skip();
      std::int64_t extent = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0)
        wrong(here() + " in shape", "whole numbers from 0 to 2^63 - 1");
      at_ = static_cast<std::size_t>(end - text_.data());
      takes("L"); // Python 2 wrote it
      extents.push_back(extent);
      if (extents.size() > kMostAxes)
        wrong("more than 32 axes", "at most 4");
      comma = takes(",");
    }
    if (extents.size() == 1 && !comma)
      wrong("a number in brackets as shape", "a tuple, (3,)");
    return extents;
  }

  const std::string& name_;
  std::string_view text_;
  std::size_t at_ = 0;
};

void set_type(const Literal& literal, Array& array) {
  const std::string_view descr = *literal.descr;
  const std::string_view order = descr.substr(0, 1),
                         type = descr.substr(std::min<std::size_t>(1, descr.size()));
  static const std::map<std::string_view, Dtype> read{
      {"f8", Dtype::f64},     {"f4", Dtype::f32}, {"f2", Dtype::f16},
      {"b1", Dtype::boolean}, {"u1", Dtype::u8},  {"i1", Dtype::i8},
      {"i2", Dtype::i16},     {"i4", Dtype::i32}, {"i8", Dtype::i64}};
  if (const auto found = read.find(type); found != read.end())
    array.dtype = found->second;
  else if (type == "V2" || type == "V1")
    literal.wrong("descr '" + *literal.descr + "', bytes of which nothing says what they mean",
                  "f8, f4 or f2, or safetensors for bfloat16 and float8");
  else
    literal.wrong("descr '" + *literal.descr + "'",
                  "f8, f4 or f2 (for masks b1, u1, i1, i2, i4, i8) after <, > or =");
  if (order == ">")
    array.big_endian = true;
  else if (order != "<" && order != "=" && order != "|")
    literal.wrong("descr '" + *literal.descr + "'",
                  "f8, f4 or f2 (for masks b1, u1, i1, i2, i4, i8) after <, > or =");
}

} // namespace

NpyHeader parse_npy_header(const std::string& name, std::span<const std::byte> prefix) {
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  if (!text.starts_with(kMagic) || text.size() < 10)
    throw FileError(name + ": is no npy file; want one that begins with \\x93NUMPY and a version");
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(text[at])};
  };
  const std::uint64_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    throw FileError(name + ": has npy version " + std::to_string(major) + "." +
                    std::to_string(minor) + "; want 1.0, 2.0 or 3.0");
  const std::size_t begin = major == 1 ? 10 : 12;
  if (text.size() < begin)
    throw FileError(name + ": ends within the npy header");
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (length > kLongestNpyHeader)
    throw FileError(name + ": has an npy header of " + std::to_string(length) +
                    " bytes; want at most " + std::to_string(kLongestNpyHeader));
  if (length > text.size() - begin)
    throw FileError(name + ": the npy header is said to have " + std::to_string(length) +
                    " bytes, and the file has " + std::to_string(text.size() - begin) +
                    " after its length");

  Literal literal(name, text.substr(begin, length));
  literal.parse();
  NpyHeader header;
  Array& array = header.array;
  array.name = name;
  set_type(literal, array);
  array.shape = *literal.shape;
  const std::uint64_t bytes = dense_bytes(name, array.shape, size_of(array.dtype));
  array.strides = dense_strides(array.shape, size_of(array.dtype), *literal.fortran_order);
  array.offset = begin + length;
  header.size = array.offset + bytes;
  return header;
}

Array read_npy(std::shared_ptr<const Source> source) {
  std::vector<std::byte> prefix(std::min(source->size(), kLongestNpyHeader + 12));
  source->read(0, prefix);
  NpyHeader header = parse_npy_header(source->name(), prefix);
  if (source->size() != header.size)
    throw FileError(
        source->name() + ": has " + std::to_string(source->size()) + " bytes; shape " +
        shape_text(header.array.shape) + " of " + std::string(name_of(header.array.dtype)) +
        " wants " + std::to_string(header.size) +
        (source->size() < header.size ? ": the file is cut short" : ": one array a file"));
  header.array.source = std::move(source);
  return std::move(header.array);
}

} // namespace fa1::reference
