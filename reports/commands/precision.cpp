#include "reports/commands/precision.hpp"

#include "numerics/precision.hpp"
#include "reports/arguments.hpp"
#include "reports/papers.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {
namespace {

struct Options {
  std::string recipe, tile = "64";
  std::vector<std::string> configurations;
  bool json = false;
};

Json to_json(const numerics::PrecisionError& error) {
  return {{"max", number(error.max)},
          {"rms", number(error.rms)},
          {"mean", number(error.mean)},
          {"max_absolute", number(error.max_absolute)},
          {"rms_absolute", number(error.rms_absolute)},
          {"relative", number(error.relative)}};
}

std::string_view name_of(numerics::Scaling scaling) {
  switch (scaling) {
  case numerics::Scaling::tensor:
    return "tensor";
  case numerics::Scaling::blocks:
    return "blocks";
  default:
    return "none";
  }
}

Json to_json(const numerics::PrecisionRecord& r, const reference::Recipe& recipe) {
  Json stages = Json::object();
  for (std::size_t i = 0; i < numerics::kStages; ++i) {
    const auto stage = static_cast<numerics::Stage>(i);
    stages[std::string(numerics::name_of(stage))] =
        numerics::format_of(r.configuration.format(stage)).id;
  }
  return {{"what", "precision"},
          {"recipe", reference::to_string(recipe)},
          {"configuration", r.configuration.id},
          {"says", r.configuration.says},
          {"stages", stages},
          {"scaling", name_of(r.configuration.scaling)},
          {"turned", r.configuration.turned},
          {"normalised", r.configuration.normalised},
          {"split_maxima", r.configuration.split_maxima},
          {"Bc", r.Bc},
          {"elements", r.elements},
          {"not_finite", r.not_finite},
          {"inputs", to_json(r.inputs)},
          {"arithmetic", to_json(r.arithmetic)},
          {"total", to_json(r.total)}};
}

/// The rounded stages, and what else is done to the inputs or to the recurrence.
std::string changes_of(const numerics::Configuration& configuration) {
  std::string text = stages_of(configuration);
  const auto add = [&](bool applies, std::string_view what) {
    if (applies)
      text += fmt::format("{}{}", text.empty() ? "" : "; ", what);
  };
  add(configuration.scaling == numerics::Scaling::tensor, "scaled as tensors");
  add(configuration.scaling == numerics::Scaling::blocks, "scaled in blocks");
  add(configuration.turned, "turned");
  add(configuration.one_tile, "whole rows");
  add(configuration.split_maxima != 0.0f, "repeated maxima moved");
  return text;
}

void print(std::span<const numerics::PrecisionRecord> records, const reference::Recipe& recipe,
           const std::string& tile) {
  std::size_t width = std::string_view("configuration").size();
  for (const numerics::PrecisionRecord& r : records)
    width = std::max(width, r.configuration.id.size());
  fmt::print(std::cout, "recipe  {}\ntiles   {} keys\n\n", reference::to_string(recipe), tile);
  fmt::print(std::cout, "{:<{}}  {:>9}  {:^29}  {:^29}  {:>9}\n", "", width, "inputs", "arithmetic",
             "both", "both");
  fmt::print(std::cout, "{:<{}}  {:>9}  {:>9} {:>9} {:>9}  {:>9} {:>9} {:>9}  {:>9}  {}\n",
             "configuration", width, "RMS", "max", "RMS", "mean", "max", "RMS", "mean", "relative",
             "rounded stages");
  for (const numerics::PrecisionRecord& r : records) {
    const auto three = [](const numerics::PrecisionError& e) {
      return fmt::format("{:>9.3g} {:>9.3g} {:>9.2g}", e.max, e.rms, e.mean);
    };
    fmt::print(std::cout, "{:<{}}  {:>9.3g}  {}  {}  {:>9.3g}  {}\n", r.configuration.id, width,
               r.inputs.rms, three(r.arithmetic), three(r.total), r.total.relative,
               changes_of(r.configuration));
    if (r.not_finite > 0)
      fmt::print(std::cout, "{:<{}}  {} of {} elements are NaN or Inf\n", "", width, r.not_finite,
                 r.elements);
  }
  fmt::print(std::cout, "\nIn 2^-24 sum p|v|; relative: RMS error / RMS of O. inputs: exact answer "
                        "of the rounded inputs less that of the recipe; arithmetic: computed less "
                        "exact answer of the rounded inputs; both: computed less exact answer of "
                        "the recipe.\n");
}

int precision(const Options& options) {
  const reference::Recipe recipe = recipe_from(options.recipe);
  constexpr std::uint64_t kMostTile = std::uint64_t{1} << 30;
  const auto Bc = static_cast<std::int64_t>(whole_number("--tile", options.tile, 1, kMostTile));
  std::vector<numerics::Configuration> configurations;
  for (const std::string& text : options.configurations) {
    try {
      configurations.push_back(numerics::parse_configuration(text));
    } catch (const numerics::ConfigurationError& error) {
      throw UsageError(fmt::format("--config: {}", error.what()));
    }
  }
  if (configurations.empty()) {
    const auto all = numerics::all_configurations();
    configurations.assign(all.begin(), all.end());
  }
  Progress progress("precision", static_cast<double>(configurations.size()));
  const auto records = numerics::measure_precision(reference::make_problem(recipe), configurations,
                                                   Bc, cores(), [&] { progress.done(1.0); });
  progress.clear();
  if (options.json)
    for (const numerics::PrecisionRecord& record : records)
      std::cout << one_line(to_json(record, recipe)) << "\n";
  else
    print(records, recipe, options.tile);
  return kHeld;
}

} // namespace

Command add_precision(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("precision", "What lower precision costs, emulated stage by stage");
  std::string ids, stages;
  for (const numerics::Configuration& configuration : numerics::all_configurations())
    ids += fmt::format("  {:<20} {}\n", configuration.id, configuration.says);
  for (std::size_t i = 0; i < numerics::kStages; ++i)
    stages += fmt::format(" {}", numerics::name_of(static_cast<numerics::Stage>(i)));
  app->footer(fmt::format("Configurations:\n{}Stages, for --config STAGE=FORMAT,...: all{}\n\n"
                          "Example:\n  fa1lab precision 'n_q=32 n_kv=1024 d=64' --config fa2-bf16 "
                          "--config p=bf16,l=fp16",
                          ids, stages));
  app->add_option("RECIPE", options->recipe, "The problem, as `fa1lab list inputs` explains")
      ->required();
  app->add_option("--config", options->configurations,
                  "A configuration, or STAGE=FORMAT,...; may be given more than once [all]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--tile", options->tile, "Keys of a tile [64]");
  app->add_flag("--json", options->json, "Print records instead of a table");
  return {app, [options] { return precision(*options); }};
}

Command add_papers(CLI::App& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* app = program.add_subcommand(
      "papers", "What others published about attention's errors and traffic, measured again");
  app->footer(
      "FlashAttention-3's table, Golden et al., Qiu and Yao, Blanchard, Higham and Higham, "
      "Demmel et al.,\nMilakov and Gimelshein, FlashAttention-1. Takes half a minute on two "
      "cores; `report --papers` is the same.\n\n"
      "Example:\n  fa1lab papers --json");
  app->add_flag("--json", *json, "Print records instead of a table");
  return {app, [json] {
            print_papers(std::cout, measure_papers(numerics::PaperSet::full), *json);
            return kHeld;
          }};
}

} // namespace fa1::reports
