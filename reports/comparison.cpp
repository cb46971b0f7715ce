#include "reports/comparison.hpp"

#include "reports/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

namespace fa1::reports {
namespace {

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
                (b.rank > a.rank && b.rank == kRankOfProvedWrong));
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
  const Things before = things_in_file(old_file), after = things_in_file(new_file);
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
