#include "reports/commands/builds.hpp"

#include "reports/arguments.hpp"
#include "reports/build_runs.hpp"
#include "reports/environment.hpp"
#include "reports/self_test.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

struct Options {
  std::string variant = "fa1", cases = "30", seed = "1";
  bool json = false;
};

void print(const std::vector<BuildRow>& rows) {
  fmt::print(std::cout, "{:<14} {:>9} {:>7} {:>8} {:>7}  {:<13} {:>11} {:>7} {:>8}  {}\n", "build",
             "laws held", "bound", "error", "ratio", "beside", "different", "median", "largest",
             "says");
  for (const BuildRow& row : rows) {
    const auto broken = static_cast<std::int64_t>(row.broken.size());
    fmt::print(
        std::cout,
        "{:<14} {:>3} of {:>2} {:>7.3f} {:>8.3g} {:>7.3f}  {:<13} {:>9.3f} % {:>7} {:>8}  {}\n",
        row.build, row.laws_asked - broken, row.laws_asked, row.worst_fraction, row.error,
        row.error_ratio, row.beside,
        100.0 * static_cast<double>(row.different) / static_cast<double>(row.elements),
        row.median_distance, row.largest_distance, row.says);
    if (broken > 0)
      fmt::print(std::cout, "  broken: {}\n  reproduce: {}\n", fmt::join(row.broken, " "),
                 row.first_violation);
  }
  fmt::print(std::cout, "\nGPU: {}\n", environment().cuda);
}

int builds(const Options& options) {
  const int cases = static_cast<int>(whole_number("--cases", options.cases, 1, 1'000'000));
  const std::uint64_t seed =
      whole_number("--seed", options.seed, 0, std::numeric_limits<std::uint64_t>::max());
  require_sound_judge();
  const std::vector<BuildRow> rows = compare_builds(options.variant, cases, seed);
  if (options.json)
    for (const BuildRow& row : rows)
      std::cout << one_line(to_json(row, options.variant, cases, seed)) << "\n";
  else
    print(rows);
  return kHeld;
}

} // namespace

Command add_builds(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand("builds", "What compiler options do to a kernel");
  app->footer("One line for each way the kernel was compiled: laws held, worst error as a fraction "
              "of its bound, RMS error\n"
              "in 2^-24 sum p|v| and its ratio to the first build of the same side, elements of O "
              "that differ from the same\n"
              "text on the CPU, and how many floats lie between: the median of those that differ, "
              "and the largest where |O|\n"
              "is at least its RMS. Every build is held to the bound of nvcc's default options.\n\n"
              "Example:\n  fa1lab builds --cases 100");
  app->add_option("--variant", options->variant, "A variant of `fa1lab list variants` [fa1]");
  app->add_option("--cases", options->cases, "Generated problems for each law and instance [30]");
  app->add_option("--seed", options->seed, "Seed of the generated problems [1]");
  app->add_flag("--json", options->json, "One record for each build");
  return {app, [options] { return builds(*options); }};
}

} // namespace fa1::reports
