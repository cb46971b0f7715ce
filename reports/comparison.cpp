#include "reports/comparison.hpp"

#include "numerics/ratchet.hpp"
#include "numerics/verdict.hpp"
#include "reports/command.hpp"
#include "reports/sweep_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <tuple>

namespace fa1::reports {
namespace {

struct Number {
  std::string name;
  double value = 0.0; ///< a larger one is worse, NaN is the worst
};

struct Thing {
  std::string answer; ///< empty where there is none
  int rank = 0;       ///< of the answer; a larger one is worse
  std::vector<Number> numbers;
  std::string conditions; ///< numbers are compared where these are the same
};

/// By kind and name, in their order.
using Things = std::map<std::pair<std::string, std::string>, Thing>;

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
  const Json value = record.value(key, Json());
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : one_line(value);
}

void add_law(Things& things, const Json& law, const std::string& cases, const std::string& seed) {
  Thing thing;
  thing.answer = text_in(law, "answer");
  thing.rank = rank_of_law(thing.answer);
  thing.numbers = {{"worst_fraction", number_of(law.value("worst_fraction", Json()))}};
  thing.conditions = cases + " cases, seed " + seed;
  things.emplace(std::pair("law", text_in(law, "law") + " on " + text_in(law, "kernel")), thing);
}

void add_error(Things& things, const Json& error) {
  Thing thing;
  thing.answer = text_in(error, "verdict");
  thing.rank = rank_of_verdict(thing.answer);
  for (const char* key : {"max_error", "rms_error", "max_fraction"})
    thing.numbers.push_back({key, number_of(error.value(key, Json()))});
  std::string name = fmt::format("'{}' on {}", text_in(error, "recipe"), text_in(error, "kernel"));
  if (error.contains("last_seed") && error["last_seed"] != error.value("seed", Json()))
    name += fmt::format(" ({} seeds to {})", text_in(error, "runs"), text_in(error, "last_seed"));
  things.emplace(std::pair("error", name), thing);
}

void add_edge_case(Things& things, const Json& edge_case) {
  Thing thing;
  const bool good = edge_case.value("as_catalogued", false);
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
  if (json.is_object() && json.contains("what"))
    add_record(things, json);
  if (json.is_object() && json.contains("kernels") && json.contains("cases"))
    for (const Json& law : json["kernels"])
      add_law(things, law, text_in(json, "cases"), seed);
  if (json.is_structured())
    for (const Json& part : json)
      add_report(things, part, seed);
}

Things things_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw UsageError(fmt::format("'{}': cannot be read; want a file of records, a report.json or a "
                                 "ratchet file",
                                 path));
  std::ostringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  Things things;
  if (text.starts_with(numerics::kRatchetHeader)) {
    for (const numerics::RatchetRow& row : numerics::ratchet_rows(path))
      things.emplace(std::pair("ratchet", row.key),
                     Thing{"", 0, {{"worst", row.worst}, {"median", row.median}}, ""});
  } else if (const Json whole = Json::parse(text, nullptr, false);
             !whole.is_discarded() && whole.value("what", "") == "fa1lab report") {
    add_report(things, whole, text_in(whole, "seed"));
  } else {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const Json record = Json::parse(line, nullptr, false);
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

/// +1: b is worse than a.
int order_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return static_cast<int>(std::isnan(b)) - static_cast<int>(std::isnan(a));
  return a < b ? 1 : a > b ? -1 : 0;
}

/// Nothing where they are the same.
std::optional<Difference> between(const std::string& kind, const Thing& a, const Thing& b) {
  Difference difference;
  bool worse = b.rank > a.rank, better = b.rank < a.rank;
  if (a.answer != b.answer)
    difference.says = fmt::format("{} -> {}", a.answer, b.answer);
  if (a.conditions == b.conditions)
    for (std::size_t n = 0; n < std::min(a.numbers.size(), b.numbers.size()); ++n) {
      const int order = order_of(a.numbers[n].value, b.numbers[n].value);
      if (order == 0)
        continue;
      worse = worse || order > 0;
      better = better || order < 0;
      difference.says += fmt::format("{}{} {:.6g} -> {:.6g}", difference.says.empty() ? "" : ", ",
                                     a.numbers[n].name, a.numbers[n].value, b.numbers[n].value);
    }
  if (!worse && !better)
    return {};
  difference.change = worse ? Change::worse : Change::better;
  difference.kind = kind;
  difference.fails =
      worse && (kind == "law" || kind == "ratchet" || (kind == "edge-case" && b.rank > 0) ||
                (b.rank > a.rank && b.rank == rank_of_verdict("proved wrong")));
  return difference;
}

} // namespace

std::string_view name_of(Change change) {
  constexpr std::array<std::string_view, 4> kNames{"worse", "better", "new", "lost"};
  return kNames[static_cast<std::size_t>(change)];
}

std::size_t Comparison::count(Change change) const {
  return static_cast<std::size_t>(std::ranges::count(differences, change, &Difference::change));
}

bool Comparison::fails() const { return std::ranges::any_of(differences, &Difference::fails); }

Comparison compare_results(const std::string& old_file, const std::string& new_file) {
  const Things before = things_in(old_file), after = things_in(new_file);
  Comparison result;
  for (const auto& [key, thing] : before) {
    const auto found = after.find(key);
    if (found == after.end()) {
      result.differences.push_back({Change::lost, key.first, key.second, thing.answer, false});
      continue;
    }
    std::optional<Difference> difference = between(key.first, thing, found->second);
    if (!difference) {
      ++result.same;
      continue;
    }
    difference->name = key.second;
    result.differences.push_back(std::move(*difference));
  }
  for (const auto& [key, thing] : after)
    if (!before.contains(key))
      result.differences.push_back({Change::added, key.first, key.second, thing.answer, false});
  std::ranges::stable_sort(result.differences, {},
                           [](const Difference& d) { return std::tuple(!d.fails, d.change); });
  return result;
}

} // namespace fa1::reports
