#include "reports/costs.hpp"

#include "kernels/kernel.hpp"
#include "numerics/sweep.hpp"
#include "reference/arb_attention.hpp"
#include "reference/attention.hpp"
#include "reference/certified.hpp"
#include "reference/certified_simd.hpp"
#include "reference/recipe.hpp"
#include "reports/command.hpp"
#include "reports/parallel.hpp"
#include "reports/plain_loops.hpp"
#include "reports/terminal.hpp"
#include "reports/vector_peak.hpp"

#include <benchmark/benchmark.h>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/float128.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <type_traits>
#include <utility>
#include <vector>

namespace fa1::reports {
namespace {

namespace mp = boost::multiprecision;
using Quad = mp::float128;
using Bin50 = mp::number<mp::cpp_bin_float<50>, mp::et_off>;
using Mpfr50 = mp::number<mp::mpfr_float_backend<50>, mp::et_off>;
using Mpfi40 = reference::Interval<40>;

using reference::Ball;
using reference::Problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kJudgedRows = 2; ///< and what slow references are timed on
constexpr std::int64_t kArbRows = 8;    ///< the conversion of K and V is shared by so many
constexpr std::int64_t kFastRows = 64;  ///< two groups of rows in certify(), one a thread
constexpr std::int64_t kRowsOfThread = 32;
constexpr const char* kCase = "n_q=32 n_kv=64 d=16";

// ---------------------------------------------------------------------------------------------------
// Accuracy
// ---------------------------------------------------------------------------------------------------

/// A value as an unevaluated sum, and what its maker claims.
struct Element {
  std::array<double, 4> parts{};
  double radius = kNaN;
};

template <class Number> std::array<double, 4> parts_of(Number x) {
  std::array<double, 4> parts{};
  for (double& part : parts) {
    if constexpr (std::is_arithmetic_v<Number>)
      part = static_cast<double>(x);
    else
      part = x.template convert_to<double>();
    x -= static_cast<Number>(part); // exact: the leading digits
  }
  return parts;
}

template <class Number> Element element_of(const Number& x) {
  if constexpr (reference::is_interval<Number>) {
    const auto low = lower(x), high = upper(x);
    using End = std::remove_cv_t<decltype(low)>;
    return {parts_of(End((low + high) / 2)), End((high - low) / 2).template convert_to<double>()};
  } else {
    return {parts_of(x)};
  }
}

Element element_of(const reference::Enclosed& x) { return {{x.hi, x.lo}, x.radius}; }

Element element_of(arb_srcptr x) {
  Element element{{}, mag_get_d(arb_radref(x))};
  Ball rest, part;
  arb_get_mid_arb(rest, x);
  for (double& leading : element.parts) {
    leading = arf_get_d(arb_midref(arb_srcptr(rest)), ARF_RND_NEAR);
    arb_set_d(part, leading);
    arb_sub(rest, rest, part, ARF_PREC_EXACT);
  }
  return element;
}

struct Accuracy {
  double radius = kNaN, error = kNaN; ///< in units of sum_j p_j |v_j|
  bool within = true;                 ///< every error is within its radius, where there is one
};

/// Knows the first rows exactly.
class Judge {
public:
  explicit Judge(const Problem& problem)
      : dv_(problem.shape.dv), elements_(problem.shape.n_q * dv_),
        exact_(reference::arb_attention(problem, kBits)) {
    Problem moduli = problem;
    for (float& v : moduli.V.elements())
      v = std::fabs(v);
    sizes_ = reference::attention<double>(moduli).O;
  }

