#include "reports/collect.hpp"

#include "numerics/edge_cases.hpp"
#include "numerics/sweep.hpp"
#include "reports/family.hpp"
#include "reports/law_runs.hpp"
#include "reports/parallel.hpp"
#include "reports/terminal.hpp"
#include "reports/topics.hpp"
#include "reports/zoo_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace fa1::reports {
namespace {

// ---------------------------------------------------------------------------------------------------
// What is measured
// ---------------------------------------------------------------------------------------------------

/// What a level costs: chosen so that quick ends within 60 s and standard within 4 minutes on two cores.
struct Amount {
  const char* seeds;        ///< of each point of a figure
  bool long_growth;         ///< up to 2^24 keys with d = 64 and 2^27 with d = 1
  int cases;                ///< of each law on each kernel
  bool every_kernel;        ///< or a selection
  bool locate;              ///< look for the tile at which an edge case goes wrong
  std::int64_t family_keys; ///< growth of the family's errors ends there
  int zoo_cases; ///< of each law on each tile of each wrong kernel; 0: the zoo stays shut
};

Amount amount_of(Level level) {
  switch (level) {
  case Level::quick:
    return {"1,2", false, 20, false, false, 4096, 0};
  case Level::standard:
    return {"1,2,3,4,5", false, 25, true, true, 16384, 5};
  case Level::full:
    break;
  }
  return {"1,2,3,4,5,6,7,8", true, 50, true, true, 65536, 30};
}

/// A range of the varied key over which one slope is fitted.
struct Range {
  double low, high;
};

struct FigureSpec {
  const char* id;
  const char* title;
  const char* says; ///< what to look for
  const char* key;
  const char* x_title;
  int x_base;       ///< of the logarithmic axis
  const char* base; ///< recipe
  const char* vary; ///< LIST of the key
  const char* kernel;
  std::vector<Range> fitted;
  const char* seeds = nullptr; ///< absent: the level's
  bool shows_l = false;        ///< the error of l beside that of O
};

/// Three seeds suffice where a point is minutes of work.
constexpr const char* kSeedsOfLongGrowth = "1,2,3";

std::vector<FigureSpec> figure_specs(bool long_growth) {
  std::vector<FigureSpec> specs{
      {"keys-positive",
       "Error against the number of keys, V of one sign",
       "Nothing cancels in V, so every rounding of the carried O stays: the error grows with the "
       "number of tiles.",
       "n_kv",
       "keys N",
       2,
       "n_q=8 d=64 v=positive",
       "64..131072",
       "fa1.Br32xBc32",
       {{64, 1024}, {1024, 131072}}},
      {"keys-normal",
       "Error against the number of keys, V of both signs",
       "The output shrinks as 1/sqrt(N) while sum p|v| does not, and so does most of the error.",
       "n_kv",
       "keys N",
       2,
       "n_q=8 d=64",
       "64..131072",
       "fa1.Br32xBc32",
       {{64, 131072}}},
      {"head",
       "Error against the head dimension",
       "Scores keep their size (scale = 1/sqrt(d)), so only the d roundings of each dot product "
       "are added.",
       "d",
       "head dimension d",
       2,
       "n_q=32 n_kv=1024",
       "1..256",
       "fa1.Br16xBc16",
       {{4, 256}}},
      {"range",
       "Error against the range of the scores",
       "An error of a score is an absolute error of the exponent, so it grows with sigma until one "
       "key takes all the "
       "weight. Further right, where the scores carry no digit or q k overflows, nothing is "
       "promised: undecided, see the "
       "numbers.",
       "sigma",
       "standard deviation of the scores, sigma",
       10,
       "n_q=32 n_kv=1024 d=64",
       "1e-4,1e-3,1e-2,1e-1,1,3,10,30,1e2,1e3,1e4,1e6,1e9,1e18,1e30,1e37",
       "fa1.Br32xBc32",
       {{1e-4, 1e-1}, {1, 1e2}}},
  };
  if (!long_growth)
    return specs;
  for (std::size_t growth : {0, 1}) {
    specs[growth].vary = "1..16777216";
    specs[growth].seeds = kSeedsOfLongGrowth;
  }
  specs[0].fitted = {{64, 1024}, {1024, 16777216}};
  specs[1].fitted = {{64, 16777216}};
  specs.push_back({"keys-narrow",
                   "Error against the number of keys, one column",
                   "d = 1 makes the keys cheap: 27 octaves.",
                   "n_kv",
                   "keys N",
                   2,
                   "n_q=4 d=1 v=positive",
                   "1..134217728",
                   "fa1.Br32xBc32",
                   {{64, 1024}, {1024, 134217728}},
                   kSeedsOfLongGrowth});
  specs.push_back(
      {"stagnation",
       "l stagnates: one key a tile, every score 0",
       "l counts the keys one by one, and 2^24 + 1 rounds to 2^24: from there on l stands "
       "still, and O becomes a sliding mean over the last 2^24 keys or so. No bound is "
       "finite there, since so many roundings may add up to everything: undecided.",
       "n_kv",
       "keys N",
       2,
       "n_q=1 d=1 dist=zero v=index",
       "1024..134217728",
       "fa1.Br1xBc1",
       {{1024, 16777216}},
       kSeedsOfLongGrowth,
       true});
  return specs;
}

/// Where the tile and not the recipe varies.
constexpr const char* kTileRecipe = "n_q=64 n_kv=512 d=8 v=positive";

// ---------------------------------------------------------------------------------------------------
// Figures
// ---------------------------------------------------------------------------------------------------

struct Run {
  std::size_t figure = 0;
  double x = 0.0;
  reference::Recipe recipe;
  const kernels::Kernel* kernel = nullptr;
  numerics::Sample sample;
};

/// All runs at one x as one row.
Json point_of(double x, std::span<const Run* const> runs) {
  numerics::Pool pool;
  for (const Run* run : runs)
    pool.add(run->sample);
  const numerics::PointRecord point = pool.take();
  const numerics::Record& worst = point.deciding;
  return {{"x", x},
          {"runs", runs.size()},
          {"elements", static_cast<double>(point.error.elements)},
          {"not_finite", point.not_finite},
          {"max_error", number(point.error.max_relative)},
          {"max_l_error", number(point.error.max_l_relative)},
          {"rms_error", number(point.error.rms_relative)},
          {"bound", number(point.error.bound_relative)},
          {"expected", number(point.error.expected_relative)},
          {"max_fraction", number(point.error.max_fraction)},
          {"verdict", numerics::name_of(worst.verdict.judgement)},
          {"why", worst.verdict.why},
          {"kernel", worst.kernel},
          {"reproduce", run_line(worst)}};
}

Json slope_of(std::string_view quantity, Range range, std::span<const Run* const> runs,
              auto&& value) {
  std::vector<double> x, y;
  for (const Run* run : runs)
    if (run->x >= range.low && run->x <= range.high) {
      x.push_back(run->x);
      y.push_back(value(run->sample.record));
    }
  const numerics::Slope fit = numerics::log_log_slope(x, y);
  return {{"quantity", quantity},       {"from", range.low},      {"to", range.high},
          {"slope", number(fit.slope)}, {"low", number(fit.low)}, {"high", number(fit.high)},
          {"points", fit.points}};
}

Json figure_of(const FigureSpec& spec, const std::string& command,
               std::span<const Run* const> runs) {
  Json points = Json::array(), slopes = Json::array(), records = Json::array();
  for (std::size_t from = 0; from < runs.size();) {
    std::size_t to = from;
    while (to < runs.size() && runs[to]->x == runs[from]->x)
      ++to;
    points.push_back(point_of(runs[from]->x, runs.subspan(from, to - from)));
    from = to;
  }
  for (const Range range : spec.fitted) {
    slopes.push_back(
        slope_of("RMS error", range, runs, [](const auto& r) { return r.error.rms_relative; }));
    slopes.push_back(
        slope_of("max error", range, runs, [](const auto& r) { return r.error.max_relative; }));
    slopes.push_back(
        slope_of("bound", range, runs, [](const auto& r) { return r.error.bound_relative; }));
  }
  for (const Run* run : runs)
    records.push_back(to_json(run->sample.record, Times::without));
  return {{"id", spec.id},           {"title", spec.title},     {"says", spec.says},
          {"key", spec.key},         {"x_title", spec.x_title}, {"x_base", spec.x_base},
          {"recipe", spec.base},     {"kernel", spec.kernel},   {"reproduce", command},
          {"shows_l", spec.shows_l}, {"points", points},        {"slopes", slopes},
          {"records", records}};
}

struct Figures {
  Json figures = Json::array(), histogram = Json::array();
};

Figures measure_figures(const Amount& amount) {
  std::vector<Run> runs;
  std::vector<std::string> commands;
  const std::vector<FigureSpec> specs = figure_specs(amount.long_growth);
  const numerics::Axis seeds = numerics::parse_axis(std::string("seed=") + amount.seeds);
  for (std::size_t f = 0; f < specs.size(); ++f) {
    const std::string vary = fmt::format("{}={}", specs[f].key, specs[f].vary);
    const char* const own_seeds = specs[f].seeds != nullptr ? specs[f].seeds : amount.seeds;
    commands.push_back(fmt::format("./fa1lab sweep --vary {} --vary seed={} '{}' --kernel {}", vary,
                                   own_seeds, specs[f].base, specs[f].kernel));
    const std::vector<numerics::Axis> axes{numerics::parse_axis(vary),
                                           numerics::parse_axis(std::string("seed=") + own_seeds)};
    for (numerics::Point& point : numerics::expand(specs[f].base, axes)) {
      const kernels::Kernel& kernel =
          kernels::find_kernel(specs[f].kernel, reference::shape_of(point.recipe));
      runs.push_back({f,
                      std::strtod(point.values.front().c_str(), nullptr),
                      std::move(point.recipe),
                      &kernel,
                      {}});
    }
  }
  // One more figure, over the tiles of one head dimension.
  std::map<int, const kernels::Kernel*> by_Bc;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.variant == "fa1" && kernel.D == 8 && kernel.backend == kernels::Backend::cpu &&
        !kernel.arithmetic.contracted)
      by_Bc.emplace(kernel.Bc, &kernel);
  for (const auto& [Bc, kernel] : by_Bc)
    for (const numerics::Point& point : numerics::expand(kTileRecipe, {&seeds, 1}))
      runs.push_back({specs.size(), static_cast<double>(Bc), point.recipe, kernel, {}});

