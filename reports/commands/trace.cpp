#include "reports/commands/trace.hpp"

#include "numerics/edge_cases.hpp"
#include "numerics/steps.hpp"
#include "reference/recipe.hpp"
#include "reports/arguments.hpp"
#include "reports/output.hpp"
#include "reports/subject.hpp"
#include "reports/trace_records.hpp"
#include "reports/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <string>

namespace fa1::reports {
namespace {

using kernels::Kernel;
using reference::Shape;

struct Options {
  std::string what, out;
  KernelChoice choice;
  bool json = false;
};

const Kernel& kernel_asked(Options& options, const numerics::EdgeCase* edge_case,
                           const Shape& shape) {
  if (edge_case == nullptr || options.choice.from_outside())
    return options.choice.for_shape(shape);
  if (options.choice.kernel.empty())
    return numerics::kernel_for(*edge_case);
  const Kernel& named = options.choice.for_shape(shape);
  return with_tile_of(*edge_case, named, options.choice.kernel, named.backend);
}

void require_known(const Kernel& kernel) {
  if (numerics::algorithm_of(kernel) == nullptr) {
    std::string known;
    for (const numerics::Algorithm& algorithm : numerics::all_algorithms())
      known += fmt::format("{}{}", known.empty() ? "" : ", ", algorithm.variant);
    throw UsageError(fmt::format("kernel '{}': the steps of variant '{}' are not known; want {}, "
                                 "a mutant or a rewrite of fa1",
                                 kernel.id, kernel.variant, known));
  }
}

int trace(Options& options) {
  if (options.out.empty() && !options.json)
    throw UsageError("trace: --out is required; want --out FILE.html, or --json for the records");
  const numerics::EdgeCase* edge_case = edge_case_named(options.what);
  const reference::Recipe recipe = recipe_of(options.what, options.choice);
  const Shape shape = reference::shape_of(recipe);
  const Kernel& kernel = kernel_asked(options, edge_case, shape);
  require_known(kernel);
  require_page_fits(shape, kernel);
  if (!options.out.empty())
    require_writable(options.out);

  const reference::Problem problem = reference::make_problem(recipe);
  const numerics::Steps steps = numerics::steps_of(problem, kernel);
  const Json records = trace_records(recipe, edge_case, problem, kernel, steps);

  if (!options.out.empty()) {
    const std::string page = trace_page(records);
    if (page.size() > static_cast<std::size_t>(kMostPageBytes))
      throw UsageError(fmt::format("trace: these numbers take a page of {:.2f} MiB, more than {}; "
                                   "want a smaller problem",
                                   static_cast<double>(page.size()) / (1 << 20),
                                   kMostPageBytes >> 20));
    write_file(options.out, page);
  }
  const Json& bad = records.front()["first_bad"];
  if (options.json) {
    std::cout << json_lines(records);
  } else {
    fmt::print(std::cout, "{} steps of {} in {}\n", steps.steps.size(), kernel.id, options.out);
    if (!bad.is_null())
      fmt::print(std::cout, "first {} at step {}, row {}, {}: {}\n",
                 bad["state"].get<std::string>(), bad["step"].get<std::size_t>(),
                 bad["row"].get<int>(), bad["quantity"].get<std::string>(),
                 bad["why"].get<std::string>());
  }
  const bool documented = edge_case != nullptr && kernel.variant == "fa1" &&
                          edge_case->kind == numerics::EdgeKind::limit;
  return !bad.is_null() && bad["state"] == "off" && !documented ? kProvedWrong : kHeld;
}

} // namespace

Command add_trace(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "trace", "A page on which the data of a small run moves, step by step");
  app->footer(
      "One offline page: what lies in HBM and SRAM, what each step moves, every number of it, and "
      "where one goes bad first.\nKeys on it: arrows, space, Home, End; h for "
      "hexadecimal; b for the first bad step. At most 64 tiles and 1 MiB.\n\n"
      "Examples:\n  fa1lab trace ascending-every-tile --out t.html\n  fa1lab trace 'n_q=8 n_kv=12 "
      "d=4' --kernel fa1.Br4xBc2 --out t.html");
  app->add_option(
         "ID|RECIPE|FILE", options->what,
         "An edge case of `fa1lab list cases`, a recipe (holds `=`), or a file that holds one")
      ->required();
  options->choice.add_to(*app, "the case's own, or fa1");
  app->add_option("--out", options->out, "The page to write");
  app->add_flag("--json", options->json, "Print the records that the page is drawn from");
  return {app, [options] { return trace(*options); }};
}

} // namespace fa1::reports
