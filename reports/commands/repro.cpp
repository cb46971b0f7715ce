#include "reports/commands/repro.hpp"

#include "kernels/launch.hpp"
#include "kernels/tiling.hpp"
#include "numerics/bounds.hpp"
#include "numerics/edge_cases.hpp"
#include "numerics/shrunk_case.hpp"
#include "numerics/trace.hpp"
#include "numerics/verdict.hpp"
#include "properties/property.hpp"
#include "reference/certified.hpp"
#include "reports/arguments.hpp"
#include "reports/diagnosis.hpp"
#include "reports/records.hpp"
#include "reports/subject.hpp"
#include "reports/telling.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

namespace fa1::reports {
namespace {

using kernels::Backend;
using kernels::Kernel;
using reference::Problem;

// ---------------------------------------------------------------------------------------------------
// What is asked for
// ---------------------------------------------------------------------------------------------------

std::optional<Backend> backend_of(const ReproOptions& options) {
  if (options.backend.empty())
    return {};
  if (options.backend != "cpu" && options.backend != "cuda")
    throw UsageError("--" + unknown("backend", options.backend, "cpu, cuda"));
  if (options.backend == "cpu")
    return Backend::cpu;
  if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
    throw EnvironmentError(fmt::format("--backend cuda: {}", obstacle));
  return Backend::cuda;
}

std::string_view suffix_of(Backend backend) { return backend == Backend::cuda ? ".cuda" : ".cpu"; }

/// --kernel, on the backend asked for where one is.
const Kernel& kernel_asked(ReproOptions& options, const reference::Shape& shape) {
  const std::optional<Backend> backend = backend_of(options);
  if (!options.choice.plugin.empty()) {
    if (backend)
      throw UsageError(fmt::format("--backend {}: a plug-in has its own", options.backend));
    return options.choice.for_shape(shape);
  }
  if (!backend)
    return options.choice.for_shape(shape);
  const Kernel& named = kernel_named(options.choice.kernel, shape);
  if (named.backend == *backend)
    return options.choice.as_asked(named);
  if (options.choice.kernel == named.id)
    throw UsageError(fmt::format("--kernel {} runs on {}, --backend asks for {}", named.id,
                                 suffix_of(named.backend).substr(1), options.backend));
  const std::string twin =
      named.id.substr(0, named.id.rfind('.')) + std::string(suffix_of(*backend));
  return options.choice.as_asked(kernel_named(twin, shape));
}

/// An exact id wins; a part of one means the instance that has the case's tile.
const Kernel& kernel_asked(ReproOptions& options, const numerics::EdgeCase& edge_case) {
  const std::optional<Backend> backend = backend_of(options);
  if (options.choice.kernel.empty())
    return numerics::kernel_for(edge_case, backend.value_or(Backend::cpu));
  const reference::Shape shape = reference::shape_of(reference::parse_recipe(edge_case.recipe()));
  const Kernel& named = kernel_asked(options, shape);
  return with_tile_of(edge_case, named, options.choice.kernel, backend.value_or(Backend::cpu));
}

Kernel with_schedule(const Kernel& kernel, const std::string& text) {
  if (text.empty())
    return kernel;
  simt::Schedule schedule;
  try {
    schedule = simt::parse_schedule(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--{}", error.what())); // begins with: schedule
  }
  if (kernel.variant == "plugin")
    throw UsageError(fmt::format("--schedule {}: {} has threads of its own", text, kernel.id));
  if (kernel.backend != Backend::cpu)
    throw UsageError(
        fmt::format("--schedule {}: {} runs on a GPU, which has its own; want a kernel on cpu",
                    text, kernel.id));
  Kernel scheduled = kernel;
  scheduled.run = [run = kernel.run, schedule](const kernels::Arguments& arguments,
                                               const kernels::Launch& launch) {
    kernels::Launch other = launch;
    other.schedule = schedule;
    run(arguments, other);
  };
  return scheduled;
}

// ---------------------------------------------------------------------------------------------------
// Telling
// ---------------------------------------------------------------------------------------------------

/// The line to paste, with everything that was asked for.
std::string replay(const ReproOptions& options, std::string_view recipe, const Kernel& kernel) {
  std::string text = properties::replay_line(recipe, kernel, options.invariant);
  if (!options.schedule.empty())
    text += " --schedule " + options.schedule;
  return text;
}

constexpr std::int64_t kEntriesShown = 8;
constexpr std::int64_t kRowsTraced = 4;

std::string hexfloats(std::span<const float> entries) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), kEntriesShown); ++i)
    text += fmt::format("{}{:a}", i == 0 ? "" : " ", entries[i]);
  return text +
         (entries.size() > kEntriesShown ? fmt::format(" ... ({} entries)", entries.size()) : "");
}