  // Largest first, so that the last core to finish finishes soon.
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto work = [&](std::size_t at) {
    return numerics::work_of(reference::shape_of(runs[at].recipe));
  };
  std::ranges::stable_sort(order, std::greater{}, work);
  double total = 0.0;
  for (const std::size_t at : order)
    total += work(at);
  {
    Progress progress("errors", total);
    in_parallel(runs.size(), [&](std::size_t i) {
      Run& run = runs[order[i]];
      run.sample = numerics::sample(run.recipe, *run.kernel);
      progress.done(work(order[i]));
    });
  }

  Figures result;
  for (std::size_t f = 0; f <= specs.size(); ++f) {
    std::vector<const Run*> of_figure;
    for (const Run& run : runs)
      if (run.figure == f)
        of_figure.push_back(&run);
    if (f < specs.size()) {
      result.figures.push_back(figure_of(specs[f], commands[f], of_figure));
      continue;
    }
    const FigureSpec tiles{
        "tile",
        "Error against the width of the tiles",
        "Narrow tiles round the carried O often, wide ones sum many terms in a row: the error is "
        "least in between, near Bc = N^(2/3). The command is for the narrowest; the numbers name "
        "the others.",
        "Bc",
        "keys a tile, Bc",
        2,
        kTileRecipe,
        "",
        "every fa1 tile with D = 8",
        {}};
    result.figures.push_back(figure_of(
        tiles, fmt::format("./fa1lab run '{}' --kernel {}", kTileRecipe, by_Bc.begin()->second->id),
        of_figure));
  }
  for (const std::size_t f : {std::size_t{0}, std::size_t{1}}) {
    std::array<std::int64_t, numerics::kUlpBins> bins{};
    for (const Run& run : runs)
      if (run.figure == f)
        for (std::size_t bin = 0; bin < bins.size(); ++bin)
          bins[bin] += run.sample.record.error.ulp_histogram[bin];
    result.histogram.push_back({{"figure", specs[f].id},
                                {"name", f == 0 ? "V of one sign" : "V of both signs"},
                                {"bins", bins}});
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------
// Laws and edge cases
// ---------------------------------------------------------------------------------------------------

/// Every tile once, at D = 8, and every head dimension once, in the tile people use, fused and not.
bool in_selection(const kernels::Kernel& kernel) {
  return (kernel.D == 8 && !kernel.arithmetic.contracted) || (kernel.Br == 16 && kernel.Bc == 16);
}

Json check_laws(const Amount& amount, std::uint64_t seed) {
  std::vector<const kernels::Kernel*> chosen;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (amount.every_kernel || in_selection(kernel))
      chosen.push_back(&kernel);
  const auto laws = properties::all_invariants();
  std::vector<const properties::Invariant*> rows;
  for (const properties::Invariant& law : laws)
    rows.push_back(&law);
  const std::vector<properties::LawResult> results = check_all(rows, chosen, amount.cases, seed);

  Json json = Json::array();
  for (std::size_t l = 0; l < laws.size(); ++l) {
    Json of_kernels = Json::array();
    const properties::LawResult* worst = &results[l * chosen.size()];
    const properties::LawResult* violation = nullptr;
    int held = 0, not_applicable = 0;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      const properties::LawResult& result = results[l * chosen.size() + k];
      held += result.held;
      not_applicable += result.not_applicable;
      if (!(result.worst_fraction <= worst->worst_fraction))
        worst = &result;
      if (result.violated && violation == nullptr)
        violation = &result;
      Json record = to_json(result, amount.cases, seed);
      for (const char* same_for_all : {"what", "law", "kind", "cases", "seed"})
        record.erase(same_for_all);
      of_kernels.push_back(std::move(record));
    }
    const bool bitwise = laws[l].kind == properties::Kind::exact;
    json.push_back(
        {{"id", laws[l].id},
         {"kind", properties::name_of(laws[l].kind)},
         {"says", laws[l].says},
         {"formula", laws[l].formula},
         {"answer", violation != nullptr ? "violated"
                    : held > 0           ? "held"
                                         : "not-applicable"},
         {"held", held},
         {"not_applicable", not_applicable},
         {"cases", amount.cases},
         {"worst_fraction", number(worst->worst_fraction)},
         {"worst_kernel", worst->kernel->id},
         {"worst_recipe", worst->worst_recipe},
         {"violation", violation == nullptr ? "" : violation->violation},
         {"reproduce",
          violation != nullptr ? violation->replay()
          : bitwise
              ? fmt::format("./fa1lab check --kernel {} --invariant {} --cases {} --seed {}",
                            chosen.size() == kernels::all_kernels().size() ? std::string("all")
                                                                           : chosen.front()->id,
                            laws[l].id, amount.cases, seed)
              : properties::replay_line(worst->worst_recipe, *worst->kernel, laws[l].id)},
         {"kernels", std::move(of_kernels)}});
  }
  return json;
}

Json to_json(const numerics::EdgeCase& edge_case, const std::string& kernel,
             const numerics::EdgeOutcome& outcome) {
  return {
      {"what", "edge-case"},
      {"id", edge_case.id},
      {"section", edge_case.section},
      {"kind", numerics::name_of(edge_case.kind)},
      {"why", edge_case.why},
      {"recipe", edge_case.recipe()},
      {"kernel", kernel},
      {"truth", outcome.truth_text},
      {"gives", outcome.kernel_text},
      {"as_catalogued", outcome.as_catalogued},
      {"verdict", numerics::name_of(outcome.verdict.judgement)},
      {"detail", outcome.detail},
      {"first_bad_tile", outcome.first_bad_tile ? Json(*outcome.first_bad_tile) : Json(nullptr)},
      {"why_bad", outcome.why_bad},
      {"reproduce", fmt::format("./fa1lab repro {} --trace", edge_case.id)}};
}

Json run_edge_cases(const Amount& amount) {
  const auto cases = numerics::all_edge_cases();
  Progress progress("edge cases", static_cast<double>(cases.size()));
  const auto record_of = [&](std::size_t at) {
    const numerics::EdgeCase& edge_case = cases[at];
    const kernels::Kernel& kernel = numerics::kernel_for(edge_case);
    const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, kernel, amount.locate);
    return to_json(edge_case, kernel.id, outcome);
  };
  const auto texts = in_processes(
      cases.size(), [&](std::size_t at) { return one_line(record_of(at)); },
      [&](std::size_t at, const std::string& why) {
        numerics::EdgeOutcome outcome;
        outcome.detail = why;
        outcome.kernel_text = "nothing";
        return to_json(cases[at], numerics::kernel_for(cases[at]).id, outcome).dump();
      },
      [&](std::size_t) { progress.done(1.0); });
  Json json = Json::array();
  for (const std::string& text : texts)
    json.push_back(Json::parse(text));
  return json;
}

