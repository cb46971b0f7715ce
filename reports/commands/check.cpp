#include "reports/commands/check.hpp"

#include "kernels/plugin.hpp"
#include "reports/alarm_runs.hpp"
#include "reports/arguments.hpp"
#include "reports/diagnosis.hpp"
#include "reports/law_runs.hpp"
#include "reports/records.hpp"
#include "reports/self_test.hpp"
#include "reports/sensitivity_runs.hpp"
#include "reports/terminal.hpp"
#include "reports/writers.hpp"
#include "reports/zoo_runs.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {
namespace {

constexpr int kMostCases = 1'000'000;
constexpr const char* kCases = "100";
constexpr const char* kCasesInZoo = "30"; // on each of four tiles

struct Options {
  KernelChoice choice;
  std::string cases, seed = "1", law;
  bool json = false, by_build = false, zoo = false, sensitivity = false, alarms = false;
};

/// `all.cuda`: every kernel of the build cuda.
std::vector<const kernels::Kernel*> kernels_of_build(KernelChoice& choice, std::string_view build) {
  std::vector<const kernels::Kernel*> chosen;
  std::set<std::string_view> builds;
  for (const auto table : {kernels::all_kernels(), kernels::other_builds()})
    for (const kernels::Kernel& kernel : table) {
      builds.insert(kernel.build);
      if (kernel.build == build)
        chosen.push_back(&choice.as_asked(kernel));
    }
  if (chosen.empty())
    throw UsageError(unknown("build", build, fmt::format("{}", fmt::join(builds, ", "))));
  return chosen;
}

std::vector<const kernels::Kernel*> kernels_of(KernelChoice& choice) {
  std::vector<const kernels::Kernel*> chosen;
  if (choice.kernel.starts_with("all.") && choice.plugin.empty()) {
    require_device_for(choice.kernel);
    return kernels_of_build(choice, std::string_view(choice.kernel).substr(4));
  }
  if (choice.kernel == "all" && choice.plugin.empty()) {
    for (const kernels::Kernel& kernel : kernels::all_kernels())
      chosen.push_back(&choice.as_asked(kernel));
    return chosen;
  }
  if (!choice.plugin.empty())
    return {&choice.for_shape(reference::Shape{})};
  // A variant or a tile alone means an instance that serves many shapes, not the one for d = 1.
  reference::Shape shape;
  shape.d = shape.dv = 64;
  for (const auto table : kernels::all_tables())
    for (const kernels::Kernel& kernel : table)
      if (kernel.id == choice.kernel)
        return {&choice.as_asked(kernel)};
  try {
    chosen.push_back(&choice.for_shape(shape));
  } catch (const UsageError&) {
    chosen.push_back(&choice.for_shape(reference::Shape{}));
  }
  return chosen;
}

std::vector<const properties::Invariant*> laws_of(const Options& options) {
  std::vector<const properties::Invariant*> laws;
  for (const properties::Invariant& law : properties::all_invariants())
    if (options.law.empty() || law.id == options.law)
      laws.push_back(&law);
  if (laws.empty())
    properties::find_invariant(options.law); // throws, naming those there are
  return laws;
}

/// One law over several kernels: counts summed, the worst kept, the first violation told.
struct Line {
  int instances = 0, held = 0, not_applicable = 0, violated = 0, suspicious = 0;
  const properties::LawResult* suspicious_at = nullptr;
  double worst = 0.0;
  const properties::LawResult* worst_at = nullptr;
  const properties::LawResult* violation = nullptr;

