#include "reports/commands/budget.hpp"

#include "reports/arguments.hpp"
#include "reports/budget_runs.hpp"
#include "reports/parallel.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

struct Options {
  std::string recipe, tile = "64", kernel;
  std::vector<std::string> rounded;
  bool json = false;
};

std::string stage_names() {
  std::string names;
  for (std::size_t i = 0; i < numerics::kBudgetStages; ++i)
    names += fmt::format("{}{}", names.empty() ? "" : " ",
                         numerics::name_of(static_cast<numerics::BudgetStage>(i)));
  return names;
}

/// Reads `exp=bf16` into `run`.
void round_stage(const std::string& text, numerics::BudgetRun& run) {
  const std::size_t equals = text.find('=');
  const std::string stage = text.substr(0, equals);
  const numerics::Format* format =
      equals == std::string::npos ? nullptr : numerics::find_format(text.substr(equals + 1));
  if (format == nullptr)
    throw UsageError(fmt::format(
        "--rounded '{}': want STAGE=FORMAT, the format one of `fa1lab list formats`", text));
  for (std::size_t i = 0; i < numerics::kBudgetStages; ++i)
    if (numerics::name_of(static_cast<numerics::BudgetStage>(i)) == stage) {
      run.rounded[i] = static_cast<numerics::FormatId>(format - numerics::all_formats().data());
      return;
    }
  throw UsageError("--rounded: " + unknown("stage", stage, stage_names()));
}

void print(const Json& record) {
  const auto cell = [](const Json& value) { return fmt::format("{:.3g}", number_of(value)); };
  fmt::print(std::cout, "recipe  {}\nkernel  {}, tiles of {} keys\nerror   RMS {}, mean {}\n\n",
             record["recipe"].get<std::string>(), record["variant"].get<std::string>(),
             record["Bc"].get<std::int64_t>(), cell(record["rms"]), cell(record["mean"]));
  fmt::print(std::cout, "{:<10}{:>8}{:>10}{:>12}{:>10}  {}\n", "stage", "share", "alone",
             "all others", "bias", "format");
  for (const Json& stage : record["stages"])
    fmt::print(std::cout, "{:<10}{:>6.1f} %{:>10}{:>12}{:>10}  {}\n",
               stage["stage"].get<std::string>(), 100.0 * number_of(stage["share"]),
               cell(stage["alone"]), cell(stage["left"]), cell(stage["bias"]),
               stage["format"].get<std::string>());
  fmt::print(std::cout,
             "{:<10}{:>6.1f} %\n\nIn 2^-24 sum p|v|, RMS. share: of the mean square error. alone: "
             "the error with "
             "this stage alone inexact; all others: with this stage alone exact; bias: mean of "
             "alone. The parts "
             "differ from the whole by {} of it in the RMS, and by {} in one element.\n",
             "sum", 100.0 * number_of(record["shares"]), cell(record["unaccounted"]),
             cell(record["largest_unaccounted"]));
  if (record["second_order"].is_number())
    fmt::print(std::cout, "No element can differ by more than {}.\n", cell(record["second_order"]));
  else if (!record["second_order"].is_null())
    fmt::print(std::cout, "No bound holds for that: the scores carry too large an error.\n");
}

int budget(const Options& options) {
  const reference::Recipe recipe = recipe_from(options.recipe);
  const kernels::Kernel& kernel = kernel_named(options.kernel, reference::shape_of(recipe));
  constexpr std::uint64_t kMostTile = std::uint64_t{1} << 30;
  numerics::BudgetRun run;
  run.Bc = static_cast<std::int64_t>(whole_number("--Bc", options.tile, 1, kMostTile));
  for (const std::string& text : options.rounded)
    round_stage(text, run);
  const Json record = budget_record(recipe, kernel, run, cores());
  if (options.json)
    std::cout << one_line(record) << "\n";
  else
    print(record);
  return kHeld;
}

} // namespace

Command add_budget(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("budget", "Which stage of the recurrence the error of O comes from");
  app->footer(fmt::format(
      "The recurrence is run again with one stage at a time inexact, and with one at a time "
      "exact.\nStages: {}\n\nExample:\n  fa1lab budget 'n_q=32 n_kv=1024 d=64 v=positive' "
      "--Bc 32",
      stage_names()));
  app->add_option("RECIPE", options->recipe, "The problem, as `fa1lab list inputs` explains")
      ->required();
  app->add_option("--Bc", options->tile, "Keys of a tile [64]");
  app->add_option("--kernel", options->kernel,
                  "Whose order of operations: a plain kernel of `fa1lab list kernels` [fa1]");
  app->add_option(
         "--rounded", options->rounded,
         "STAGE=FORMAT: what the stage computes is rounded to a coarser format as well; may be "
         "given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_flag("--json", options->json, "Print a record instead of a table");
  return {app, [options] { return budget(*options); }};
}

} // namespace fa1::reports
