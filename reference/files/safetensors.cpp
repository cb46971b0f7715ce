#include "reference/files/safetensors.hpp"

#include "reference/files/replace.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <utility>

namespace fa1::reference {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestHeader = std::uint64_t{16} << 20;
constexpr int kDeepest = 3; ///< { name: { shape: [ ] } }

/// Bytes of an element of a type that the format knows; 0 for others.
std::uint64_t bytes_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> known{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  const auto found = known.find(dtype);
  return found == known.end() ? 0 : found->second;
}

std::optional<Dtype> dtype_of(const std::string& dtype) {
  static const std::map<std::string, Dtype> read{
      {"F64", Dtype::f64},      {"F32", Dtype::f32},         {"F16", Dtype::f16},
      {"BF16", Dtype::bf16},    {"F8_E4M3", Dtype::f8_e4m3}, {"F8_E5M2", Dtype::f8_e5m2},
      {"BOOL", Dtype::boolean}, {"U8", Dtype::u8},           {"I8", Dtype::i8},
      {"I16", Dtype::i16},      {"I32", Dtype::i32},         {"I64", Dtype::i64}};
  const auto found = read.find(dtype);
  return found == read.end() ? std::nullopt : std::optional(found->second);
}

/// One line of printable letters, however hostile the text.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string line(text.substr(0, kLongest));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return text.size() > kLongest ? line + "..." : line;
}

json parsed(const std::string& file, const std::vector<std::byte>& header) {
  std::array<std::set<std::string>, kDeepest + 1> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    const auto level = static_cast<std::size_t>(depth);
    if ((event == Event::object_start || event == Event::array_start) && depth >= kDeepest)
      throw FileError(file + ": the header is nested deeper than " + std::to_string(kDeepest) +
                      " levels; want {name: {dtype, shape, data_offsets}}");
    if (event == Event::object_start)
      keys.at(level + 1).clear();
    if (event == Event::key && !keys.at(level).insert(value.get<std::string>()).second)
      throw FileError(file + ": the header has the key '" + shown(value.get<std::string>()) +
                      "' twice; want it once");
    return true;
  };
  const char* const text = reinterpret_cast<const char*>(header.data());
  try {
    json all = json::parse(text, text + header.size(), watch);
    if (!all.is_object())
      throw FileError(file + ": the header is no JSON object; want {name: {...}}");
    return all;
  } catch (const json::exception& error) {
    throw FileError(file + ": the header is no JSON: " + shown(error.what()));
  }
}

/// Texts under texts.
void check_metadata(const std::string& file, const json& metadata) {
  if (!metadata.is_object())
    throw FileError(file + ": __metadata__ is no object; want texts under names");
  for (const auto& item : metadata.items())
    if (!item.value().is_string())
      throw FileError(file + ": __metadata__ '" + shown(item.key()) + "' is no text; want texts");
}

std::vector<std::uint64_t> whole_numbers(const std::string& name, const char* key,
                                         const json& list) {
  std::vector<std::uint64_t> numbers;
  for (const json& one : list) {
    if (!one.is_number_unsigned())
      throw FileError(name + ": " + key + " holds " + shown(one.dump()) +
                      "; want whole numbers from 0 on");
    numbers.push_back(one.get<std::uint64_t>());
  }
  return numbers;
}

std::string description_of(const std::string& dtype, std::span<const std::int64_t> shape) {
  return "shape " + shape_text(shape) + " of " + dtype;
}

} // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const Source> source)
    : source_(std::move(source)) {
  const std::string& file = source_->name();
  constexpr std::uint64_t kWord = 8;
  if (source_->size() < kWord)
    throw FileError(file + ": has " + std::to_string(source_->size()) +
                    " bytes; want a safetensors file, which begins with 8 for its header's length");
  std::array<std::byte, kWord> word{};
  source_->read(0, word);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kWord; ++i)
    length |= std::to_integer<std::uint64_t>(word[i]) << (8 * i);
  if (length > source_->size() - kWord)
    throw FileError(file + ": the header is said to have " + std::to_string(length) +
                    " bytes, and the file has " + std::to_string(source_->size() - kWord) +
                    " after its length; want a safetensors, npy or npz file");
  if (length > kLongestHeader)
    throw FileError(file + ": has a header of " + std::to_string(length) + " bytes; want at most " +
                    std::to_string(kLongestHeader));
  std::vector<std::byte> header(length);
  source_->read(kWord, header);
  data_ = kWord + length;

  const json all = parsed(file, header);
  for (const auto& item : all.items()) {
    const json& value = item.value();
    if (item.key() == "__metadata__") {
      check_metadata(file, value);
      metadata_ = value.get<std::map<std::string, std::string>>();
      continue;
    }
    const std::string name = file + ": " + shown(item.key());
    if (item.key().find('\0') != std::string::npos)
      throw FileError(name + ": the name holds NUL; want names without it");
    const auto has = [&](const char* key, bool right) {
      if (!right)
        throw FileError(name + ": has no " + key +
                        " as the format wants it; want dtype, shape and "
                        "data_offsets [begin, end]");
    };
    has("description", value.is_object());
    has("dtype", value.contains("dtype") && value["dtype"].is_string());
    has("shape", value.contains("shape") && value["shape"].is_array());
    has("data_offsets", value.contains("data_offsets") && value["data_offsets"].is_array() &&
                            value["data_offsets"].size() == 2);
    for (const auto& part : value.items())
      if (part.key() != "dtype" && part.key() != "shape" && part.key() != "data_offsets")
        throw FileError(name + ": has the unknown key '" + shown(part.key()) +
                        "'; want dtype, shape and data_offsets");
    Tensor tensor;
    tensor.dtype = value["dtype"].get<std::string>();
    for (const std::uint64_t extent : whole_numbers(name, "shape", value["shape"])) {
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw FileError(name + ": shape holds " + std::to_string(extent) + "; want less than 2^63");
      tensor.shape.push_back(static_cast<std::int64_t>(extent));
    }
    const auto offsets = whole_numbers(name, "data_offsets", value["data_offsets"]);
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    tensors_.emplace(item.key(), std::move(tensor));
  }
  check_offsets(source_->size() - data_);
}

