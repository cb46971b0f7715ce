#include "reports/commands/bias.hpp"

#include "reports/arguments.hpp"
#include "reports/bias_runs.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

struct Options {
  std::string recipe = kBiasRecipe, seeds = "40", seed = "1";
  std::vector<std::string> kernels;
  bool json = false;
};

void print(const std::vector<Json>& records) {
  std::size_t width = 0;
  for (const Json& record : records)
    width = std::max(width, record["kernel"].get<std::string>().size());
  fmt::print(std::cout, "{:<{}}  {:<8} {:<9}  {:>9}  {:>21}  {}\n", "kernel", width, "error of",
             "V", "mean", "95 % interval", "biased");
  std::string before;
  for (const Json& record : records) {
    const auto kernel = record["kernel"].get<std::string>();
    const bool biased = record["biased"], exact = record["exact"];
    fmt::print(std::cout, "{:<{}}  {:<8} {:<9}  {:>9.3g}  {:>21}  {}\n",
               kernel == before ? "" : kernel, width, record["quantity"].get<std::string>(),
               record["V"].get<std::string>(), number_of(record["mean"]),
               fmt::format("{:.3g}..{:.3g}", number_of(record["low"]), number_of(record["high"])),
               biased  ? painted("biased", Colour::warning)
               : exact ? "no error at all"
                       : "");
    before = kernel;
  }
  fmt::print(std::cout,
             "\nMean of the signed error over {} seeds, O in 2^-24 sum p|v|, |O| the same away "
             "from zero, l in 2^-24 "
             "l. biased: 0 is outside the interval at the level 1 - 0.05/{}, so that among all {} "
             "rows a false one is "
             "named with a probability of at most 5 %.\n",
             records.front()["seeds"].get<std::int64_t>(), records.size(), records.size());
}

int bias(const Options& options) {
  const reference::Recipe recipe = recipe_from(options.recipe);
  const auto seeds =
      static_cast<std::int64_t>(whole_number("--seeds", options.seeds, 2, 1'000'000));
  const std::uint64_t first = whole_number("--seed", options.seed, 0, std::uint64_t{1} << 62);
  std::vector<const kernels::Kernel*> kernels;
  const reference::Shape shape = reference::shape_of(recipe);
  for (const std::string& id : options.kernels)
    kernels.push_back(&kernel_named(id, shape));
  if (kernels.empty()) {
    kernels = bias_kernels();
    for (const kernels::Kernel* kernel : kernels)
      if (!kernel->serves(shape))
        throw UsageError(
            fmt::format("d={} dv={}: the kernels that are compared serve d and dv up to {}; want "
                        "--kernel for larger ones",
                        shape.d, shape.dv, kernel->D));
  }
  const std::vector<Json> records = bias_records(kernels, options.recipe, first, seeds);
  if (options.json)
    for (const Json& record : records)
      std::cout << one_line(record) << "\n";
  else
    print(records);
  return kHeld;
}

} // namespace

Command add_bias(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "bias", "Whether a kernel's error leans to one side, with confidence intervals");
  app->footer(fmt::format(
      "V is 1, 0.1, of one sign and of mean zero in turn; the recipe names neither v nor "
      "seed [{}].\n\nExample:\n  fa1lab bias --kernel fa1.Br4xBc2 --kernel "
      "mutant.truncated_sum.Br4xBc2",
      kBiasRecipe));
  app->add_option("RECIPE", options->recipe, "The problem, as `fa1lab list inputs` explains");
  app->add_option(
         "--kernel", options->kernels,
         "A kernel of `fa1lab list kernels`; may be given more than once [one of each variant, two "
         "mutants]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--seeds", options->seeds, "Problems of each kind of V [40]");
  app->add_option("--seed", options->seed, "The first seed [1]");
  app->add_flag("--json", options->json, "Print records instead of a table");
  return {app, [options] { return bias(*options); }};
}

} // namespace fa1::reports
