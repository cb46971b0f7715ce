#include "reports/topics/gpu.hpp"

#include "reports/build_runs.hpp"
#include "reports/command.hpp"
#include "reports/environment.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

namespace fs = std::filesystem;

int cases_of(Level level) {
  switch (level) {
  case Level::quick:
    return 2;
  case Level::standard:
    return 10;
  case Level::full:
    break;
  }
  return 100;
}

std::vector<std::string> lines_of_file(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      lines.push_back(std::move(line));
  if (in.bad() || lines.empty())
    throw EnvironmentError(
        fmt::format("{}: cannot be read or is empty; want records", file.string()));
  return lines;
}

Json parsed(const fs::path& file, std::size_t line, const std::string& text) {
  Json record = Json::parse(text, nullptr, false);
  if (!record.is_object())
    throw EnvironmentError(
        fmt::format("{}, line {}: is no JSON object; want one a line", file.string(), line));
  return record;
}

Json records_of(const fs::path& folder) {
  Json machine{{"machine", folder.filename().string()},
               {"facts", Json::object()},
               {"laws", Json::array()},
               {"builds", Json::array()},
               {"others", Json::object()}};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    if (file.filename() == "machine.json") {
      machine["facts"] = parsed(file, 1, fmt::format("{}", fmt::join(lines_of_file(file), "\n")));
    } else if (file.extension() == ".jsonl") {
      const std::vector<std::string> lines = lines_of_file(file);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        Json record = parsed(file, i + 1, lines[i]);
        const std::string what = record.value("what", file.stem().string());
        Json& place = what == "build"             ? machine["builds"]
                      : what == "laws of a build" ? machine["laws"]
                                                  : machine["others"][what];
        place.push_back(std::move(record));
      }
    }
  }
  return machine;
}

Json row_of(const Json& record, const std::string& machine) {
  const auto elements = record["elements"].get<double>();
  const auto broken = record["broken"].get<std::vector<std::string>>();
  const auto asked = record["laws_asked"].get<std::size_t>();
  return {{"machine", machine},
          {"build", record["build"]},
          {"laws", fmt::format("{} of {}", asked - broken.size(), asked)},
          {"broken", fmt::format("{}", fmt::join(broken, " "))},
          {"worst_fraction", record["worst_fraction"]},
          {"error", record["error"]},
          {"error_ratio", record["error_ratio"]},
          {"beside", record["beside"]},
          {"different",
           elements > 0.0 ? number(100.0 * record["different"].get<double>() / elements) : Json()},
          {"median_distance", record["median_distance"]},
          {"largest_distance", record["largest_distance"]},
          {"says", record["says"]}};
}

/// Each law once, each build a column.
Json laws_table(const std::string& machine, const Json& laws) {
  Json rows = Json::array();
  std::map<std::string, std::size_t> at;
  for (const Json& law : laws) {
    const auto id = law["law"].get<std::string>();
    const auto [found, fresh] = at.try_emplace(id, rows.size());
    if (fresh)
      rows.push_back({{"law", id},
                      {"kind", law["kind"]},
                      {"cpu-fma", ""},
                      {"cuda", ""},
                      {"cuda-portable", ""}});
    const int cases_held = law["held"], violated = law["violated"];
    rows[found->second][law["build"].get<std::string>()] =
        violated > 0      ? "violated"
        : cases_held == 0 ? "not asked"
        : law["kind"] == "exact"
            ? fmt::format("{} held", cases_held)
            : fmt::format("{} held, worst {:.3g}", cases_held, number_of(law["worst_fraction"]));
  }
  return table(machine + "-laws", "The laws on CPU and GPU: " + machine,
               "Cases held, and the largest error as a fraction of its bound.",
               {{"law", "law"},
                {"kind", "kind"},
                {"cpu-fma", "CPU, fused"},
                {"cuda", "GPU"},
                {"cuda-portable", "GPU, portable"}},
               std::move(rows));
}