/// The inputs that made one element: its query row, and the keys in order of their weight.
void print_inputs(std::ostream& out, const Problem& problem, const numerics::Element& e) {
  const auto q = problem.Q.row(e.batch_head, e.row);
  print_line(out, "inputs",
             fmt::format("scale {:a}, q[{}] = {}", problem.scale, e.row, hexfloats(q)));
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::int64_t j = 0; j < problem.shape.n_kv; ++j) {
    double s = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i)
      s += double{q[i]} * double{problem.K(e.batch_head, j, static_cast<std::int64_t>(i))};
    keys.emplace_back(s * double{problem.scale}, j);
  }
  const auto shown = std::min<std::int64_t>(problem.shape.n_kv, kEntriesShown);
  const auto heavier = [](const auto& a, const auto& b) { // NaN first: it decides
    const double x = std::isnan(a.first) ? INFINITY : a.first,
                 y = std::isnan(b.first) ? INFINITY : b.first;
    return x != y ? x > y : a.second < b.second;
  };
  std::partial_sort(keys.begin(), keys.begin() + shown, keys.end(), heavier);
  for (std::int64_t at = 0; at < shown; ++at) {
    const auto [s, j] = keys[static_cast<std::size_t>(at)];
    std::string v;
    if (e.output == "O")
      v = fmt::format("  v[{},{}] = {:a}", j, e.column, problem.V(e.batch_head, j, e.column));
    print_line(out, "",
               fmt::format("score {:.9g}  k[{}] = {}{}", s, j,
                           hexfloats(problem.K.row(e.batch_head, j)), v));
  }
  if (problem.shape.n_kv > shown)
    print_line(out, "", fmt::format("and {} keys of less weight", problem.shape.n_kv - shown));
}

void print_trace(std::ostream& out, const Problem& problem, const Kernel& kernel,
                 const numerics::Verdict& verdict) {
  std::vector<numerics::QueryRow> rows;
  const std::int64_t count = problem.shape.batch_heads * problem.shape.n_q;
  if (count > kRowsTraced && !verdict.worst.output.empty())
    rows.push_back({verdict.worst.batch_head, verdict.worst.row});
  fmt::print(out, "\n");
  if (!rows.empty())
    fmt::print(out, "row {} of batch-head {}, which holds the worst element of {} rows\n",
               rows[0].row, rows[0].batch_head, count);
  numerics::print(out, numerics::trace(problem, kernel, rows));
}

Json json_of(const numerics::Verdict& verdict) {
  Json json{{"verdict", numerics::name_of(verdict.judgement)}, {"why", verdict.why}};
  if (!verdict.worst.output.empty()) {
    const numerics::Element& e = verdict.worst;
    json["worst"] = {{"output", e.output},
                     {"batch_head", e.batch_head},
                     {"row", e.row},
                     {"column", e.column},
                     {"got", number(e.got)},
                     {"got_hex", fmt::format("{:a}", e.got)},
                     {"truth", number(e.truth.hi + e.truth.lo)},
                     {"error", number(e.error)},
                     {"bound", number(e.bound)},
                     {"ulp", number(e.ulps)},
                     {"fraction", number(e.fraction())}};
  }
  return json;
}