  template <class At> Accuracy operator()(const At& at) const {
    Accuracy accuracy;
    Ball distance, part;
    for (std::int64_t i = 0; i < elements_; ++i) {
      const Element element = at(i);
      arb_neg(distance, exact_.O[i]);
      for (const double x : element.parts) {
        arb_set_d(part, x);
        arb_add(distance, distance, part, kBits);
      }
      const double error = std::fabs(arf_get_d(arb_midref(arb_srcptr(distance)), ARF_RND_UP)) +
                           mag_get_d(arb_radref(arb_srcptr(distance)));
      if (!std::isnan(element.radius) && !(error <= element.radius))
        accuracy.within = false;
      const double size = sizes_.data()[i];
      accuracy.error = std::fmax(accuracy.error, error / size);
      accuracy.radius = std::fmax(accuracy.radius, element.radius / size);
    }
    return accuracy;
  }

private:
  static constexpr slong kBits = 300;

  std::int64_t dv_, elements_;
  reference::BallAnswer exact_;
  reference::Tensor<double> sizes_;
};

// ---------------------------------------------------------------------------------------------------
// Subjects
// ---------------------------------------------------------------------------------------------------

struct Subject {
  std::string id, says, note;
  std::int64_t rows = 0;
  unsigned threads = 1;
  std::string unit = "multiply-add";
  double units = 0.0; ///< of one call
  std::function<void()> call = {};
  std::function<Accuracy(const Judge&)> accuracy = {}; ///< of what the last call gave
};

/// The problems, each the first rows of one and the same, and what is timed on them.
class Subjects {
public:
  explicit Subjects(const CostSettings& settings) : settings_(settings) {
    const PlainLoops project = project_loops(), as_kernels = kernel_loops();
    const std::string unit = reference::simd::best_unit().name;
    add_certify("certify", "certify()", nullptr, 1, unit);
    for (unsigned threads = 2; threads <= cores(); threads = next_count(threads))
      add_certify(fmt::format("certify-{}-threads", threads),
                  fmt::format("certify(), {} threads", threads), nullptr, threads, unit);
    static const std::vector<reference::simd::Unit> units = reference::simd::all_units();
    for (const reference::simd::Unit& one : units) {
      if (one.name == unit)
        continue; // is certify itself
      add_certify("certify-" + one.name, "certify() on " + one.name, &one, 1, one.name);
    }

    add("double", "plain double loop", kJudgedRows, project.flags,
        [run = project.attention](const Problem& problem) { return run(problem); });
    add("double-opt", "plain double loop, optimised as kernels are", kJudgedRows, as_kernels.flags,
        [run = as_kernels.attention](const Problem& problem) { return run(problem); });
    if (as_kernels.attention_avx2 != nullptr)
      add("double-avx2", "plain double loop with AVX2", kJudgedRows,
          std::string(as_kernels.flags) + " -mavx2",
          [run = as_kernels.attention_avx2](const Problem& problem) { return run(problem); });
    const auto loop = [&]<class Number>(std::type_identity<Number>, const char* id,
                                        const char* says) {
      add(id, says, kJudgedRows, project.flags, reference::attention<Number>);
    };
    loop(std::type_identity<Quad>{}, "float128", "Boost float128, 113 bits");
    loop(std::type_identity<Mpfr50>{}, "mpfr-50", "Boost mpfr_float_50, 168 bits");
    loop(std::type_identity<Bin50>{}, "cpp-bin-50", "Boost cpp_bin_float_50, 168 bits");
    loop(std::type_identity<Mpfi40>{}, "mpfi-40", "MPFI intervals of 40 digits");
    for (const int bits : {113, 128})
      add(fmt::format("arb-{}", bits), fmt::format("Arb balls of {} bits", bits), kArbRows,
          "arb_dot",
          [bits](const Problem& problem) { return reference::arb_attention(problem, bits); });

    const Problem& problem = problem_of(kFastRows);
    const kernels::Kernel& kernel = kernels::find_kernel("fa1", problem.shape);
    add("kernel", kernel.id + " on the executor", kFastRows, as_kernels.flags,
        [&kernel](const Problem& p) { return kernels::run(kernel, p); });
    add("mirror",
        fmt::format("the kernel as plain loops, Bc = {}, sizes known at run time only", kernel.Bc),
        kFastRows, as_kernels.flags,
        [run = as_kernels.mirror, Bc = kernel.Bc](const Problem& p) { return run(p, Bc); });
    add_case();
    add_vector_operation();
  }