// ---------------------------------------------------------------------------------------------------
// What the laws catch
// ---------------------------------------------------------------------------------------------------

Json visit_zoo(const Amount& amount, std::uint64_t seed) {
  if (amount.zoo_cases == 0)
    return Json::array();
  return to_json(visit(whole_zoo(), amount.zoo_cases, seed), amount.zoo_cases, seed,
                 Times::without);
}

// ---------------------------------------------------------------------------------------------------
// What it comes to
// ---------------------------------------------------------------------------------------------------

/// One line of the first table.
struct Count {
  std::string what;
  std::int64_t asked = 0, held = 0, undecided = 0;
  double worst =
      std::numeric_limits<double>::quiet_NaN(); ///< fraction of the bound; NaN: there is none
  std::string note = {};

  bool fine() const { return held + undecided == asked; }
  Json json() const {
    return {{"what", what},
            {"asked", asked},
            {"held", held},
            {"undecided", undecided},
            {"wrong", asked - held - undecided},
            {"worst_fraction", number(worst)},
            {"note", note}};
  }
};

void raise(double& worst, double value) {
  if (std::isnan(worst) || value > worst)
    worst = value;
}

Json summary_of(const Json& report) {
  std::vector<Count> counts;
  std::int64_t cases = 0, kernels = 0;
  for (const auto& [kind, name] :
       {std::pair{"exact", "laws that hold bit for bit"},
        std::pair{"bound", "laws that hold within a proved bound"},
        std::pair{"statistical",
                  "laws of the error of a whole problem, false alarms below 1e-9"}}) {
    Count laws{name};
    for (const Json& law : report["laws"]) {
      kernels = static_cast<std::int64_t>(law["kernels"].size());
      if (law["kind"] != kind || law["answer"] == "not-applicable")
        continue;
      ++laws.asked;
      laws.held += law["answer"] == "held";
      cases += law["held"].get<std::int64_t>();
      if (law["kind"] != "exact")
        raise(laws.worst, number_of(law["worst_fraction"]));
    }
    laws.note = fmt::format("on each of {} kernel instances", kernels);
    counts.push_back(laws);
  }
  Count errors{"outputs measured against the exact answer"};
  for (const Json& figure : report["figures"])
    for (const Json& record : figure["records"]) {
      const auto elements = record["elements"].get<std::int64_t>();
      errors.asked += elements;
      if (record["verdict"] == "undecided")
        errors.undecided += elements;
      else if (record["verdict"] != "proved wrong") {
        errors.held += elements;
        raise(errors.worst, number_of(record["max_fraction"]));
      }
    }
  errors.note = "undecided: the scores carry no digit, or q k overflows";
  counts.push_back(errors);
  for (const bool contract : {true, false}) {
    Count edges{contract ? "edge cases a kernel must get right"
                         : "edge cases the FA1 recurrence cannot get right"};
    for (const Json& edge_case : report["edge_cases"])
      if ((edge_case["kind"] == "contract") == contract) {
        ++edges.asked;
        edges.held += edge_case["as_catalogued"].get<bool>();
      }
    edges.note = contract ? "the answer is right" : "the answer is the documented wrong one";
    counts.push_back(edges);
  }
  Count pages{"pages of the report, each with many runs"};
  for (const Json& topic : report["topics"]) {
    ++pages.asked;
    pages.held += topic["held"].get<bool>();
  }
  pages.note = "no output on them is proved wrong";
  counts.push_back(pages);

  const bool fine = std::ranges::all_of(counts, &Count::fine);
  const std::int64_t laws = counts[0].asked + counts[1].asked + counts[2].asked;
  const std::int64_t edges = counts[4].asked + counts[5].asked;
  std::string sentence;
  if (fine) {
    sentence = fmt::format(
        "Everything held: {} laws on {} kernel instances over {} generated cases, {} edge cases as "
        "catalogued ({} of them documented limits of the recurrence), and no measured error beyond "
        "{:.2g} of its proved bound.",
        laws, kernels, cases, edges, counts[5].asked, counts[3].worst);
  } else {
    std::string wrong;
    for (const Count& count : counts)
      if (!count.fine())
        wrong += fmt::format("{}{} of {} {}", wrong.empty() ? "" : ", ",
                             count.asked - count.held - count.undecided, count.asked, count.what);
    sentence = fmt::format("Not everything held. Wrong: {}.", wrong);
  }
  Json rows = Json::array();
  for (const Count& count : counts)
    rows.push_back(count.json());
  return {{"held", fine}, {"sentence", sentence}, {"rows", rows}};
}

} // namespace

std::string_view name_of(Level level) {
  return level == Level::quick ? "quick" : level == Level::standard ? "standard" : "full";
}

Json collect(Level level, std::uint64_t seed) {
  const Amount amount = amount_of(level);
  Figures figures = measure_figures(amount);
  Json report{{"what", "fa1lab report"},
              {"level", name_of(level)},
              {"seed", seed},
              {"environment", to_json(environment())},
              {"summary", nullptr},
              {"figures", std::move(figures.figures)},
              {"histogram", std::move(figures.histogram)},
              {"family", compare_family(amount.seeds, amount.family_keys)},
              {"laws", check_laws(amount, seed)},
              {"edge_cases", run_edge_cases(amount)},
              {"zoo", visit_zoo(amount, seed)},
              {"topics", measure_topics({level, seed})}};
  report["summary"] = summary_of(report);
  return report;
}

bool held(const Json& report) { return report["summary"]["held"].get<bool>(); }

} // namespace fa1::reports