/// Any records: a column for each value.
Json plain_table(const std::string& machine, const std::string& what, const Json& records) {
  Json rows = Json::array();
  for (const Json& record : records)
    rows.push_back(flat(record));
  Json result = table(machine + "-" + what, what + ": " + machine, "", {}, rows);
  for (const auto& [key, value] : rows.front().items())
    if (key != "what")
      result["columns"].push_back({{"key", key}, {"name", key}});
  return result;
}

} // namespace

Json records_of_machines(const fs::path& published) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(published, none))
    if (entry.is_directory() && fs::exists(entry.path() / "machine.json"))
      folders.push_back(entry.path());
  std::ranges::sort(folders);
  Json machines = Json::array();
  for (const fs::path& folder : folders)
    machines.push_back(records_of(folder));
  return machines;
}

Json flat(const Json& record) {
  Json row = Json::object();
  for (const auto& [key, value] : record.items()) {
    if (value.is_object()) {
      for (const auto& [inner, plain] : value.items())
        row[key + "." + inner] = plain;
    } else if (!value.is_array()) {
      row[key] = value;
    }
  }
  return row;
}

Json measure_gpu(const TopicAmount& amount) {
  const int cases = cases_of(amount.level);
  Json rows = Json::array(), tables = Json::array(), sentences = Json::array();
  bool held = true;
  // A quick report has no time for it and shows the records alone.
  const std::vector<BuildRow> here = amount.level == Level::quick
                                         ? std::vector<BuildRow>()
                                         : compare_builds("fa1", cases, amount.seed);
  for (const BuildRow& row : here) {
    held = held && (row.broken.empty() || row.build.starts_with("cuda-"));
    rows.push_back(row_of(to_json(row, "fa1", cases, amount.seed), "here"));
  }
  const Json machines = records_of_machines(fs::path(FA1_SOURCE_DIR) / "reports" / "published");
  for (const Json& machine : machines) {
    const std::string name = machine["machine"];
    for (const Json& record : machine["builds"])
      rows.push_back(row_of(record, name));
    if (!machine["laws"].empty())
      tables.push_back(laws_table(name, machine["laws"]));
    for (const auto& [what, records] : machine["others"].items())
      tables.push_back(plain_table(name, what, records));
    std::string facts;
    for (const auto& [key, value] : machine["facts"].items())
      if (value.is_string())
        facts += fmt::format("{}{}: {}", facts.empty() ? "" : "; ", key, value.get<std::string>());
    sentences.push_back(fmt::format("Records of {}: {}.", name, facts));
  }
  sentences.insert(sentences.begin(), fmt::format("GPU of this machine: {}.", environment().cuda));
  tables.insert(tables.begin(), table("builds", "What compiler options do to fa1",
                                      "Error: RMS, in u sum p|v|; ratio: to the first build of the "
                                      "same side. Elements of O that "
                                      "differ from the same text on the CPU, in per cent, and the "
                                      "floats between: the median of "
                                      "those that differ, and the largest where |O| is at least "
                                      "its RMS. Every build is held to "
                                      "the bound of the default options.",
                                      {{"machine", "machine"},
                                       {"build", "build"},
                                       {"laws", "laws held"},
                                       {"broken", "laws broken"},
                                       {"worst_fraction", "worst error / bound"},
                                       {"error", "error"},
                                       {"error_ratio", "ratio"},
                                       {"beside", "beside"},
                                       {"different", "different, %"},
                                       {"median_distance", "median"},
                                       {"largest_distance", "largest"}},
                                      std::move(rows)));
  return {{"sentences", std::move(sentences)},
          {"plots", Json::array()},
          {"tables", std::move(tables)},
          {"reproduce",
           {fmt::format("./fa1lab builds --cases {} --seed {}", cases, amount.seed),
            "./fa1lab check --kernel all.cuda --cases 12 --seed 1 --json --by-build"}},
          {"held", held}};
}

} // namespace fa1::reports