  std::deque<Subject>& all() { return subjects_; }

  const Problem& problem_of(std::int64_t rows) {
    const auto found = problems_.find(rows);
    if (found != problems_.end())
      return found->second;
    const std::string recipe =
        fmt::format("n_q={} n_kv={} d={}", rows, settings_.keys, settings_.d);
    return problems_.emplace(rows, reference::make_problem(reference::parse_recipe(recipe)))
        .first->second;
  }

private:
  /// Every number up to 8, then doubled, and always all cores.
  static unsigned next_count(unsigned threads) {
    const unsigned next = threads < 8 ? threads + 1 : 2 * threads;
    return threads < cores() ? std::min(next, cores()) : next;
  }

  static Element element(const reference::Truth& truth, std::int64_t i) {
    return element_of(truth.O.data()[i]);
  }
  template <class Number>
  static Element element(const reference::Answer<Number>& answer, std::int64_t i) {
    return element_of(answer.O.data()[i]);
  }
  static Element element(const reference::BallAnswer& answer, std::int64_t i) {
    return element_of(arb_srcptr(answer.O[i]));
  }
  static Element element(const reference::State& state, std::int64_t i) {
    return element_of(state.O.data()[i]);
  }

  /// `solve` makes an answer of a problem; the last one is kept, to be judged.
  template <class Solve>
  Subject& add(std::string id, std::string says, std::int64_t rows, std::string note,
               const Solve& solve) {
    const Problem& problem = problem_of(rows);
    using Solution = std::invoke_result_t<const Solve&, const Problem&>;
    const auto last = std::make_shared<std::optional<Solution>>();
    Subject subject{std::move(id), std::move(says), std::move(note), rows};
    subject.units = numerics::work_of(problem.shape);
    subject.call = [&problem, last, solve] { last->emplace(solve(problem)); };
    subject.accuracy = [last](const Judge& judge) {
      return judge([&](std::int64_t i) { return element(**last, i); });
    };
    return subjects_.emplace_back(std::move(subject));
  }

  void add_certify(const std::string& id, const std::string& says,
                   const reference::simd::Unit* unit, unsigned threads, const std::string& name) {
    const std::int64_t rows = std::max(kFastRows, kRowsOfThread * std::int64_t{threads});
    add(id, says, rows, fmt::format("{}; {}", project_loops().flags, name),
        [unit, threads](const Problem& problem) {
          return unit == nullptr ? reference::certify(problem, threads)
                                 : reference::simd::certify_on(*unit, problem, false, threads);
        })
        .threads = threads;
  }

  void add_case() {
    const reference::Recipe recipe = reference::parse_recipe(kCase);
    const kernels::Kernel& kernel = kernels::find_kernel("fa1", reference::shape_of(recipe));
    Subject subject{"case", "kernel, truth, bound and verdict of one case",
                    fmt::format("{}, {}", kCase, kernel.id)};
    subject.unit = "case";
    subject.units = 1.0;
    subject.call = [recipe, &kernel] {
      benchmark::DoNotOptimize(numerics::measure(recipe, kernel).error.max_fraction);
    };
    subjects_.push_back(std::move(subject));
  }

  void add_vector_operation() {
    static constexpr std::int64_t kRounds = 10'000;
    const VectorPeak peak = vector_peak();
    Subject subject{
        "vector-operation", "certify's inner loop in registers alone: the peak",
        fmt::format("{}, {} lanes{}", peak.unit, peak.lanes, peak.fused ? "" : ", not fused")};
    subject.unit = "vector operation";
    subject.units = static_cast<double>(kRounds * VectorPeak::kOperations);
    subject.call = [run = peak.run] { benchmark::DoNotOptimize(run(kRounds, 1.5, 0x1p-30)); };
    subjects_.push_back(std::move(subject));
  }