  void add(const properties::LawResult& result) {
    ++instances;
    held += result.held;
    not_applicable += result.not_applicable;
    violated += result.violated ? 1 : 0;
    suspicious += result.suspicious;
    if (result.suspicious > 0 && suspicious_at == nullptr)
      suspicious_at = &result;
    if (worst_at == nullptr || !(result.worst_fraction <= worst)) {
      worst = result.worst_fraction;
      worst_at = &result;
    }
    if (result.violated && violation == nullptr)
      violation = &result;
  }
};

/// Of a law that holds the output against the truth, on its smallest problem; else null.
Json diagnosis_of(const properties::LawResult& result) {
  if (!result.violated || result.invariant->oracle != properties::Oracle::truth ||
      result.shrunk_recipe.empty())
    return nullptr;
  return diagnosis_apart(reference::parse_recipe(result.shrunk_recipe), *result.kernel);
}

void print(const properties::Invariant& law, std::span<const properties::LawResult> results) {
  Line line;
  for (const properties::LawResult& result : results)
    line.add(result);
  const bool held = line.violation == nullptr && line.held > 0;
  const std::string answer = line.violation != nullptr ? "violated"
                             : held                    ? "held"
                                                       : "not-applicable";
  const Colour colour = line.violation != nullptr ? Colour::bad
                        : held                    ? Colour::good
                                                  : Colour::faint;
  std::string worst;
  if (law.kind != properties::Kind::exact && held)
    worst = fmt::format("worst {:.3g} of its bound", line.worst);
  fmt::print(std::cout, "{:<18} {:<11} {} {:>7} held {:>6} not applicable  {}\n", law.id,
             properties::name_of(law.kind), painted(fmt::format("{:<14}", answer), colour),
             line.held, line.not_applicable, worst);
  if (line.suspicious > 0)
    fmt::print(std::cout, "  suspicious, not wrong, in {} of these: {}\n", line.suspicious,
               properties::replay_line(line.suspicious_at->suspicious_recipe,
                                       *line.suspicious_at->kernel));
  if (line.violation != nullptr) {
    fmt::print(std::cout, "  {}: {}\n  shrunk: {}\n", line.violation->kernel->id,
               line.violation->violation, line.violation->shrunk_recipe);
    for (const auto& [name, says] : lines_of(diagnosis_of(*line.violation)))
      fmt::print(std::cout, "  {}: {}\n", name, says);
    fmt::print(std::cout, "  reproduce: {}\n", line.violation->replay());
  }
}

/// Tells what no law can see of a plug-in.
kernels::Examination examine(const Options& options, const kernels::Kernel& kernel) {
  kernels::Examination result = kernels::examine(kernel);
  for (const kernels::Finding& finding : result.findings) {
    const std::string again = finding.recipe.empty()
                                  ? "./fa1lab check " + kernel.asked_by
                                  : properties::replay_line(finding.recipe, kernel);
    if (options.json)
      std::cout << one_line(Json{{"what", "plug-in"},
                                 {"kernel", kernel.id},
                                 {"answer", "violated"},
                                 {"violation", finding.says},
                                 {"reproduce", again}})
                << "\n";
    else
      fmt::print(std::cout, "{:<18} {:<11} {}\n  {}\n  reproduce: {}\n", "plug-in", "exact",
                 painted("violated", Colour::bad), finding.says, again);
  }
  return result;
}

/// --stranger for the whole zoo: a kernel is named only to have the word checked.
std::string stranger_of(KernelChoice& choice) {
  choice.as_asked(kernels::all_kernels().front());
  return choice.stranger;
}

/// Verdicts on right kernels: the one that is named, or FA1 and all that are written differently.
int check_alarms(Options& options, int cases, std::uint64_t seed) {
  std::vector<const kernels::Kernel*> chosen;
  if (!options.choice.kernel.empty() || !options.choice.plugin.empty())
    chosen = kernels_of(options.choice);
  else {
    chosen.push_back(&kernels::find_kernel("fa1.Br4xBc2xD8.cpu", {1, 1, 1, 8, 8}));
    for (const kernels::Kernel& kernel : kernels::all_rewrites())
      chosen.push_back(&kernel);
  }
  const std::vector<AlarmRow> rows = count_alarms(chosen, cases, seed);
  if (options.json)
    print_json(std::cout, rows, seed);
  else
    print(std::cout, rows);
  return no_false_alarm(rows) ? kHeld : kProvedWrong;
}

/// One record for each law and build.
Json by_build(std::span<const properties::Invariant* const> laws,
              std::span<const kernels::Kernel* const> chosen,
              std::span<const properties::LawResult> results, int cases, std::uint64_t seed) {
  Json records = Json::array();
  for (std::size_t l = 0; l < laws.size(); ++l) {
    std::map<std::string_view, Line> lines;
    for (std::size_t k = 0; k < chosen.size(); ++k)
      lines[chosen[k]->build].add(results[l * chosen.size() + k]);
    for (const auto& [build, line] : lines) {
      const bool errs = line.worst != 0.0;
      records.push_back({{"what", "laws of a build"},
                         {"law", laws[l]->id},
                         {"kind", properties::name_of(laws[l]->kind)},
                         {"build", build},
                         {"cases", cases},
                         {"seed", seed},
                         {"worst_fraction", number(line.worst)},
                         {"worst_kernel", errs ? line.worst_at->kernel->id : ""},
                         {"worst_recipe", errs ? line.worst_at->worst_recipe : ""},
                         {"instances", line.instances},
                         {"held", line.held},
                         {"not_applicable", line.not_applicable},
                         {"violated", line.violated}});
    }
  }
  return records;
}

int check(Options& options) {
  if (options.by_build && !options.json)
    throw UsageError("--by-build says what a record is about; want --json with it");
  const std::string asked = !options.cases.empty() ? options.cases
                            : options.zoo          ? kCasesInZoo
                                                   : kCases;
  const auto cases = static_cast<int>(whole_number("--cases", asked, 1, kMostCases));
  const std::uint64_t seed =
      whole_number("--seed", options.seed, 0, std::numeric_limits<std::uint64_t>::max());
  if (options.zoo) {
    if (!options.choice.kernel.empty() || !options.choice.plugin.empty() || !options.law.empty())
      throw UsageError(
          "--zoo asks all laws of all its kernels; want neither --kernel, --plugin nor "
          "--invariant with it");
    const Zoo zoo = visit(whole_zoo(stranger_of(options.choice)), cases, seed);
    if (options.json)
      std::cout << json_lines(to_json(zoo, cases, seed, Times::with));
    else
      print(std::cout, zoo);
    const std::string& stranger = options.choice.stranger;
    const bool well =
        stranger.empty()
            ? zoo.as_expected()
            : zoo.no_false_alarm() &&
                  zoo.part_caught() >= (stranger == "olm" ? kPartOfStrangers : kPartFromOAlone);
    return well ? kHeld : kProvedWrong;
  }
  if (options.alarms) {
    if (options.zoo || options.sensitivity || !options.law.empty())
      throw UsageError("--alarms counts verdicts; want neither --zoo, --sensitivity nor "
                       "--invariant with it");
    return check_alarms(options, cases, seed);
  }
  if (options.sensitivity) {
    if (options.zoo || options.choice.from_outside() || !options.choice.kernel.empty() ||
        !options.law.empty())
      throw UsageError("--sensitivity measures a kernel of its own; want it alone");
    const auto rows = measure_sensitivity(cases, seed);
    if (options.json)
      print_json(std::cout, rows, cases, seed);
    else
      print(std::cout, rows, cases);
    return kHeld;
  }
  const auto chosen = kernels_of(options.choice);
  std::vector<const properties::Invariant*> laws;
  try {
    laws = laws_of(options);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }

  require_sound_judge();
  bool violated = false, anything_held = false;
  if (!options.choice.plugin.empty() && options.law.empty()) {
    const kernels::Examination examination = examine(options, options.choice.loaded());
    violated = !examination.findings.empty();
    if (!examination.answers)
      return kProvedWrong; // every law would say the same
  }
  const std::vector<properties::LawResult> results = check_all(laws, chosen, cases, seed);

  for (std::size_t law = 0; law < laws.size(); ++law) {
    const auto of_law = std::span(results).subspan(law * chosen.size(), chosen.size());
    for (const properties::LawResult& result : of_law) {
      violated = violated || result.violated;
      anything_held = anything_held || result.held > 0;
      if (options.json && !options.by_build) {
        Json json = to_json(result, cases, seed);
        json["diagnosis"] = diagnosis_of(result);
        std::cout << json.dump() << "\n";
      }
    }
    if (!options.json)
      print(*laws[law], of_law);
  }
  if (options.by_build)
    std::cout << json_lines(by_build(laws, chosen, results, cases, seed));
  else if (!options.json)
    fmt::print(std::cout, "{} on {}, {} cases each, seed {}\n",
               laws.size() == 1 ? "1 law" : fmt::format("{} laws", laws.size()),
               chosen.size() == 1 ? chosen.front()->id
                                  : fmt::format("{} kernel instances", chosen.size()),
               cases, seed);
  if (!violated && !anything_held)
    throw UsageError("check: no law applied to any case; want more --cases or another --kernel");
  return violated ? kProvedWrong : kHeld;
}

} // namespace

