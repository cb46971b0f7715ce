#include "reference/recorded.hpp"

#include "reference/files/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace fa1::reference {
namespace {

using Json = nlohmann::json;

Tensor<float> read_matrix(const SafetensorsFile& file, const std::string& name) {
  const Array array = file.array(name);
  if (array.dtype != Dtype::f32 || array.shape.size() != 2)
    throw FileError(array.name + ": want f32 [rows, columns]");
  // Straight into place: every process of a run of the laws reads them all, and read_block makes doubles first.
  static_assert(std::endian::native == std::endian::little, "as the file's bytes are");
  Tensor<float> matrix(1, array.shape[0], array.shape[1]);
  array.source->read(array.offset, std::as_writable_bytes(matrix.elements()));
  return matrix;
}

RecordedHead read_head(const SafetensorsFile& file, const std::string& name, const Json& about) {
  RecordedHead head;
  head.name = name;
  head.kind = about.at("kind").get<std::string>();
  head.Q = read_matrix(file, name + ".q");
  head.K = read_matrix(file, name + ".k");
  head.V = read_matrix(file, name + ".v");
  head.O = read_matrix(file, name + ".o");
  for (const float q : head.Q.elements())
    head.largest_in_Q = std::max(head.largest_in_Q, static_cast<double>(std::fabs(q)));
  head.rows = head.Q.rows();
  head.columns = head.Q.columns();
  for (const Tensor<float>* other : {&head.K, &head.V, &head.O})
    if (other->rows() != head.rows || other->columns() != head.columns)
      throw FileError(name + ": want q, k, v and o of one shape");
  for (const auto& [key, value] :
       {std::pair("entropy", &head.entropy), std::pair("sink", &head.sink),
        std::pair("diagonal", &head.diagonal), std::pair("previous", &head.previous),
        std::pair("next", &head.next), std::pair("sharp", &head.sharp),
        std::pair("distance", &head.distance)})
    *value = about.at(key).get<double>();
  return head;
}

} // namespace

Recording read_recording(const std::string& path) {
  try {
    const SafetensorsFile file(std::make_shared<FileSource>(path));
    const Json about = Json::parse(file.metadata().at("about"));
    Recording recording;
    const auto text = [&](const char* key) { return about.at(key).get<std::string>(); };
    recording.provenance = text("model") + " (" + text("licence") + "), " + text("text");
    for (const auto& [name, one] : about.at("heads").items()) {
      recording.heads.push_back(read_head(file, name, one));
      recording.heads.back().scale = about.at("scale").get<float>();
    }
    return recording;
  } catch (const std::exception& error) {
    throw RecipeError("recipe: recorded: '" + path +
                      "': want the heads that numerics/recorded/record.py wrote: " + error.what());
  }
}

const Recording& recording() {
  static const Recording all = read_recording(FA1_RECORDED_HEADS);
  return all;
}

const RecordedHead& recorded_head(std::string_view name) {
  const std::vector<RecordedHead>& heads = recording().heads;
  if (const auto found = std::ranges::find(heads, name, &RecordedHead::name); found != heads.end())
    return *found;
  std::string names;
  for (const RecordedHead& head : heads)
    names += (names.empty() ? "" : " ") + head.name;
  throw RecipeError("recipe: recorded=" + std::string(name.substr(0, 60)) + ": want one of " +
                    names);
}

} // namespace fa1::reference
