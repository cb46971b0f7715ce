#include "reports/commands/shrink.hpp"

#include "numerics/judge_files.hpp"
#include "numerics/shrink.hpp"
#include "numerics/shrunk_case.hpp"
#include "properties/property.hpp"
#include "reference/files/array_file.hpp"
#include "reports/arguments.hpp"
#include "reports/emit.hpp"
#include "reports/output.hpp"
#include "reports/records.hpp"
#include "reports/subject.hpp"
#include "reports/telling.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

namespace fs = std::filesystem;
using numerics::Shrunk;
using reference::Problem;

struct Options {
  KernelChoice choice;
  std::vector<std::string> what, emit;
  std::string out = "shrunk.safetensors", runs, scale, layout, q = "q", k = "k", v = "v";
  bool json = false;
};

// ---------------------------------------------------------------------------------------------------
// What is to be shrunk
// ---------------------------------------------------------------------------------------------------

/// A problem, and how it is called.
struct Given {
  Problem problem;
  std::string name;
};

Given given_in_files(const Options& options) {
  const auto array = [&](std::size_t i, const std::string& name) {
    const reference::ArrayFile file =
        reference::open_arrays(options.what[options.what.size() == 1 ? 0 : i]);
    return options.what.size() == 1 ? file.array(name) : file.only();
  };
  if (options.choice.kernel.empty() && options.choice.plugin.empty())
    throw UsageError(
        "shrink: files need a kernel that can be run on smaller problems; want --plugin "
        "LIB.so or --kernel K (`fa1lab judge` says what is wrong in an output alone)");
  const std::optional<float> scale = scale_from(options.scale);
  const auto layout = layout_from(options.layout).value_or(numerics::Layout::bhnd);
  std::string name;
  for (const std::string& file : options.what)
    name += (name.empty() ? "" : " ") + file;
  return {
      numerics::problem_of({array(0, options.q), array(1, options.k), array(2, options.v), {}, {}},
                           layout, scale),
      name};
}

bool is_array_file(const std::string& path) {
  std::error_code no_matter;
  const std::string ending = fs::path(path).extension().string();
  return fs::is_regular_file(path, no_matter) &&
         (ending == ".npy" || ending == ".npz" || ending == ".safetensors");
}

Given given(Options& options) {
  if (options.what.size() == 3)
    return given_in_files(options);
  if (options.what.size() != 1)
    throw UsageError(fmt::format("shrink: {} files; want Q K V, one file that holds them, or a "
                                 "recipe",
                                 options.what.size()));
  const std::string& what = options.what[0];
  if (std::optional<Problem> problem = shrunk_problem(what, options.choice))
    return {std::move(*problem), what};
  if (is_array_file(what))
    return given_in_files(options);
  const reference::Recipe recipe = recipe_of(what, options.choice);
  return {reference::make_problem(recipe), reference::to_string(recipe)};
}

// ---------------------------------------------------------------------------------------------------
// Telling
// ---------------------------------------------------------------------------------------------------

Language language_of(const std::string& name) {
  if (name == "c")
    return Language::c;
  if (name == "cuda")
    return Language::cuda;
  if (name == "python")
    return Language::python;
  throw UsageError("--emit " + unknown("language", name, "c, cuda, python"));
}

std::int64_t entries(const Problem& problem) {
  return problem.Q.size() + problem.K.size() + problem.V.size();
}

Json to_json(const reference::Shape& shape) {
  return {{"batch_heads", shape.batch_heads},
          {"n_q", shape.n_q},
          {"n_kv", shape.n_kv},
          {"d", shape.d},
          {"dv", shape.dv}};
}

std::string text_of(const reference::Shape& shape) {
  return fmt::format("batch-heads {}, n_q {}, n_kv {}, d {}, dv {}", shape.batch_heads, shape.n_q,
                     shape.n_kv, shape.d, shape.dv);
}

void line(std::string_view name, std::string_view text) { print_line(std::cout, name, text); }

int nothing(const Options& options, const Given& given, const kernels::Kernel& kernel) {
  const std::string why = "nothing to shrink: nothing is proved wrong here";
  if (options.json)
    std::cout << one_line({{"what", "shrink"},
                           {"from", given.name},
                           {"kernel", kernel.id},
                           {"fault", nullptr},
                           {"why", why}})
              << "\n";
  else
    fmt::print(std::cout, "{}: {} on {}\n", painted(why, Colour::good), kernel.id, given.name);
  return kHeld;
}

std::optional<Shrunk> shrink_on_terminal(const Problem& problem, const kernels::Kernel& kernel,
                                         const numerics::ShrinkLimits& limits) {
  Progress progress("shrink", 1.0);
  const double all = std::log2(1.0 + static_cast<double>(entries(problem)));
  double told = 0.0;
  const auto on_shrunk = [&](const Problem& smaller, std::int64_t) {
    const double done = 1.0 - std::log2(1.0 + static_cast<double>(entries(smaller))) / all;
    progress.done(std::max(0.0, done - told));
    told = std::max(told, done);
  };
  return numerics::shrink(problem, kernel, limits, on_shrunk);
}

