#include "reports/commands/compare.hpp"

#include "reports/comparison.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>

namespace fa1::reports {
namespace {

struct Options {
  std::string before, after;
  bool json = false;
};

Colour colour_of(const Difference& difference) {
  if (difference.change == Change::worse)
    return difference.fails ? Colour::bad : Colour::warning;
  return difference.change == Change::better ? Colour::good : Colour::plain;
}

int compare(const Options& options) {
  const Comparison comparison = compare_results(options.before, options.after);
  for (const Difference& d : comparison.differences) {
    if (options.json)
      std::cout << one_line(Json{{"what", "difference"},
                                 {"change", name_of(d.change)},
                                 {"kind", d.kind},
                                 {"name", d.name},
                                 {"says", d.says},
                                 {"fails", d.fails}})
                << "\n";
    else
      fmt::print(std::cout, "{} {:<9} {}{}{}\n",
                 painted(fmt::format("{:<6}", name_of(d.change)), colour_of(d)), d.kind, d.name,
                 d.says.empty() ? "" : ": ", d.says);
  }
  if (!options.json)
    fmt::print(std::cout, "{} worse, {} better, {} new, {} lost, {} the same\n",
               comparison.count(Change::worse), comparison.count(Change::better),
               comparison.count(Change::added), comparison.count(Change::lost), comparison.same);
  return comparison.fails() ? kProvedWrong : kHeld;
}

} // namespace

Command add_compare(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("compare", "Two results: what got worse, better, new or lost");
  app->footer(
      "A result is a file of records (a sweep's, or what check --json printed), a report.json "
      "or a ratchet file.\n"
      "Worse is a worse answer or any larger number: the same program on the same machine gives "
      "the same bits.\n"
      "Status 1 where a law or a ratchet row got worse, an edge case is no longer as catalogued, "
      "or an error became\n"
      "proved wrong; errors that only grew are told.\n\n"
      "Example:\n  fa1lab compare yesterday/report.json reports/out/report.json");
  app->add_option("OLD", options->before, "The result before")->required();
  app->add_option("NEW", options->after, "The result after")->required();
  app->add_flag("--json", options->json, "One record for each difference");
  return {app, [options] { return compare(*options); }};
}

} // namespace fa1::reports
