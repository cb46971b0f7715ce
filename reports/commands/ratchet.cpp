#include "reports/commands/ratchet.hpp"

#include "numerics/ratchet.hpp"
#include "reports/output.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

namespace fa1::reports {
namespace {

using numerics::RatchetMove;
using numerics::RatchetRow;

struct Options {
  std::vector<std::string> rows;
  std::string reason, file;
  bool update = false;
};

/// The rows to put in: those that were named, else those that the tests measured last.
std::vector<RatchetRow> measured(const Options& options) {
  std::vector<RatchetRow> rows;
  for (const std::string& line : options.rows)
    rows.push_back(numerics::row_from_csv(line, fmt::format("ratchet: '{}'", line.substr(0, 60))));
  if (!rows.empty())
    return rows;
  std::error_code none;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(numerics::measured_folder(), none))
    files.push_back(entry.path());
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files)
    for (RatchetRow& row : numerics::ratchet_rows(file))
      rows.push_back(std::move(row));
  if (rows.empty())
    throw UsageError(
        "ratchet --update: nothing was measured yet; run the tests (./fa1lab test), or "
        "name the row that one of them prints");
  return rows;
}

int update(const Options& options) {
  if (options.reason.find('\n') != std::string::npos)
    throw UsageError("--reason: want one line");
  const std::vector<RatchetRow> before = numerics::ratchet_rows(options.file);
  std::ifstream in(options.file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string says;
  for (const RatchetRow& row : measured(options)) {
    const auto old = std::ranges::find(before, row.key, &RatchetRow::key);
    const bool is_new = old == before.end();
    const RatchetMove move = is_new ? RatchetMove::tightens : numerics::move_of(*old, row);
    if (move == RatchetMove::same) {
      text = numerics::with_row(text, row, ""); // sealed, where it was not
      says += fmt::format("same      {}\n", numerics::to_csv(row));
      continue;
    }
    const bool loosens = move == RatchetMove::loosens;
    if (loosens && options.reason.empty())
      throw UsageError(fmt::format("ratchet: '{}' would loosen '{}'; want --reason TEXT, which the "
                                   "file keeps",
                                   numerics::to_csv(row), numerics::to_csv(*old)));
    const std::string reason = loosens ? fmt::format("loosened from {},{},{}: {}", old->worst,
                                                     old->median, old->cases, options.reason)
                                       : "";
    text = numerics::with_row(text, row, reason);
    says += fmt::format("{:<9} {}\n",
                        is_new    ? "new"
                        : loosens ? "loosened"
                                  : "tightened",
                        numerics::to_csv(row));
  }
  write_file(options.file, text);
  std::cout << says;
  return kHeld;
}

int ratchet(const Options& options) {
  if (options.update)
    return update(options);
  if (!options.rows.empty() || !options.reason.empty())
    throw UsageError("ratchet: a row and a reason are for --update");
  numerics::ratchet_rows(options.file);
  std::cout << std::ifstream(options.file).rdbuf();
  return kHeld;
}

} // namespace

Command add_ratchet(CLI::App& program) {
  auto options = std::make_shared<Options>();
  options->file = numerics::ratchet_file().string();
  CLI::App* app = program.add_subcommand(
      "ratchet", "The measured worst cases that tests compare with: shown, or changed");
  app->footer(
      "--update puts in the rows that the tests measured last, or those that are named as a "
      "failing test prints\n"
      "them. A row that admits less is taken as it is. One that admits more, rests on fewer "
      "cases or is of something\n"
      "else needs a reason, and the file keeps it. No other way to loosen a row passes the "
      "tests.\n\n"
      "Examples:\n  fa1lab ratchet --update\n"
      "  fa1lab ratchet --update 'bound.O,0.6,0.005,200000,error/bound of O ...' --reason 'the "
      "mirror now rounds l'");
  app->add_option("ROW", options->rows, "key,worst,median,cases,how");
  app->add_flag("--update", options->update, "Change the file");
  app->add_option("--reason", options->reason, "Why a row has to be looser");
  app->add_option("--file", options->file, "Another file of this kind");
  return {app, [options] { return ratchet(*options); }};
}

} // namespace fa1::reports