int shrink(Options& options) {
  const Given from = given(options);
  const kernels::Kernel& kernel = options.choice.for_shape(from.problem.shape);
  numerics::ShrinkLimits limits;
  if (!options.runs.empty())
    limits.runs = static_cast<std::int64_t>(whole_number("--runs", options.runs, 1, 1'000'000'000));
  std::vector<Language> languages;
  for (const std::string& name : options.emit)
    languages.push_back(language_of(name));
  require_writable(options.out);

  const std::optional<Shrunk> shrunk = shrink_on_terminal(from.problem, kernel, limits);

  if (!shrunk)
    return nothing(options, from, kernel);
  numerics::write_shrunk_case(options.out, *shrunk, kernel, from.name);
  std::vector<std::string> sources;
  for (const Language language : languages) {
    fs::path source = options.out;
    source.replace_extension(ending_of(language));
    write_file(source, emitted(language, *shrunk, kernel, from.name, source.filename().string()));
    sources.push_back(source.string());
  }

  const std::string replay = fmt::format("./fa1lab repro {} {}", options.out, kernel.chosen_by());
  const auto recipe = numerics::recipe_of(shrunk->problem);
  const numerics::WrongRun& run = shrunk->run;
  if (options.json) {
    std::cout << one_line({{"what", "shrink"},
                           {"from", from.name},
                           {"kernel", kernel.id},
                           {"fault", numerics::to_string(run.kind)},
                           {"output", run.kind.output},
                           {"how", run.kind.how},
                           {"looks_like", run.kind.name},
                           {"bound_of", numerics::bound_of(run, kernel)},
                           {"shape_before", to_json(from.problem.shape)},
                           {"shape", to_json(shrunk->problem.shape)},
                           {"runs", shrunk->runs},
                           {"complete", shrunk->complete},
                           {"recipe", recipe ? Json(reference::to_string(*recipe)) : Json(nullptr)},
                           {"file", options.out},
                           {"sources", sources},
                           {"reproduce", replay}})
              << "\n";
    return kProvedWrong;
  }
  line("kernel", kernel.id);
  line("from", text_of(from.problem.shape));
  line("shrunk", fmt::format("{}; {} runs{}", text_of(shrunk->problem.shape), shrunk->runs,
                             shrunk->complete ? "" : ", which were not enough: want more --runs"));
  line("fault", painted(numerics::to_string(run.kind), Colour::bad));
  if (!run.kind.failed())
    line("worst", numerics::to_string(run.verdict.worst));
  line("bound of", numerics::bound_of(run, kernel));
  line("file", options.out);
  for (std::size_t i = 0; i < sources.size(); ++i)
    line("source", build_of(languages[i], sources[i]));
  line("reproduce", replay);
  if (recipe)
    line("or", properties::replay_line(reference::to_string(*recipe), kernel));
  return kProvedWrong;
}

} // namespace

Command add_shrink(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "shrink", "The smallest problem on which a kernel is wrong in the same way, to be mailed");
  app->footer(
      "Heads, rows, keys, components, columns; then entries to 0, then values to short ones. Kept: "
      "O "
      "wrong, or l and m alone;\nbeyond the bound, or NaN and Inf where they have no business; and "
      "the known fault that the answer looks like.\nStatus 1: shrunk, and still wrong; 0: nothing "
      "is "
      "wrong, nothing is written.\n\n"
      "Examples:\n  fa1lab shrink 'bh=4 n_q=512 n_kv=512 d=8' --kernel mutant.no_alpha_on_O --emit "
      "c\n  fa1lab shrink q.npy k.npy v.npy --plugin ./mine.so --out case.safetensors --emit cuda");
  app->add_option("RECIPE|FILES", options->what,
                  "A recipe, an edge case, a case file; or Q K V in three files or one (npy, npz, "
                  "safetensors)")
      ->required()
      ->expected(1, 4);
  options->choice.add_to(*app, "the case file's, or fa1");
  app->add_option("--out", options->out, "The case file [shrunk.safetensors]");
  app->add_option(
         "--emit", options->emit,
         "c, cuda or python: a source beside the case file that needs nothing of ours; may "
         "be given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--runs", options->runs, "Runs of the kernel, at most [20000]");
  app->add_option("--q", options->q, "Name of Q in the one file [q]");
  app->add_option("--k", options->k, "Name of K [k]");
  app->add_option("--v", options->v, "Name of V [v]");
  app->add_option("--scale", options->scale, "Of files: factor on q.k [fp32(1/sqrt d)]");
  app->add_option("--layout", options->layout,
                  "Of files: bhnd or bnhd, where there are four axes [bhnd]");
  app->add_flag("--json", options->json, "One record instead of text");
  return {app, [options] { return shrink(*options); }};
}

} // namespace fa1::reports
