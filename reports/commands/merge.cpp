#include "reports/commands/merge.hpp"

#include "reports/sweep_file.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>

namespace fa1::reports {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
};

int merge(const Options& options) {
  bool wrong = false;
  const std::uint64_t points =
      reports::merge(options.files, options.out, [&](std::uint64_t, const Json& record) {
        wrong = wrong ||
                record.value("verdict", "") == numerics::name_of(numerics::Judgement::proved_wrong);
      });
  fmt::print(std::cout, "{} points in {}\n", points, options.out);
  return wrong ? kProvedWrong : kHeld;
}

} // namespace

Command add_merge(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("merge", "The parts of a sweep (sweep --shard) as one file");
  app->footer("The file is, byte for byte, what the sweep without --shard writes. Refused: a point "
              "that is in two parts or in\n"
              "none, parts of another sweep or made by another version. Status 1 where a point is "
              "proved wrong.\n\n"
              "Example:\n  fa1lab merge part1.jsonl part2.jsonl --out growth.jsonl");
  app->add_option("FILES", options->files, "The parts, in any order")->required();
  app->add_option("--out", options->out, "File for all points")->required();
  return {app, [options] { return merge(*options); }};
}

} // namespace fa1::reports
