#include "reports/commands/worst.hpp"

#include "numerics/case_file.hpp"
#include "numerics/search.hpp"
#include "properties/property.hpp"
#include "reports/arguments.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/telling.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

namespace fs = std::filesystem;

struct Options {
  KernelChoice choice;
  BudgetOptions budget;
  std::string recipe, objective = "error", seed = "1", from, out, largest_score;
  std::vector<std::string> vary;
  bool json = false;
};

numerics::WorstSearch search_of(Options& options) {
  numerics::WorstSearch search;
  search.base = options.recipe;
  const reference::Recipe base = recipe_from(options.recipe);
  search.kernel = &options.choice.for_shape(reference::shape_of(base));
  if (options.objective != "error" && options.objective != "bound")
    throw UsageError("--" + unknown("objective", options.objective, "error, bound"));
  search.objective =
      options.objective == "error" ? numerics::Objective::error : numerics::Objective::bound;
  search.seed = whole_number("--seed", options.seed, 0, ~std::uint64_t{0});
  if (!options.largest_score.empty()) {
    const auto number = read_number<double>(options.largest_score);
    if (!number || !(*number > 0.0 && *number <= 1e6))
      throw UsageError(fmt::format("--largest-score {}: want a number above 0, at most 1e6",
                                   options.largest_score.substr(0, 40)));
    search.limits.largest_score = *number;
  }
  for (const std::string& text : options.vary)
    search.axes.push_back(numerics::parse_axis(text));
  if (options.vary.empty())
    search.axes = numerics::open_axes(options.recipe);
  return search;
}

/// The words that give the same again; a search that time ended is told by its evaluations.
std::string command_of(const Options& options, const numerics::WorstSearch& search,
                       const std::string& from, std::int64_t evaluations) {
  std::string text = fmt::format("./fa1lab worst '{}' {} --objective {} --seed {} --evaluations {}",
                                 options.recipe, search.kernel->chosen_by(), options.objective,
                                 search.seed, evaluations);
  for (const std::string& axis : options.vary)
    text += fmt::format(" --vary '{}'", axis);
  if (!options.largest_score.empty())
    text += fmt::format(" --largest-score {}", options.largest_score);
  if (!from.empty())
    text += fmt::format(" --from {}", from);
  return text;
}

Json to_json(const numerics::FoundCase& found, const std::string& replay, const std::string& file) {
  return {{"what", "worst"},
          {"kernel", found.kernel},
          {"objective", numerics::name_of(found.objective)},
          {"error", number(found.peak.error)},
          {"bound", number(found.peak.bound)},
          {"fraction", number(found.peak.fraction)},
          {"unit", "2^-24 sum_j p_j |v_j|"},
          {"evaluations", found.found.back().evaluations},
          {"seed", found.found.back().seed},
          {"recipe", reference::to_string(found.recipe)},
          {"command", found.found.back().command},
          {"file", file.empty() ? Json(nullptr) : Json(file)},
          {"reproduce", replay}};
}

void print(const numerics::FoundCase& found, const std::string& replay, const std::string& file) {
  const auto line = [](std::string_view name, std::string_view text) {
    print_line(std::cout, name, text);
  };
  line("kernel", found.kernel);
  line("error", fmt::format("{:.4g} in 2^-24 sum p|v|, the worst of {} problems", found.peak.error,
                            found.found.back().evaluations));
  line("bound",
       fmt::format("{:.4g} in the same unit; error/bound {:.3g}{}", found.peak.bound,
                   found.peak.fraction,
                   found.peak.fraction > 1.0 ? painted(": proved wrong", Colour::bad) : ""));
  line("again", found.found.back().command);
  if (!file.empty())
    line("file", file);
  line("reproduce", replay);
}

