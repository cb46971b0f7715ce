#include "reports/alarm_runs.hpp"

#include "properties/property.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

namespace fa1::reports {
namespace {

using numerics::Judgement;
using properties::Alarms;

std::string text_of(const Alarms& a) {
  return Json{{"cases", a.cases},
              {"declined", a.declined},
              {"verdicts", a.verdicts},
              {"elements", a.elements},
              {"worst_fraction", number(a.worst_fraction)},
              {"worst_expected", number(a.worst_expected)},
              {"first_wrong", a.first_wrong},
              {"first_suspicious", a.first_suspicious}}
      .dump();
}

Alarms alarms_of(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.contains("error"))
    throw std::runtime_error(json["error"]);
  return {json["cases"],
          json["declined"],
          json["verdicts"],
          json["elements"],
          number_of(json["worst_fraction"]),
          number_of(json["worst_expected"]),
          json["first_wrong"],
          json["first_suspicious"]};
}

std::int64_t of(const std::array<std::int64_t, 4>& counts, Judgement judgement) {
  return counts[static_cast<std::size_t>(judgement)];
}

constexpr std::array kJudgements{Judgement::proved_right, Judgement::suspicious,
                                 Judgement::undecided, Judgement::proved_wrong};

} // namespace

std::vector<AlarmRow> count_alarms(std::span<const kernels::Kernel* const> kernels,
                                   std::int64_t cases, std::uint64_t seed) {
  const auto blocks = static_cast<std::size_t>((cases + kAlarmBlock - 1) / kAlarmBlock);
  const std::size_t jobs = blocks * kernels.size();
  Progress progress("false alarms", static_cast<double>(jobs));
  const auto texts = in_processes(
      jobs,
      [&](std::size_t job) {
        const auto block = static_cast<std::int64_t>(job % blocks);
        const auto count =
            static_cast<int>(std::min<std::int64_t>(kAlarmBlock, cases - block * kAlarmBlock));
        return text_of(properties::count_alarms(*kernels[job / blocks], count,
                                                seed + static_cast<std::uint64_t>(block)));
      },
      [&](std::size_t job, const std::string& why) {
        return Json{{"error", kernels[job / blocks]->id + ": " + why}}.dump();
      },
      [&](std::size_t) { progress.done(1.0); });

  std::vector<AlarmRow> rows;
  for (const kernels::Kernel* kernel : kernels)
    rows.push_back({kernel, {}});
  for (std::size_t job = 0; job < jobs; ++job)
    rows[job / blocks].alarms += alarms_of(texts[job]);
  return rows;
}

bool no_false_alarm(std::span<const AlarmRow> rows) {
  return std::ranges::all_of(rows, [](const AlarmRow& row) {
    return of(row.alarms.verdicts, Judgement::proved_wrong) == 0;
  });
}

void print(std::ostream& out, std::span<const AlarmRow> rows) {
  fmt::print(out, "{:<37} {:>8} {:>8} {:>10} {:>9} {:>6}  {:>11} {:>14} {:>14}\n", "kernel",
             "cases", "right", "suspicious", "undecided", "wrong", "elements", "error/bound",
             "error/expected");
  Alarms all;
  const auto line = [&](std::string_view name, const Alarms& a) {
    std::int64_t elements = 0;
    for (const std::int64_t count : a.elements)
      elements += count;
    fmt::print(out, "{:<37} {:>8} {:>8} {:>10} {:>9} {:>6}  {:>11} {:>14.3g} {:>14.3g}\n", name,
               a.cases - a.declined, of(a.verdicts, Judgement::proved_right),
               of(a.verdicts, Judgement::suspicious), of(a.verdicts, Judgement::undecided),
               of(a.verdicts, Judgement::proved_wrong), elements, a.worst_fraction,
               a.worst_expected);
  };
  for (const AlarmRow& row : rows) {
    line(row.kernel->id, row.alarms);
    all += row.alarms;
  }
  if (rows.size() > 1)
    line("all", all);
  const std::int64_t decided =
      of(all.elements, Judgement::proved_right) + of(all.elements, Judgement::suspicious);
  fmt::print(out, "suspicious: {} of {} decided elements\n",
             of(all.elements, Judgement::suspicious), decided);
  for (const AlarmRow& row : rows) {
    const Alarms& a = row.alarms;
    if (!a.first_wrong.empty())
      fmt::print(out, "{}: {} is proved wrong\n  reproduce: {}\n",
                 painted("false alarm", Colour::bad), row.kernel->id,
                 properties::replay_line(a.first_wrong, *row.kernel));
    if (!a.first_suspicious.empty())
      fmt::print(out, "suspicious: {}\n", properties::replay_line(a.first_suspicious, *row.kernel));
  }
}

void print_json(std::ostream& out, std::span<const AlarmRow> rows, std::uint64_t seed) {
  for (const AlarmRow& row : rows) {
    const Alarms& a = row.alarms;
    Json record{{"what", "alarms"},
                {"kernel", row.kernel->id},
                {"seed", seed},
                {"cases", a.cases},
                {"declined", a.declined},
                {"worst_fraction", number(a.worst_fraction)},
                {"worst_over_expected", number(a.worst_expected)},
                {"first_wrong", a.first_wrong},
                {"first_suspicious", a.first_suspicious}};
    for (const Judgement judgement : kJudgements) {
      record["cases_" + std::string(numerics::name_of(judgement))] = of(a.verdicts, judgement);
      record["elements_" + std::string(numerics::name_of(judgement))] = of(a.elements, judgement);
    }
    out << record.dump() << "\n";
  }
}

} // namespace fa1::reports