  CostSettings settings_;
  std::map<std::int64_t, Problem> problems_;
  std::deque<Subject> subjects_; // their places must not change
};

// ---------------------------------------------------------------------------------------------------
// Timing
// ---------------------------------------------------------------------------------------------------

void keep_matching(std::deque<Subject>& subjects, const std::string& filter) {
  if (filter.empty())
    return;
  const bool negative = filter.starts_with('-');
  std::string names;
  for (const Subject& subject : subjects)
    names += (names.empty() ? "" : " ") + subject.id;
  try {
    const std::regex expression(filter.substr(negative ? 1 : 0), std::regex::extended);
    std::erase_if(subjects, [&](const Subject& subject) {
      return std::regex_search(subject.id, expression) == negative;
    });
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("--filter '{}' is no regular expression ({}); want one such as "
                                 "'^certify|arb'",
                                 filter.substr(0, 60), error.what()));
  }
  if (subjects.empty())
    throw UsageError(
        fmt::format("--filter '{}' matches no subject; want one that matches any of {}",
                    filter.substr(0, 60), names));
}

/// Nanoseconds of every call, by name; prints nothing.
class Laps : public benchmark::BenchmarkReporter {
public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration)
        times_[run.run_name.function_name].push_back(run.GetAdjustedRealTime());
  }

  const std::vector<double>& of(const std::string& id) { return times_[id]; }

private:
  std::map<std::string, std::vector<double>> times_;
};

Laps timed(std::deque<Subject>& subjects, const CostSettings& settings) {
  std::array<std::string, 2> words{"fa1lab", "--benchmark_enable_random_interleaving=true"};
  std::array<char*, 3> pointers{words[0].data(), words[1].data(), nullptr};
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, pointers.data());
  benchmark::ClearRegisteredBenchmarks();

  // Google Benchmark looks for the number of iterations first, which costs about as much again.
  Progress progress("bench", 2.0 * settings.min_seconds * settings.repetitions *
                                 static_cast<double>(subjects.size()));
  for (Subject& subject : subjects)
    benchmark::RegisterBenchmark(subject.id.c_str(),
                                 [&](benchmark::State& state) {
                                   const auto start = std::chrono::steady_clock::now();
                                   while (state.KeepRunning())
                                     subject.call();
                                   const std::chrono::duration<double> spent =
                                       std::chrono::steady_clock::now() - start;
                                   progress.done(spent.count());
                                 })
        ->MinTime(settings.min_seconds)
        ->Repetitions(settings.repetitions);
  Laps laps;
  benchmark::RunSpecifiedBenchmarks(&laps, ".");
  benchmark::ClearRegisteredBenchmarks();
  return laps;
}

// ---------------------------------------------------------------------------------------------------
// Records
// ---------------------------------------------------------------------------------------------------

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Json null_or(double x) { return std::isnan(x) ? Json(nullptr) : number(x); }

/// What is asked of two times or of an accuracy.
class Goals {
public:
  explicit Goals(const Json& subjects) : subjects_(subjects) {}

  Json all(const CostSettings& settings) {
    const auto certify = ns("certify");
    at_most("radius", "radius of certify, in sum p|v|", 0x1p-85, radius("certify"));
    at_least("arb", "Arb (113 bits or more, the faster) / certify", 40.0,
             ratio(std::min(ns("arb-113"), ns("arb-128")), certify));
    at_least("mpfr", "mpfr_float_50 / certify", 200.0, ratio(ns("mpfr-50"), certify));
    at_least("double", "plain double loop of the same flags / certify", 1.0,
             ratio(ns("double"), certify));
    if (const VectorPeak peak = vector_peak(); peak.fused) {
      const double floor = ns("vector-operation") * certify_operations(settings.d, settings.d) /
                           static_cast<double>(peak.lanes * 2 * settings.d);
      at_least("floor",
               fmt::format("floor by the count of vector operations ({:.3f} ns) / certify", floor),
               0.5, ratio(floor, certify));
    }
    at_least("threads", "certify on one thread / on two", 1.8,
             ratio(certify, ns("certify-2-threads")));
    at_most("kernel", "kernel on the executor / plain mirror loop", 1.3,
            ratio(ns("kernel"), ns("mirror")));
    return std::move(goals_);
  }

private:
  /// NaN where the subject was not timed.
  double field(const char* subject, const char* name) const {
    for (const Json& record : subjects_)
      if (record["subject"] == subject)
        return number_of(record[name]);
    return kNaN;
  }
  double ns(const char* subject) const { return field(subject, "ns"); }
  double radius(const char* subject) const { return field(subject, "radius"); }
  static double ratio(double a, double b) { return a / b; }

