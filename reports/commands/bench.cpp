#include "reports/commands/bench.hpp"

#include "reference/recipe.hpp"
#include "reports/arguments.hpp"
#include "reports/costs.hpp"
#include "reports/environment.hpp"
#include "reports/terminal.hpp"
#include "reports/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <string>

namespace fa1::reports {
namespace {

struct Options {
  std::string keys = "4096", d = "64", min_time = "0.1", filter;
  bool json = false;
};

double seconds(std::string_view text) {
  const auto number = read_number<double>(text);
  if (!number || !(*number > 0.0 && *number <= 60.0))
    throw UsageError(
        fmt::format("--min-time {}: want seconds, more than 0 and at most 60", text.substr(0, 40)));
  return *number;
}

void print(const Json& costs) {
  const Environment& e = environment();
  fmt::print(
      std::cout,
      "keys {}, d {}, normal; least of {} repetitions of {} s or more; {}, {}, {} cores, load "
      "before {:.1f}\n",
      costs["keys"].get<int>(), costs["d"].get<int>(), costs["repetitions"].get<int>(),
      costs["seconds"].get<double>(), e.compiler, e.cpu, e.cores, number_of(costs["load"]));
  const auto line = [](const CostRow& row) {
    fmt::print(std::cout, "{:<20} {:>5} {:>10} {:>9} {:>9} {:>9}  {}\n", row.subject, row.rows,
               row.ns, row.ratio, row.radius, row.error, row.says);
  };
  line({"subject", "rows", "ns / m-add", "x certify", "radius", "error", "what it is"});
  for (const Json& subject : costs["subjects"])
    line(cost_row(subject));
  fmt::print(std::cout, "radius (proven) and error (measured) in sum p|v|, the largest of two "
                        "rows\n");
  if (!costs["goals"].empty())
    fmt::print(std::cout, "\n{:<60} {:>16} {:>10}  {}\n", "asked, of 4096 keys and d = 64", "value",
               "measured", "reached");
  for (const Json& goal : costs["goals"]) {
    const GoalRow row = goal_row(goal);
    fmt::print(std::cout, "{:<60} {:>16} {:>10}  {}\n", row.says, row.asked, row.measured,
               painted(row.answer, goal["reached"].get<bool>() ? Colour::good : Colour::warning));
  }
}

int bench(const Options& options) {
  CostSettings settings;
  settings.keys = static_cast<std::int64_t>(
      whole_number("--keys", options.keys, 1, static_cast<std::uint64_t>(kMostEntries)));
  settings.d = static_cast<std::int64_t>(
      whole_number("--d", options.d, 1, static_cast<std::uint64_t>(reference::kMaxHeadDimension)));
  if (settings.keys * settings.d > kMostEntries)
    throw UsageError(fmt::format("--keys {} --d {}: want at most {} keys for this d", settings.keys,
                                 settings.d, kMostEntries / settings.d));
  settings.min_seconds = seconds(options.min_time);
  settings.filter = options.filter;
  const Json costs = measure_costs(settings);
  if (options.json)
    std::cout << json_lines(costs["subjects"]) << json_lines(costs["goals"]);
  else
    print(costs);
  const std::string beyond = beyond_radius(costs);
  if (!beyond.empty())
    fmt::print(stderr, "fa1lab: bench: {}\n", beyond);
  return beyond.empty() ? kHeld : kProvedWrong;
}

} // namespace

Command add_bench(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "bench", "What the truth costs: the certified reference, timed against others");
  app->footer("Times are nanoseconds of wall clock for one multiply-add, the least of 5 "
              "repetitions in shuffled order. Takes about\n"
              "40 s; a busy machine spoils it. REGEX is looked for in the names of subjects, as "
              "Google Benchmark does; with '-'\n"
              "before it, those that match are left out.\n\n"
              "Example:\n  fa1lab bench --filter '^certify|^double'");
  app->add_option("--keys", options->keys, "Keys of the problem, n_kv [4096]");
  app->add_option("--d", options->d, "Columns of Q, K and V [64]");
  app->add_option("--min-time", options->min_time, "Least seconds of one repetition [0.1]");
  app->add_option("--filter", options->filter, "REGEX: only the subjects whose name it matches");
  app->add_flag("--json", options->json, "Print records instead of a table");
  return {app, [options] { return bench(*options); }};
}

} // namespace fa1::reports