void SafetensorsFile::check_offsets(std::uint64_t data_bytes) const {
  const std::string& file = source_->name();
  std::vector<std::pair<std::string, const Tensor*>> order;
  for (const auto& [name, tensor] : tensors_)
    order.emplace_back(file + ": " + shown(name), &tensor);
  std::ranges::stable_sort(
      order, {}, [](const auto& one) { return std::pair(one.second->begin, one.second->end); });
  const auto refuse = [](const auto& one, const std::string& why) {
    throw FileError(one.first + ": data_offsets [" + std::to_string(one.second->begin) + ", " +
                    std::to_string(one.second->end) + "] " + why);
  };
  std::uint64_t reached = 0;
  for (const auto& one : order) {
    const Tensor& tensor = *one.second;
    if (tensor.begin > tensor.end)
      refuse(one, "are reversed; want begin <= end");
    if (tensor.end > data_bytes)
      refuse(one, "leave the file, which has " + std::to_string(data_bytes) + " bytes of data");
    const std::uint64_t item = bytes_of(tensor.dtype);
    const std::uint64_t bytes =
        dense_bytes(one.first, tensor.shape, std::max<std::uint64_t>(item, 1));
    if (item != 0 && tensor.end - tensor.begin != bytes)
      refuse(one, "hold " + std::to_string(tensor.end - tensor.begin) + " bytes; " +
                      description_of(tensor.dtype, tensor.shape) + " wants " +
                      std::to_string(bytes));
    if (tensor.begin != reached)
      refuse(one,
             (tensor.begin < reached ? "overlap the tensor before; want " : "leave a gap; want ") +
                 std::to_string(reached) + " as begin");
    reached = tensor.end;
  }
  if (reached != data_bytes)
    throw FileError(file + ": has " + std::to_string(data_bytes) +
                    " bytes of data; its tensors want " + std::to_string(reached));
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors_)
    all.push_back(name);
  return all;
}

Array SafetensorsFile::array(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw FileError(source_->name() + ": has no tensor '" + shown(name) + "'; want one of " +
                    list_of(names()));
  const Tensor& tensor = found->second;
  const auto dtype = dtype_of(tensor.dtype);
  Array array;
  array.name = source_->name() + ": " + shown(name);
  if (!dtype)
    throw FileError(
        array.name + ": is of type " + shown(tensor.dtype) +
        "; want F64, F32, F16, BF16, F8_E4M3 or F8_E5M2 (for masks BOOL, U8, I8, I16, I32 or I64)");
  array.dtype = *dtype;
  array.shape = tensor.shape;
  array.strides = dense_strides(array.shape, size_of(*dtype), false);
  array.source = source_;
  array.offset = data_ + tensor.begin;
  return array;
}

void write_safetensors(const std::string& path, const std::map<std::string, TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  static_assert(std::endian::native == std::endian::little,
                "elements are written as they lie here");
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = std::visit([](auto values) { return std::as_bytes(values); }, tensor.values);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    header[name] = {{"dtype", tensor.values.index() == 0 ? "F32" : "F64"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  constexpr std::size_t kWord = 8;
  std::string text = header.dump();
  text.append((kWord - text.size() % kWord) % kWord, ' ');
  std::string length;
  for (std::size_t i = 0; i < kWord; ++i)
    length += static_cast<char>(text.size() >> (8 * i) & 0xff);

  const std::array<std::string_view, 3> parts{length, text, data};
  if (const std::string failure = replace_file(path, parts); !failure.empty())
    throw FileError(path + ": " + failure);
}

std::string list_of(std::span<const std::string> names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), kMost)))
    text += (text.empty() ? "" : ", ") + shown(name);
  if (names.size() > kMost)
    text += ", and " + std::to_string(names.size() - kMost) + " more";
  return text.empty() ? "none" : text;
}

} // namespace fa1::reference