  void at_least(const char* id, std::string says, double asked, double measured) {
    add(id, std::move(says), "at least", asked, measured, measured / asked);
  }
  void at_most(const char* id, std::string says, double asked, double measured) {
    add(id, std::move(says), "at most", asked, measured, asked / measured);
  }
  void add(const char* id, std::string says, const char* sense, double asked, double measured,
           double factor) {
    if (!std::isnan(measured))
      goals_.push_back({{"what", "bench-goal"},
                        {"goal", id},
                        {"says", std::move(says)},
                        {"sense", sense},
                        {"asked", asked},
                        {"measured", measured},
                        {"reached", factor >= 1.0},
                        {"factor", factor}});
  }

  const Json& subjects_;
  Json goals_ = Json::array();
};

} // namespace

Json measure_costs(const CostSettings& settings) {
  double load = kNaN;
  if (getloadavg(&load, 1) != 1)
    load = kNaN;
  Subjects subjects(settings);
  keep_matching(subjects.all(), settings.filter);
  Laps laps = timed(subjects.all(), settings);

  std::optional<Judge> judge;
  Json records = Json::array();
  for (const Subject& subject : subjects.all()) {
    const std::vector<double>& ns = laps.of(subject.id);
    Accuracy accuracy;
    if (subject.accuracy) {
      if (!judge)
        judge.emplace(subjects.problem_of(kJudgedRows));
      accuracy = subject.accuracy(*judge);
    }
    const bool of_problem = subject.rows > 0;
    records.push_back({{"what", "bench"},
                       {"subject", subject.id},
                       {"says", subject.says},
                       {"rows", of_problem ? Json(subject.rows) : Json(nullptr)},
                       {"keys", of_problem ? Json(settings.keys) : Json(nullptr)},
                       {"d", of_problem ? Json(settings.d) : Json(nullptr)},
                       {"threads", subject.threads},
                       {"unit", subject.unit},
                       {"ns", std::ranges::min(ns) / subject.units},
                       {"median_ns", median(ns) / subject.units},
                       {"ratio", nullptr},
                       {"radius", null_or(accuracy.radius)},
                       {"error", null_or(accuracy.error)},
                       {"within_radius", accuracy.within},
                       {"note", subject.note}});
  }
  for (const Json& certify : records)
    if (certify["subject"] == "certify") {
      const double base = certify["ns"];
      for (Json& record : records)
        if (record["unit"] == certify["unit"])
          record["ratio"] = record["ns"].get<double>() / base;
      break;
    }
  Json goals = Goals(records).all(settings);
  return {{"keys", settings.keys},
          {"d", settings.d},
          {"repetitions", settings.repetitions},
          {"unit", reference::simd::best_unit().name},
          {"seconds", settings.min_seconds},
          {"load", null_or(load)},
          {"subjects", std::move(records)},
          {"goals", std::move(goals)}};
}

std::string beyond_radius(const Json& costs) {
  std::string names;
  for (const Json& subject : costs["subjects"])
    if (!subject["within_radius"].get<bool>())
      names += (names.empty() ? "" : ", ") + subject["subject"].get<std::string>();
  return names.empty() ? ""
                       : fmt::format("the error is beyond the radius that came with it: {}", names);
}

} // namespace fa1::reports
