#include "reports/commands/run.hpp"

#include "numerics/sweep.hpp"
#include "reference/files/safetensors.hpp"
#include "reports/arguments.hpp"
#include "reports/diagnosis.hpp"
#include "reports/map_picture.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/plot.hpp"
#include "reports/records.hpp"
#include "reports/subject.hpp"
#include "reports/telling.hpp"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace fa1::reports {
namespace {

struct Options {
  KernelChoice choice;
  std::string what, out, full_map, truth = "auto";
  bool json = false;
};

bool is_svg(const std::string& file) { return file.ends_with(".svg"); }

void require_map(const Options& options, const reference::Recipe& recipe) {
  if (!is_svg(options.full_map) && !options.full_map.ends_with(".png"))
    throw UsageError(
        fmt::format("--full-map {}: want a file name that ends in .png or .svg", options.full_map));
  if (recipe.rows)
    throw UsageError(fmt::format("--full-map: the recipe takes {} of {} rows; want it without "
                                 "rows=, because the map shows all",
                                 *recipe.rows, recipe.n_q));
  const reference::Shape shape = reference::shape_of(recipe);
  if (shape.batch_heads * shape.n_q * shape.dv == 0)
    throw UsageError("--full-map: O has no element; want a problem with some");
  require_gnuplot();
  require_writable(options.full_map);
}

numerics::Record measured_with_map(const Options& options, const reference::Recipe& recipe,
                                   const kernels::Kernel& kernel, reference::TruthSource source) {
  const numerics::MappedSample mapped =
      numerics::sample(recipe, kernel, cores(), source, kMostMapRows, kMostMapColumns);
  const numerics::Record& record = mapped.sample.record;
  const MapPicture picture{
      "map", fmt::format("Error of {} on {}", record.kernel, reference::to_string(recipe)),
      mapped.in_ulp ? "|error| in ulp of the truth (no bound holds)"
                    : "|error| in u sum p|v|, u = 2^-24",
      &mapped.map};
  write_file(options.full_map,
             is_svg(options.full_map) ? alone(draw_svg(picture)) : draw_png(picture));
  return record;
}

void print(const numerics::Record& r, const kernels::Kernel& kernel, const Json& diagnosis) {
  const auto line = [](std::string_view name, std::string_view text) {
    print_line(std::cout, name, text);
  };
  line("recipe", reference::to_string(r.recipe));
  line("kernel", r.kernel);
  line("verdict", painted_verdict(r.verdict.judgement, r.verdict.why));
  if (!r.verdict.worst.output.empty())
    line("worst", numerics::to_string(r.verdict.worst));
  for (const auto& [name, says] : lines_of(diagnosis))
    line(name, says);
  if (r.error.elements > 0) {
    line("error",
         fmt::format(
             "max {:.3g}, RMS {:.3g}, mean {:.3g}, in 2^-24 sum p|v|, over {} elements of O",
             r.error.max_relative, r.error.rms_relative, r.error.mean_relative, r.error.elements));
    line("bound", fmt::format("{:.3g} in the same unit; largest error/bound {:.3g}, median {:.3g}; "
                              "error/expected {:.3g}",
                              r.error.bound_relative, r.error.max_fraction, r.error.median_fraction,
                              r.error.max_expected));
    line("scores", fmt::format("spread {:.3g}, each known to {:.3g}", r.spread, r.eta));
    if (r.not_finite > 0)
      line("", fmt::format("{} elements are NaN or Inf", r.not_finite));
  }
  line("truth", r.truth);
  line("time",
       fmt::format("kernel {:.3g} s ({:.3g} G multiply-adds/s), truth {:.3g} s", r.kernel_seconds,
                   numerics::work_of(r.shape) / r.kernel_seconds * 1e-9, r.truth_seconds));
  line("reproduce", reference::fits_memory(r.shape, r.shape.n_kv)
                        ? properties::replay_line(reference::to_string(r.recipe), kernel)
                        : run_line(r));
}

/// What was run, for whoever has another kernel: `fa1lab judge FILE` reads it, too.
void write_tensors(const std::string& path, const reference::Recipe& recipe,
                   const kernels::Kernel& kernel) {
  const reference::Problem problem = reference::make_problem(recipe);
  const reference::State state = kernels::run(kernel, problem);
  std::map<std::string, reference::TensorToWrite> tensors;
  for (const auto& [name, tensor] : {std::pair("q", &problem.Q), std::pair("k", &problem.K),
                                     std::pair("v", &problem.V), std::pair("o", &state.O)})
    tensors[name] = {{tensor->batch_heads(), tensor->rows(), tensor->columns()},
                     tensor->elements()};
  reference::write_safetensors(path, tensors,
                               {{"what", "fa1lab run"},
                                {"recipe", reference::to_string(recipe)},
                                {"kernel", kernel.id},
                                {"scale", fmt::format("{:a}", problem.scale)}});
}

int run(Options& options) {
  const reference::Recipe recipe = recipe_of(options.what, options.choice);
  const kernels::Kernel& kernel = options.choice.for_shape(reference::shape_of(recipe));

  const reference::TruthSource source = truth_from(options.truth);
  const bool mapped = !options.full_map.empty();
  if (mapped)
    require_map(options, recipe);
  const numerics::Record record =
      mapped ? measured_with_map(options, recipe, kernel, source)
             : numerics::measure(recipe, kernel, cores(), numerics::kChunkBytes, source);
  if (!options.out.empty())
    write_tensors(options.out, recipe, kernel);

  const bool wrong = record.verdict.judgement == numerics::Judgement::proved_wrong;
  // A problem whose keys only pass by in chunks is measured and not searched.
  const bool searched = wrong && reference::fits_memory(record.shape, record.shape.n_kv);
  const Json diagnosis =
      searched ? diagnosis_of(reference::make_problem(recipe), kernel) : Json(nullptr);
  if (options.json) {
    Json json = to_json(record, Times::with);
    json["diagnosis"] = diagnosis;
    std::cout << json.dump() << "\n";
  } else {
    print(record, kernel, diagnosis);
  }
  return wrong ? kProvedWrong : kHeld;
}

} // namespace

Command add_run(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("run", "One run on one kernel: verdict, worst element, timing");
  app->footer("Example:\n  fa1lab run 'n_q=3 n_kv=70 d=5 dist=normal seed=1' --kernel fa1.Br4xBc2");
  app->add_option("RECIPE", options->what,
                  "The problem, as `fa1lab list inputs` explains, or a file that holds one")
      ->required();
  options->choice.add_to(*app, "fa1");
  app->add_option("--out", options->out,
                  "Write q, k, v and the kernel's o to this .safetensors file, too");
  app->add_option("--full-map", options->full_map,
                  "FILE.png or FILE.svg: where in the whole output the error is, as a picture; all "
                  "rows are made, run and certified at once");
  app->add_option("--truth", options->truth,
                  "Who makes the exact answer: cpu, gpu, or auto, which takes a GPU for whole "
                  "matrices where one is")
      ->capture_default_str();
  app->add_flag("--json", options->json, "One record instead of text");
  return {app, [options] { return run(*options); }};
}

} // namespace fa1::reports
