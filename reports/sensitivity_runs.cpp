#include "reports/sensitivity_runs.hpp"

#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <ostream>

namespace fa1::reports {
namespace {

using properties::kInjections;

/// Whoever sees a fault sees larger ones, so the smallest that is seen is found by halving.
template <class Seen> int smallest_seen(Seen&& seen) {
  int low = kSmallestExponent, high = kUnseen;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (seen(std::ldexp(1.0, middle)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

std::string text_of(int exponent) {
  return exponent == kUnseen ? "unseen" : fmt::format("2^{}", exponent);
}

Json json_of(int exponent) {
  return exponent == kUnseen ? Json(nullptr) : Json(std::ldexp(1.0, exponent));
}

} // namespace

std::vector<SensitivityRow> measure_sensitivity(int cases, std::uint64_t seed) {
  const auto gates = numerics::all_gates();
  constexpr std::size_t kSizes = kLargestExponent - kSmallestExponent + 1;
  constexpr std::size_t kWays = properties::kKnownIds.size();
  // One job for each way of knowing the kernel; one for each size for the gates, which share runs.
  constexpr std::size_t kWidth = kWays + kSizes;
  Progress progress("sensitivity", static_cast<double>(kInjections.size() * kWidth));
  const auto texts = in_processes(
      kInjections.size() * kWidth,
      [&](std::size_t i) {
        const auto where = kInjections[i / kWidth].where;
        const std::size_t job = i % kWidth;
        if (job < kWays) {
          const auto known = static_cast<properties::Known>(job);
          return Json(smallest_seen([&](double size) {
                   const auto kernel = properties::injected(where, size, known);
                   return properties::caught_by_laws(kernel, cases, seed) >= properties::kSure;
                 }))
              .dump();
        }
        const double size = std::ldexp(1.0, kSmallestExponent + static_cast<int>(job - kWays));
        return Json(properties::caught_by_gates(properties::injected(where, size), cases, seed))
            .dump();
      },
      [](std::size_t, const std::string& why) -> std::string { throw std::runtime_error(why); },
      [&](std::size_t) { progress.done(1.0); });

  std::vector<SensitivityRow> rows;
  for (std::size_t fault = 0; fault < kInjections.size(); ++fault) {
    const std::size_t first = fault * kWidth;
    SensitivityRow row{kInjections[fault], {}, std::vector<int>(gates.size(), kUnseen)};
    for (std::size_t way = 0; way < kWays; ++way)
      row.laws[way] = Json::parse(texts[first + way]).get<int>();
    for (std::size_t size = kSizes; size-- > 0;) {
      const auto caught = Json::parse(texts[first + kWays + size]).get<std::vector<int>>();
      for (std::size_t gate = 0; gate < gates.size(); ++gate)
        if (caught[gate] >= properties::kSure &&
            row.gates[gate] == kSmallestExponent + static_cast<int>(size) + 1)
          row.gates[gate] -= 1; // this size, and every larger one
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print(std::ostream& out, const std::vector<SensitivityRow>& rows, int cases) {
  fmt::print(out,
             "the smallest relative error, of 2^{} to 2^{}, caught with 95 % probability in {} "
             "cases, by laws that are told\nthat the kernel is FA1, nothing of it, or nothing and "
             "see O alone; and by other people's gates\n\n{:<50}",
             kSmallestExponent, kLargestExponent, cases, "");
  for (const std::string_view known : properties::kKnownIds)
    fmt::print(out, " {:>8}", known);
  fmt::print(out, "  ");
  for (const numerics::Gate& gate : numerics::all_gates())
    fmt::print(out, " {:>{}}", gate.id, gate.id.size() + 1);
  fmt::print(out, "\n");
  for (const SensitivityRow& row : rows) {
    fmt::print(out, "{:<6} {:<43}", row.injection.id, row.injection.says);
    for (const int exponent : row.laws)
      fmt::print(out, " {:>8}", text_of(exponent));
    fmt::print(out, "  ");
    for (std::size_t gate = 0; gate < row.gates.size(); ++gate)
      fmt::print(out, " {:>{}}", text_of(row.gates[gate]),
                 numerics::all_gates()[gate].id.size() + 1);
    fmt::print(out, "\n");
  }
}

void print_json(std::ostream& out, const std::vector<SensitivityRow>& rows, int cases,
                std::uint64_t seed) {
  for (const SensitivityRow& row : rows) {
    Json laws = Json::object(), gates = Json::object();
    for (std::size_t way = 0; way < row.laws.size(); ++way)
      laws[std::string(properties::kKnownIds[way])] = json_of(row.laws[way]);
    for (std::size_t gate = 0; gate < row.gates.size(); ++gate)
      gates[std::string(numerics::all_gates()[gate].id)] = json_of(row.gates[gate]);
    out << Json{{"what", "sensitivity"},
                {"where", row.injection.id},
                {"says", row.injection.says},
                {"laws", std::move(laws)},
                {"gates", std::move(gates)},
                {"cases", cases},
                {"seed", seed}}
               .dump()
        << "\n";
  }
}

} // namespace fa1::reports
