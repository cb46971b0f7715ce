#include "reports/results.hpp"

#include "numerics/ratchet.hpp"
#include "numerics/verdict.hpp"
#include "reports/command.hpp"
#include "reports/records.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fa1::reports {
namespace {

/// Deeper than any record of ours; what walks through JSON here calls itself.
constexpr int kDeepest = 64;

/// Discarded where it is no JSON, or is nested deeper.
Json json_from(const std::string& text) {
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  return deep ? Json(Json::value_t::discarded) : json;
}

/// Null where there is no such key, or no object.
Json value_in(const Json& json, const char* key) {
  return json.is_object() ? json.value(key, Json()) : Json();
}

int rank_of_law(const std::string& answer) {
  return answer == "held" ? 0 : answer == "not-applicable" ? 1 : 2;
}

int rank_of_verdict(const std::string& verdict) {
  int rank = 0;
  for (const auto judgement : {numerics::Judgement::proved_right, numerics::Judgement::suspicious,
                               numerics::Judgement::undecided}) {
    if (verdict == numerics::name_of(judgement))
      return rank;
    ++rank;
  }
  return rank;
}

std::string text_in(const Json& record, const char* key) {
  const Json value = value_in(record, key);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : one_line(value);
}

void add_law(Things& things, const Json& law, const std::string& cases, const std::string& seed) {
  Thing thing;
  thing.answer = text_in(law, "answer");
  thing.rank = rank_of_law(thing.answer);
  thing.numbers = {{"worst_fraction", number_of(value_in(law, "worst_fraction"))}};
  thing.conditions = cases + " cases, seed " + seed;
  things.emplace(std::pair("law", text_in(law, "law") + " on " + text_in(law, "kernel")), thing);
}

void add_error(Things& things, const Json& error) {
  Thing thing;
  thing.answer = text_in(error, "verdict");
  thing.rank = rank_of_verdict(thing.answer);
  for (const char* key : {"max_error", "rms_error", "max_fraction"})
    thing.numbers.push_back({key, number_of(value_in(error, key))});
  std::string name = fmt::format("'{}' on {}", text_in(error, "recipe"), text_in(error, "kernel"));
  if (const Json last = value_in(error, "last_seed");
      !last.is_null() && last != value_in(error, "seed"))
    name += fmt::format(" ({} seeds to {})", text_in(error, "runs"), text_in(error, "last_seed"));
  things.emplace(std::pair("error", name), thing);
}

void add_edge_case(Things& things, const Json& edge_case) {
  Thing thing;
  const bool good = value_in(edge_case, "as_catalogued") == true;
  thing.answer = good ? "as catalogued" : "not as catalogued";
  thing.rank = good ? 0 : 1;
  things.emplace(std::pair("edge-case", text_in(edge_case, "id")), thing);
}

void add_record(Things& things, const Json& record) {
  const std::string what = text_in(record, "what");
  if (what == "law")
    add_law(things, record, text_in(record, "cases"), text_in(record, "seed"));
  else if (what == "error" || what == "point")
    add_error(things, record);
  else if (what == "edge-case")
    add_edge_case(things, record);
}

/// A report holds its laws by law and kernel, and its errors somewhere in its figures.
void add_report(Things& things, const Json& json, const std::string& seed) {
  add_record(things, json);
  if (const Json laws = value_in(json, "kernels"); laws.is_array() && json.contains("cases"))
    for (const Json& law : laws)
      add_law(things, law, text_in(json, "cases"), seed);
  if (json.is_structured())
    for (const Json& part : json)
      add_report(things, part, seed);
}

void add_ratchet(Things& things, const std::string& text, const std::string& path) {
  try {
    for (const numerics::RatchetRow& row : numerics::ratchet_rows_in(text, path))
      things.emplace(std::pair("ratchet", row.key),
                     Thing{"", 0, {{"worst", row.worst}, {"median", row.median}}, ""});
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

} // namespace

Things things_in(const std::string& text, const std::string& path) {
  Things things;
  if (text.starts_with(numerics::kRatchetHeader)) {
    add_ratchet(things, text, path);
  } else if (const Json whole = json_from(text); value_in(whole, "what") == "fa1lab report") {
    add_report(things, whole, text_in(whole, "seed"));
  } else {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const Json record = json_from(line);
      if (record.is_discarded() || !record.is_object())
        throw UsageError(fmt::format("{}:{}: is no record (a JSON object on one line); found '{}'",
                                     path, number, line.substr(0, 60)));
      add_record(things, record);
    }
  }
  if (things.empty())
    throw UsageError(
        fmt::format("'{}': holds no law, error, edge case or ratchet row to compare", path));
  return things;
}

Things things_in_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw UsageError(fmt::format("'{}': cannot be read; want a file of records, a report.json or a "
                                 "ratchet file",
                                 path));
  std::ostringstream all;
  all << in.rdbuf();
  return things_in(all.str(), path);
}

} // namespace fa1::reports
