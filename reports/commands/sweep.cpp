#include "reports/commands/sweep.hpp"

#include "numerics/sweep.hpp"
#include "reports/arguments.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"
#include "reports/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <memory>

namespace fa1::reports {
namespace {

struct Options {
  KernelChoice choice;
  std::vector<std::string> vary;
  std::string recipe, out;
  bool json = false;
};

std::string header(const std::vector<numerics::Axis>& axes) {
  std::string line;
  for (const numerics::Axis& axis : axes)
    line += fmt::format("{:>12} ", axis.key);
  return line + fmt::format("{:>10} {:>10} {:>10} {:>10} {:>12}  verdict", "max error", "RMS error",
                            "bound", "expected", "error/bound");
}

std::string row(const numerics::Point& point, const numerics::Record& r) {
  std::string line;
  for (const std::string& value : point.values)
    line += fmt::format("{:>12} ", value);
  return line + fmt::format("{:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g} {:>12.4g}  {}",
                            r.error.max_relative, r.error.rms_relative, r.error.bound_relative,
                            r.error.expected_relative, r.error.max_fraction,
                            numerics::name_of(r.verdict.judgement));
}

/// The slope of the RMS error, where one numeric key alone is varied.
void print_slope(const numerics::Axis& axis, const std::vector<numerics::Point>& points,
                 const std::vector<double>& errors) {
  std::vector<double> x;
  for (const numerics::Point& point : points) {
    char* end = nullptr;
    x.push_back(std::strtod(point.values.front().c_str(), &end));
    if (*end != '\0')
      return;
  }
  if (const numerics::Slope fit = numerics::log_log_slope(x, errors);
      fit.points >= 3 && fit.low <= fit.high)
    fmt::print(std::cout,
               "RMS error grows as {}^{:.3f}, 95 % confidence {:.3f} to {:.3f} ({} points)\n",
               axis.key, fit.slope, fit.low, fit.high, fit.points);
}

int sweep(Options& options) {
  std::vector<numerics::Axis> axes;
  for (const std::string& text : options.vary)
    axes.push_back(numerics::parse_axis(text));
  const std::vector<numerics::Point> points = numerics::expand(options.recipe, axes);
  double work = 0.0;
  for (const numerics::Point& point : points) {
    const reference::Shape shape = reference::shape_of(point.recipe);
    options.choice.for_shape(
        shape); // a kernel that does not serve the last point is known before the first
    work += numerics::work_of(shape);
  }
  if (!options.out.empty())
    require_writable(options.out);

  Json records = Json::array();
  std::vector<double> errors;
  bool wrong = false;
  Progress progress("sweep", work);
  if (!options.json)
    std::cout << header(axes) << "\n";
  for (const numerics::Point& point : points) {
    const reference::Shape shape = reference::shape_of(point.recipe);
    const numerics::Record record =
        numerics::measure(point.recipe, options.choice.for_shape(shape), cores());
    progress.done(numerics::work_of(shape));
    progress.clear();
    std::cout << (options.json ? to_json(record, Times::with).dump() : row(point, record))
              << std::endl;
    wrong = wrong || record.verdict.judgement == numerics::Judgement::proved_wrong;
    errors.push_back(record.error.rms_relative);
    if (!options.out.empty())
      records.push_back(to_json(record, Times::with));
  }
  if (!options.json) {
    fmt::print(std::cout,
               "errors in 2^-24 sum p|v|; bound and expected are RMS over the elements\n");
    if (axes.size() == 1)
      print_slope(axes.front(), points, errors);
  }
  if (!options.out.empty()) {
    write_file(options.out,
               options.out.ends_with(".csv") ? csv_of_records(records) : json_lines(records));
    if (!options.json)
      fmt::print(std::cout, "{} records in {}\n", records.size(), options.out);
  }
  return wrong ? kProvedWrong : kHeld;
}

} // namespace

Command add_sweep(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "sweep", "Error growth: one record for each point of a grid of recipes");
  app->footer("KEY=LIST is a key of the recipe with\n"
              "  a,b,c     these values (Q, K, V, scores, put: a|b|c)\n"
              "  a..b      whole numbers: doubling steps; real numbers: steps of ten\n"
              "  a..b:n    n values evenly spaced on a logarithmic scale\n"
              "Several --vary make a grid.\n\n"
              "Example:\n  fa1lab sweep --vary n_kv=64..1048576 'n_q=32 d=64 dist=normal seed=1' "
              "--out growth.csv");
  app->add_option("--vary", options->vary, "KEY=LIST, once for each key that varies")
      ->required()
      ->expected(1)
      ->allow_extra_args(false) // what follows is the recipe
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("RECIPE", options->recipe, "The problem, as `fa1lab list inputs` explains")
      ->required();
  options->choice.add_to(*app, "fa1");
  app->add_option("--out", options->out,
                  "File for the records: one JSON object a line, or CSV where it ends in .csv");
  app->add_flag("--json", options->json, "Print the records instead of a table");
  return {app, [options] {
            try {
              return sweep(*options);
            } catch (const numerics::SweepError& error) {
              throw UsageError(error.what());
            } catch (const reference::RecipeError& error) {
              throw UsageError(error.what());
            }
          }};
}

} // namespace fa1::reports