Json json_of(const numerics::Trace& trace) {
  constexpr std::string_view kStates[] = {"right", "suspicious", "off"};
  Json steps = Json::array();
  for (const numerics::TraceStep& step : trace.steps) {
    Json O = Json::array(), truth = Json::array(), ulps = Json::array();
    for (const float o : step.O)
      O.push_back(number(o));
    for (const reference::Enclosed& exact : step.truth)
      truth.push_back(number(exact.hi + exact.lo));
    for (const double u : step.ulps)
      ulps.push_back(number(u));
    steps.push_back({{"batch_head", step.batch_head},
                     {"row", step.row},
                     {"tile", step.tile},
                     {"first_key", step.first_key},
                     {"columns", step.columns},
                     {"m", number(step.m)},
                     {"l", number(step.l)},
                     {"alpha", number(step.alpha)},
                     {"O", O},
                     {"truth", truth},
                     {"ulp", ulps},
                     {"state", kStates[static_cast<std::size_t>(step.state)]},
                     {"why", step.why}});
  }
  return {{"tiles", trace.tiles}, {"left_out", trace.left_out}, {"steps", steps}};
}

// ---------------------------------------------------------------------------------------------------
// The three questions
// ---------------------------------------------------------------------------------------------------

int repro_case(ReproOptions& options, const numerics::EdgeCase& edge_case, std::ostream& out) {
  const Kernel& asked = kernel_asked(options, edge_case);
  if (!numerics::can_express(edge_case, asked)) {
    const numerics::EdgeTile& tile = edge_case.tile();
    throw UsageError(fmt::format(
        "kernel '{}' cannot express edge case '{}'; want an instance with Bc {} {}", asked.id,
        edge_case.id, tile.reach == numerics::EdgeTile::Reach::only ? "=" : ">=", tile.Bc));
  }
  const Kernel kernel = with_schedule(asked, options.schedule);

  const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, kernel);

  const Problem problem = reference::make_problem(reference::parse_recipe(edge_case.recipe()));
  const int status = outcome.as_catalogued ? kHeld : kProvedWrong;
  std::string again = fmt::format("./fa1lab repro {} --kernel {}", edge_case.id, kernel.id);
  if (!options.schedule.empty())
    again += " --schedule " + options.schedule;
  if (options.json) {
    Json json{{"what", "edge-case"},
              {"id", edge_case.id},
              {"section", edge_case.section},
              {"kind", numerics::name_of(edge_case.kind)},
              {"why", edge_case.why},
              {"recipe", edge_case.recipe()},
              {"kernel", kernel.id},
              {"truth", outcome.truth_text},
              {"kernel_gives", outcome.kernel_text},
              {"as_catalogued", outcome.as_catalogued},
              {"detail", outcome.detail}};
    json.update(json_of(outcome.verdict));
    json["why"] = edge_case.why;
    json["verdict_why"] = outcome.verdict.why;
    json["first_bad_tile"] = outcome.first_bad_tile ? Json(*outcome.first_bad_tile) : Json(nullptr);
    json["first_bad_tile_why"] = outcome.why_bad;
    if (options.trace)
      json["trace"] = json_of(numerics::trace(problem, kernel));
    json["reproduce"] = again;
    out << json.dump() << "\n";
    return status;
  }
  print_line(out, "case",
             fmt::format("{} ({}, {})", edge_case.id, numerics::name_of(edge_case.kind),
                         edge_case.section));
  print_line(out, "why", edge_case.why);
  for (const numerics::EdgeExample& example : edge_case.examples)
    print_line(out, "recipe", example.recipe);
  print_line(out, "kernel", kernel.id);
  print_line(out, "truth", outcome.truth_text);
  print_line(out, "gives", outcome.kernel_text);
  print_line(out, "verdict", painted_verdict(outcome.verdict.judgement, outcome.verdict.why));
  if (!outcome.verdict.worst.output.empty())
    print_line(out, "worst", numerics::to_string(outcome.verdict.worst));
  if (outcome.first_bad_tile)
    print_line(out, "parts at",
               fmt::format("tile {}: {}", *outcome.first_bad_tile, outcome.why_bad));
  const bool is_limit = edge_case.kind == numerics::EdgeKind::limit;
  if (outcome.as_catalogued)
    print_line(out, "catalogue",
               painted(is_limit ? "as catalogued: a documented limit of the FA1 recurrence"
                                : "as catalogued: the right answer",
                       is_limit ? Colour::warning : Colour::good));
  else
    print_line(out, "catalogue", painted("NOT as catalogued: ", Colour::bad) + outcome.detail);
  print_line(out, "reproduce", again);
  if (options.trace)
    print_trace(out, problem, kernel, outcome.verdict);
  return status;
}

