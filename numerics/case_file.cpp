#include "numerics/case_file.hpp"

#include "reference/files/replace.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

namespace fa1::numerics {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWhat = "worst case";

double rounded(double x) { return std::stod(fmt::format("{:.{}g}", x, kCaseDigits)); }

/// JSON has no infinity, which a wrong kernel's NaN counts as.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json("Infinity"); }

double number_in(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value == "Infinity" ? std::numeric_limits<double>::infinity() : value.get<double>();
}

/// nlohmann's get() would also take a fraction, a boolean and a number that does not fit.
template <class Whole> Whole whole_number_in(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (!value.is_number_unsigned() || !std::in_range<Whole>(value.get<Json::number_unsigned_t>()))
    throw std::runtime_error(fmt::format("{}: want a whole number from 0 to {}", key,
                                         std::numeric_limits<Whole>::max()));
  return value.get<Whole>();
}

std::string_view name_of(reference::Matrix matrix) {
  constexpr std::string_view kNames[] = {"Q", "K", "V"};
  return kNames[static_cast<std::size_t>(matrix)];
}

FoundCase case_in(const Json& json) {
  if (json.at("what") != kWhat)
    throw std::runtime_error(fmt::format("what: want \"{}\"", kWhat));
  FoundCase found;
  found.kernel = json.at("kernel").get<std::string>();
  const auto objective = json.at("objective").get<std::string>();
  if (objective != "error" && objective != "bound")
    throw std::runtime_error("objective: want error or bound");
  found.objective = objective == "error" ? Objective::error : Objective::bound;
  auto recipe = json.at("recipe").get<std::string>();
  std::string put;
  for (const Json& change : json.at("changes"))
    put += fmt::format(
        "{}{}:{},{}:{}", put.empty() ? "" : ";", change.at("matrix").get<std::string>(),
        whole_number_in<std::int64_t>(change, "row"),
        whole_number_in<std::int64_t>(change, "column"), change.at("value").get<std::string>());
  if (!put.empty())
    recipe += " put=" + put;
  found.recipe = reference::parse_recipe(recipe);
  found.peak = {number_in(json, "error"), number_in(json, "fraction"), number_in(json, "bound")};
  for (const Json& by : json.at("found"))
    found.found.push_back({by.at("command").get<std::string>(),
                           whole_number_in<std::uint64_t>(by, "seed"),
                           whole_number_in<std::int64_t>(by, "evaluations")});
  return found;
}

} // namespace

Peak rounded(const Peak& peak) {
  return {rounded(peak.error), rounded(peak.fraction), rounded(peak.bound)};
}

std::string to_text(const FoundCase& found) {
  reference::Recipe recipe = found.recipe;
  recipe.put.clear();
  Json changes = Json::array(), by = Json::array();
  for (const reference::Put& put : found.recipe.put)
    changes.push_back({{"matrix", name_of(put.matrix)},
                       {"row", put.row},
                       {"column", put.column},
                       {"value", fmt::format("{:a}", put.value)}});
  for (const FoundBy& f : found.found)
    by.push_back({{"command", f.command}, {"seed", f.seed}, {"evaluations", f.evaluations}});
  const Peak peak = rounded(found.peak);
  const Json json{{"what", kWhat},
                  {"kernel", found.kernel},
                  {"objective", name_of(found.objective)},
                  {"error", number(peak.error)},
                  {"bound", number(peak.bound)},
                  {"fraction", number(peak.fraction)},
                  {"unit", "2^-24 sum_j p_j |v_j|"},
                  {"found", by},
                  {"recipe", reference::to_string(recipe)},
                  {"changes", changes}};
  // One line for each key, and one for each change: a changed file is read line by line.
  std::string text = "{\n";
  for (const auto& [key, value] : json.items()) {
    std::string shown = value.dump();
    if (value.is_array() && !value.empty()) {
      shown = "[\n";
      for (std::size_t i = 0; i < value.size(); ++i)
        shown += fmt::format("    {}{}\n", value[i].dump(), i + 1 < value.size() ? "," : "");
      shown += "  ]";
    }
    text += fmt::format("  \"{}\": {}{}\n", key, shown, key == "changes" ? "" : ",");
  }
  return text + "}\n";
}

FoundCase case_from_text(const std::string& text, const std::string& where) {
  try {
    return case_in(Json::parse(text));
  } catch (const std::exception& error) {
    throw CaseFileError(fmt::format("{}: want a case as `fa1lab worst --out FOLDER` writes it: {}",
                                    where, error.what()));
  }
}

FoundCase read_case(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    throw CaseFileError(fmt::format("file '{}' cannot be read", file.string()));
  return case_from_text(text.str(), fmt::format("file '{}'", file.string()));
}

void write_case(const fs::path& file, const FoundCase& found) {
  const std::string text = to_text(found);
  const std::array<std::string_view, 1> parts{text};
  if (const std::string failure = reference::replace_file(file.string(), parts); !failure.empty())
    throw CaseFileError(fmt::format("file '{}' {}", file.string(), failure));
}

void require_writable(const fs::path& folder) {
  const std::string want =
      fmt::format("folder '{}': want one that can be written", folder.string());
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw CaseFileError(want);
  const fs::path probe = reference::beside((folder / "probe").string());
  if (!(std::ofstream(probe) << "\n"))
    throw CaseFileError(want);
  fs::remove(probe);
}

std::string case_file_name(const FoundCase& found) {
  return fmt::format("{}.N{}.d{}.{}.json", found.kernel, found.recipe.n_kv, found.recipe.d,
                     name_of(found.objective));
}

fs::path hall_of_fame() { return fs::path(FA1_SOURCE_DIR) / "numerics" / "hall_of_fame"; }

std::vector<fs::path> hall_of_fame_files() {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(hall_of_fame()))
    if (entry.path().extension() == ".json")
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

} // namespace fa1::numerics