Command add_check(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("check", "All invariants on one kernel, or on all of them");
  app->footer("One line for each law: id, kind, held | violated | not-applicable, cases, worst "
              "error as a fraction of\n"
              "its bound. A violation comes with the smallest recipe found and the line that "
              "replays it.\n\n"
              "Examples:\n  fa1lab check --kernel fa1.Br4xBc2xD8.cpu --cases 200\n"
              "  fa1lab check --plugin ./mine.so");
  options->choice.add_to(*app,
                         "fa1; `all`: each; `all.BUILD`: each of one build, such as all.cuda");
  app->add_option("--invariant", options->law,
                  "One law only, as `fa1lab list invariants` names them");
  app->add_option("--cases", options->cases,
                  "Generated problems for each law and kernel [100; --zoo: 30 for each tile]");
  app->add_option("--seed", options->seed, "Seed of the generated problems [1]");
  app->add_flag(
      "--zoo", options->zoo,
      "All laws on all wrong kernels and on right ones written differently: who catches whom");
  app->add_flag(
      "--sensitivity", options->sensitivity,
      "How small a relative error in p, l, alpha, O, a score or an element of V is caught");
  app->add_flag("--alarms", options->alarms,
                "Verdicts on right kernels, counted: nothing may be proved wrong");
  app->add_flag("--json", options->json, "One record for each law and kernel");
  app->add_flag("--by-build", options->by_build, "With --json: one record for each law and build");
  return {app, [options] { return check(*options); }};
}

} // namespace fa1::reports