int repro_law(ReproOptions& options, const reference::Recipe& recipe, const Kernel& kernel,
              std::ostream& out) {
  const properties::Invariant* law = nullptr;
  try {
    law = &properties::find_invariant(options.invariant);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("--{}", error.what())); // begins with: invariant
  }

  const properties::Outcome outcome = properties::check_case(*law, recipe, kernel);

  const bool violated = outcome.answer == properties::Answer::violated;
  const std::string_view answer = violated                                      ? "violated"
                                  : outcome.answer == properties::Answer::holds ? "held"
                                                                                : "not-applicable";
  const std::string text = reference::to_string(recipe);
  if (options.json) {
    out << Json{{"what", "law"},
                {"law", law->id},
                {"recipe", text},
                {"kernel", kernel.id},
                {"answer", answer},
                {"fraction", number(outcome.fraction)},
                {"detail", outcome.detail},
                {"reproduce", replay(options, text, kernel)}}
               .dump()
        << "\n";
    return violated ? kProvedWrong : kHeld;
  }
  print_line(out, "recipe", text);
  print_line(out, "kernel", kernel.id);
  print_line(out, "law",
             fmt::format("{} ({}): {}", law->id, properties::name_of(law->kind), law->says));
  print_line(out, "compares", law->formula);
  print_line(out, "answer",
             painted(answer, violated                                      ? Colour::bad
                             : outcome.answer == properties::Answer::holds ? Colour::good
                                                                           : Colour::faint) +
                 (outcome.detail.empty() ? "" : ": " + outcome.detail));
  if (law->kind != properties::Kind::exact && outcome.answer == properties::Answer::holds)
    print_line(out, "worst", fmt::format("{:.3g} of its bound", outcome.fraction));
  print_line(out, "reproduce", replay(options, text, kernel));
  return violated ? kProvedWrong : kHeld;
}