int worst(Options& options) {
  numerics::WorstSearch search = search_of(options);
  numerics::Budget budget = options.budget.budget();
  numerics::FoundCase found;
  found.recipe = recipe_from(options.recipe);
  found.kernel = search.kernel->id;
  found.objective = search.objective;

  fs::path file;
  std::string from = options.from;
  double kept = 0.0; // what the file holds
  if (!options.out.empty()) {
    numerics::require_writable(options.out);
    file = fs::path(options.out) / numerics::case_file_name(found);
    if (fs::exists(file)) {
      kept = numerics::read_case(file).peak.of(search.objective);
      if (from.empty())
        from = file.string();
    }
  }
  std::vector<numerics::FoundBy> before;
  if (!from.empty()) {
    const numerics::FoundCase start = numerics::read_case(from);
    if (reference::shape_of(start.recipe) != reference::shape_of(found.recipe))
      throw UsageError(fmt::format("--from {}: want a case of the recipe's shape", from));
    search.from = start.recipe;
    before = start.found;
  }

  const auto fill = [&](const numerics::Worst& w) {
    found.recipe = w.recipe;
    found.peak = *numerics::peak_of(w.recipe, *search.kernel, search.objective, search.limits);
    found.found = before;
    found.found.push_back(
        {command_of(options, search, from, w.evaluations), search.seed, w.evaluations});
  };
  // After each round, so that a search that somebody ends loses no more.
  bool written = false;
  const auto keep = [&](const numerics::Worst& w) {
    fill(w);
    written = !file.empty() && numerics::rounded(found.peak).of(search.objective) > kept;
    if (written)
      numerics::write_case(file, found);
  };
  Progress progress("worst", 1.0);
  budget.on_spent = [&](double share) { progress.done(share); };

  const numerics::Worst w =
      numerics::find_worst(search, budget, runs_alone(*search.kernel) ? 1 : cores(), keep);

  progress.clear();
  if (std::isinf(w.value) && w.value < 0.0)
    throw UsageError(fmt::format("worst: none of the {} problems counts (their bound fails, their "
                                 "scores carry no digit, or are above --largest-score {})",
                                 w.evaluations, search.limits.largest_score));
  const std::string replay =
      written ? fmt::format("./fa1lab repro {}", file.string())
              : properties::replay_line(reference::to_string(found.recipe), *search.kernel);
  if (options.json)
    std::cout << one_line(to_json(found, replay, file.string())) << "\n";
  else
    print(found, replay, file.string());
  return found.peak.fraction > 1.0 ? kProvedWrong : kHeld;
}

} // namespace

Command add_worst(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand("worst", "Search the problem on which a kernel errs most");
  app->footer("First over recipes (keys that RECIPE does not name, and seeds), then over single "
              "entries of Q, K and V. "
              "A problem counts only where its bound holds, its scores carry a digit, no |scale| "
              "sum |q k| is above "
              "--largest-score, and entries of V are 0 or from 2^-16 to 2^16. What is tried "
              "depends on the seed; time "
              "only cuts it off.\n\n"
              "Example:\n  fa1lab worst 'n_kv=64 d=4' --kernel fa1.Br4xBc2 --objective bound "
              "--seconds 20 --out "
              "worst");
  app->add_option("RECIPE", options->recipe, "Shape and whatever else is to stay as it is")
      ->required();
  options->choice.add_to(*app, "fa1");
  app->add_option("--objective", options->objective,
                  "error, in u sum p|v|, or bound: error/bound [error]");
  options->budget.add_to(*app);
  app->add_option("--seed", options->seed, "Of the search [1]");
  app->add_option("--vary", options->vary,
                  "KEY=LIST as in sweep; in the place of the keys that RECIPE leaves open")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--largest-score", options->largest_score,
                  "Largest |scale| sum |q k| of a problem that counts [32]");
  app->add_option("--from", options->from, "Go on from this case file");
  app->add_option("--out", options->out,
                  "Folder for the case file; where it is there, the search goes on from it and "
                  "replaces it by worse alone");
  app->add_flag("--json", options->json, "One record instead of text");
  return {app, [options] { return worst(*options); }};
}

} // namespace fa1::reports
