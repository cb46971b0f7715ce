#include "reports/commands/report.hpp"

#include "reports/arguments.hpp"
#include "reports/collect.hpp"
#include "reports/costs.hpp"
#include "reports/output.hpp"
#include "reports/papers.hpp"
#include "reports/plot.hpp"
#include "reports/terminal.hpp"
#include "reports/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>

namespace fa1::reports {
namespace {

struct Options {
  bool quick = false, full = false, json = false, papers = false;
  std::string out = "reports/out", seed = "1";
};

/// Fewer repetitions than `fa1lab bench` makes, because a report must not wait for them.
CostSettings cost_settings(Level level) {
  CostSettings settings;
  settings.repetitions = level == Level::quick ? 2 : 3;
  settings.min_seconds = level == Level::quick ? 0.02 : 0.05;
  return settings;
}

int report(const Options& options) {
  if (options.papers) {
    const auto set = options.quick ? numerics::PaperSet::few : numerics::PaperSet::full;
    print_papers(std::cout, measure_papers(set), options.json);
    return kHeld;
  }
  const Level level = options.quick ? Level::quick : options.full ? Level::full : Level::standard;
  const std::uint64_t seed =
      whole_number("--seed", options.seed, 0, std::numeric_limits<std::uint64_t>::max());
  if (options.out.empty())
    throw UsageError("--out: is empty; want a folder");
  require_gnuplot();
  NewFolder folder(options.out, report_file_names());

  const Json document = collect(level, seed);
  const Json costs = measure_costs(cost_settings(level));
  for (const ReportFile& file : report_files(document, costs))
    folder.write(file.name, file.text);
  folder.publish();

  const std::string beyond = beyond_radius(costs);
  if (!beyond.empty())
    fmt::print(stderr, "fa1lab: report: {}\n", beyond);
  const bool fine = held(document) && beyond.empty();
  if (options.json)
    std::cout << document.dump() << "\n";
  else
    fmt::print(std::cout, "{}\nThe report is in {}\n",
               painted(document["summary"]["sentence"].get<std::string>(),
                       fine ? Colour::good : Colour::bad),
               (std::filesystem::absolute(options.out) / "index.html").lexically_normal().string());
  return fine ? kHeld : kProvedWrong;
}

} // namespace

Command add_report(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "report", "The error report: one page with plots, and its data beside it");
  app->footer("Takes up to 4 minutes on two cores, --quick one, --full an hour. The folder is "
              "replaced as a whole when the\n"
              "report is complete; a run that fails or is killed leaves the one before.\n\n"
              "Example:\n  fa1lab report --quick --out my-report");
  auto* quick =
      app->add_flag("--quick", options->quick, "A selection of kernels, few cases, one seed");
  app->add_flag("--full", options->full, "All kernels, many cases, more seeds")->excludes(quick);
  app->add_option("--out", options->out, "Folder for the report [reports/out]");
  app->add_option("--seed", options->seed, "Seed of the problems generated for the laws [1]");
  app->add_flag("--papers", options->papers,
                "Only the table of published results beside ours, printed; as `fa1lab papers`");
  app->add_flag("--json", options->json, "Print the data as one line instead of a sentence");
  return {app, [options] { return report(*options); }};
}

} // namespace fa1::reports