/// `text` is the recipe, or the file that holds the problem.
int repro_problem(ReproOptions& options, const std::string& text, const Problem& problem,
                  const Kernel& kernel, std::ostream& out) {
  const reference::Shape& shape = problem.shape;
  const reference::Truth truth = reference::certify(problem);
  const numerics::Bounds bounds = numerics::online_softmax(problem, kernel.arithmetic);
  const reference::State state = kernels::run(kernel, problem);
  const numerics::Verdict verdict =
      numerics::judge(problem, state, truth, bounds, kernel.gives_l_and_m);

  const bool wrong = verdict.judgement == numerics::Judgement::proved_wrong;
  const Json diagnosis = wrong ? diagnosis_of(problem, kernel) : Json(nullptr);
  const int status = wrong ? kProvedWrong : kHeld;
  if (options.json) {
    Json json{
        {"what", "repro"}, {"recipe", text}, {"kernel", kernel.id}, {"truth_method", truth.method}};
    json.update(json_of(verdict));
    json["diagnosis"] = diagnosis;
    if (options.trace)
      json["trace"] = json_of(numerics::trace(problem, kernel));
    json["reproduce"] = replay(options, text, kernel);
    out << json.dump() << "\n";
    return status;
  }
  print_line(out, "recipe", text);
  print_line(out, "kernel", kernel.id);
  print_line(
      out, "shape",
      fmt::format("batch-heads {}, n_q {}, n_kv {}, d {}, dv {}; scale {:.9g} ({:a}); {} tile(s) "
                  "of {} keys",
                  shape.batch_heads, shape.n_q, shape.n_kv, shape.d, shape.dv, problem.scale,
                  problem.scale, kernels::parts(shape.n_kv, kernel.Bc), kernel.Bc));
  if (!bounds.obstacle.empty())
    print_line(out, "bound", fmt::format("none: {}", bounds.obstacle));
  else if (!bounds.eta.empty())
    print_line(out, "scores",
               fmt::format("spread {:.3g}, each known to {:.3g}", std::ranges::max(bounds.spread),
                           std::ranges::max(bounds.eta)));
  print_line(out, "truth", truth.method);
  print_line(out, "verdict", painted_verdict(verdict.judgement, verdict.why));
  if (!verdict.worst.output.empty()) {
    print_line(out, "worst", numerics::to_string(verdict.worst));
    print_inputs(out, problem, verdict.worst);
  }
  for (const auto& [name, says] : lines_of(diagnosis))
    print_line(out, name, says);
  print_line(out, "reproduce", replay(options, text, kernel));
  if (options.trace)
    print_trace(out, problem, kernel, verdict);
  return status;
}

int repro_recipe(ReproOptions& options, const reference::Recipe& recipe, std::ostream& out) {
  const Kernel kernel =
      with_schedule(kernel_asked(options, reference::shape_of(recipe)), options.schedule);
  if (options.invariant.empty())
    return repro_problem(options, reference::to_string(recipe), reference::make_problem(recipe),
                         kernel, out);
  const int status = repro_law(options, recipe, kernel, out);
  if (options.trace && !options.json)
    print_trace(out, reference::make_problem(recipe), kernel, {});
  return status;
}

} // namespace

int repro(ReproOptions& options, std::ostream& out) {
  const numerics::EdgeCase* edge_case = edge_case_named(options.what);
  // What the catalogue says of a case is what FA1's own recurrence does.
  if (edge_case != nullptr && options.invariant.empty() && !options.choice.from_outside())
    return repro_case(options, *edge_case, out);
  if (options.invariant.empty()) // a recipe cannot say every problem that a file holds
    if (const auto problem = shrunk_problem(options.what, options.choice);
        problem && !numerics::recipe_of(*problem))
      return repro_problem(options, options.what, *problem,
                           with_schedule(kernel_asked(options, problem->shape), options.schedule),
                           out);
  return repro_recipe(options, recipe_of(options.what, options.choice), out);
}

Command add_repro(CLI::App& program) {
  auto options = std::make_shared<ReproOptions>();
  CLI::App* app = program.add_subcommand(
      "repro", "One edge case, one problem, or one law on one problem, told in full");
  app->footer("Examples:\n  fa1lab repro inf-first-tile --trace\n  fa1lab repro 'n_q=3 n_kv=70 d=5 "
              "dist=normal seed=1'");
  app->add_option(
         "ID|RECIPE|FILE", options->what,
         "An edge case of `fa1lab list cases`, a recipe (holds `=`), or a file that holds one")
      ->required();
  options->choice.add_to(*app, "the case's own, or fa1");
  app->add_option("--backend", options->backend, "cpu or cuda [the kernel's]");
  app->add_flag("--trace", options->trace,
                "The state after every tile, and where it first goes wrong");
  app->add_option("--invariant", options->invariant,
                  "Check this law of `fa1lab list invariants` instead");
  app->add_option("--schedule", options->schedule,
                  "Order of a block's threads: forward, reverse or shuffled:SEED [forward]");
  app->add_flag("--json", options->json, "One record instead of text");
  return {app, [options] { return repro(*options, std::cout); }};
}

} // namespace fa1::reports
