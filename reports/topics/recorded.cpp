#include "reports/topics/recorded.hpp"

#include "numerics/bounds.hpp"
#include "numerics/diagnosis_faults.hpp"
#include "numerics/judge_sums.hpp"
#include "numerics/sweep.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/recorded.hpp"
#include "reports/parallel.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

constexpr const char* kKernel = "fa1.Br16xBc16xD32.cpu";

/// Errors below are those of an exact output whose truth is not a float; they have no place on a log axis.
constexpr double kExact = 1e-9;
double or_zero(double error) { return error > kExact ? error : 0.0; }

/// What synthetic inputs are made of, in the shape of the heads.
constexpr std::array kSynthetic{"dist=zero",       "dist=normal",   "sigma=4",
                                "sigma=16",        "dist=outliers", "v=positive",
                                "order=ascending", "order=tied",    "order=dominant"};

struct Input {
  std::string name, kind, recipe;
  numerics::Record record = {};
  numerics::RowStatistics rows = {};
  double new_maxima = 0.0; ///< later tiles that set one, mean over the rows
};

std::int64_t rows_of(Level level) {
  switch (level) {
  case Level::quick:
    return 16;
  case Level::standard:
    return 64;
  default:
    return 512;
  }
}

std::vector<Input> all_inputs(const TopicAmount& amount) {
  const auto& heads = reference::recording().heads;
  const std::string ending = fmt::format(" rows={} seed={}", rows_of(amount.level), amount.seed);
  std::vector<Input> inputs;
  for (const reference::RecordedHead& head : heads)
    inputs.push_back({head.name, "real", fmt::format("recorded={}{}", head.name, ending)});
  for (const char* family : kSynthetic)
    inputs.push_back({family, "synthetic",
                      fmt::format("n_q={} n_kv={} d={} {}{}", heads[0].rows, heads[0].rows,
                                  heads[0].columns, family, ending)});
  return inputs;
}

/// R of bounds.hpp, as the exact scores have it.
double mean_new_maxima(const reference::Problem& problem, std::int64_t Bc) {
  std::int64_t found = 0;
  for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
    double m = -std::numeric_limits<double>::infinity(), before = m;
    std::int64_t j = 0;
    for (const double dot : numerics::dots_of(problem, {0, r})) {
      if (j % Bc == 0)
        before = m;
      m = std::max(m, dot * double{problem.scale});
      ++j;
      if (j > Bc && (j % Bc == 0 || j == problem.shape.n_kv) && m > before)
        ++found;
    }
  }
  return static_cast<double>(found) / static_cast<double>(problem.shape.n_q);
}

void measure(Input& input) {
  const reference::Recipe recipe = reference::parse_recipe(input.recipe);
  const kernels::Kernel& kernel = kernels::find_kernel(kKernel, reference::shape_of(recipe));
  input.recipe = reference::to_string(recipe);
  input.record = numerics::measure(recipe, kernel);
  const reference::Problem problem = reference::make_problem(recipe);
  numerics::RowSums sums;
  sums.add(problem, reference::certify(problem),
           numerics::online_softmax(problem, kernel.arithmetic));
  input.rows = sums.result();
  input.new_maxima = mean_new_maxima(problem, kernel.Bc);
}

Json record_of(const Input& input, std::size_t row) {
  const numerics::ErrorSummary& error = input.record.error;
  return {{"number", row},
          {"input", input.name},
          {"kind", input.kind},
          {"rms", number(error.rms_relative)},
          {"largest", number(error.max_relative)},
          {"mean", number(error.mean_relative)},
          {"bound", number(error.bound_relative)},
          {"fraction", number(error.max_fraction)},
          {"expected", number(error.expected_relative)},
          {"entropy", number(input.rows.entropy.median)},
          {"new_maxima", number(input.new_maxima)},
          {"condition", number(input.rows.condition.median)},
          {"spread", number(input.record.spread)},
          {"verdict", numerics::name_of(input.record.verdict.judgement)},
          {"recipe", input.recipe}};
}

/// The smallest and the largest of a quantity over the inputs of a kind.
struct Range {
  const Input *low = nullptr, *high = nullptr;
};
template <class Quantity>
Range range_of(const std::vector<Input>& inputs, std::string_view kind, const Quantity& quantity) {
  Range range;
  for (const Input& input : inputs) {
    if (input.kind != kind)
      continue;
    if (range.low == nullptr || quantity(input) < quantity(*range.low))
      range.low = &input;
    if (range.high == nullptr || quantity(input) > quantity(*range.high))
      range.high = &input;
  }
  return range;
}

template <class Quantity>
std::string told(const std::vector<Input>& inputs, std::string_view kind,
                 const Quantity& quantity) {
  const Range range = range_of(inputs, kind, quantity);
  return fmt::format("{:.3g} ({}) to {:.3g} ({})", quantity(*range.low), range.low->name,
                     quantity(*range.high), range.high->name);
}

Json sentences_of(const std::vector<Input>& inputs) {
  const auto both = [&](const char* says, const auto& quantity) {
    return fmt::format("{}: {} on real heads, {} on synthetic inputs.", says,
                       told(inputs, "real", quantity), told(inputs, "synthetic", quantity));
  };
  const auto fraction = [](const Input& input) { return or_zero(input.record.error.max_fraction); };
  const Input& real = *range_of(inputs, "real", fraction).high;
  const Input& synthetic = *range_of(inputs, "synthetic", fraction).high;
  return {
      fmt::format("Closest to its bound comes, of the real heads, {} with {:.2g} of it, and of the "
                  "synthetic inputs {} with {:.2g}.",
                  real.name, fraction(real), synthetic.name, fraction(synthetic)),
      both("RMS error in u sum p|v|",
           [](const Input& input) { return or_zero(input.record.error.rms_relative); }),
      both("Largest error as a part of its bound", fraction),
      both("Entropy of a row, median, in nats",
           [](const Input& input) { return input.rows.entropy.median; }),
      both("Later tiles that set a new maximum, of 31, mean over the rows",
           [](const Input& input) { return input.new_maxima; }),
      both("Condition sum p|v| / |o| of the worst column of a row, median",
           [](const Input& input) { return input.rows.condition.median; }),
      fmt::format("Real heads: {} of {}.", reference::recording().heads.size(),
                  reference::recording().provenance),
  };
}

template <class X, class Y>
Json points_of(const std::vector<Input>& inputs, std::string_view kind, const X& x, const Y& y) {
  Json points = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].kind == kind && y(inputs[i]) > kExact)
      points.push_back({number(x(inputs[i], i)), number(y(inputs[i]))});
  return points;
}

} // namespace

Json measure_recorded(const TopicAmount& amount) {
  std::vector<Input> inputs = all_inputs(amount);
  in_parallel(inputs.size(), [&](std::size_t i) { measure(inputs[i]); });

  Json records = Json::array(), ticks = Json::array(), reproduce = Json::array();
  bool held = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    records.push_back(record_of(inputs[i], i + 1));
    ticks.push_back({i + 1, fmt::format("{}", i + 1)});
    held = held && inputs[i].record.verdict.judgement != numerics::Judgement::proved_wrong;
  }
  for (const std::size_t i : {std::size_t{0}, inputs.size() - 1})
    reproduce.push_back(fmt::format("./fa1lab run '{}' --kernel {}", inputs[i].recipe, kKernel));

  const auto rms = [](const Input& input) { return input.record.error.rms_relative; };
  const auto row = [](const Input&, std::size_t i) { return static_cast<double>(i + 1); };
  const auto both = [&](const auto& x, const auto& y) {
    return Json{series("real heads", "points", 1, points_of(inputs, "real", x, y)),
                series("synthetic", "points", 2, points_of(inputs, "synthetic", x, y))};
  };
  Json errors = both(row, rms);
  const auto of_all = [&](const auto& y) {
    Json points = Json::array();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (y(inputs[i]) > kExact)
        points.push_back({i + 1, number(y(inputs[i]))});
    return points;
  };
  errors.push_back(series("largest", "points", 3, of_all([](const Input& input) {
                            return input.record.error.max_relative;
                          })));
  errors.push_back(series("bound, RMS", "points", 4, of_all([](const Input& input) {
                            return input.record.error.bound_relative;
                          })));
  return {
      {"sentences", sentences_of(inputs)},
      {"plots",
       {plot("errors", "Error and bound of each input", {"row of the table", "u sum p|v|", 0},
             "RMS error, largest error and bound.", std::move(errors), std::move(ticks)),
        plot("entropy", "Error against the entropy of the rows",
             {"entropy, median, nats", "RMS error, u sum p|v|", 0},
             "Rows that look at many keys average their errors.",
             both([](const Input& input, std::size_t) { return input.rows.entropy.median; }, rms)),
        plot("maxima", "Error against the number of new maxima",
             {"later tiles with a new maximum, mean", "RMS error, u sum p|v|", 0},
             "Each new maximum rounds what was carried once more.",
             both([](const Input& input, std::size_t) { return input.new_maxima; }, rms))}},
      {"tables",
       {table("inputs", "Real heads and synthetic families",
              fmt::format("{}; n_kv 512, d 32, {} of 512 query rows. Errors and bounds in u sum "
                          "p|v|, u = 2^-24.",
                          kKernel, rows_of(amount.level)),
              {{"number", "row"},
               {"input", "input"},
               {"kind", "kind"},
               {"rms", "RMS error"},
               {"largest", "largest"},
               {"mean", "mean"},
               {"bound", "bound, RMS"},
               {"fraction", "largest error/bound"},
               {"expected", "expected, RMS"},
               {"entropy", "entropy, nats"},
               {"new_maxima", "new maxima"},
               {"condition", "condition"},
               {"spread", "largest M - s"}},
              std::move(records))}},
      {"reproduce", std::move(reproduce)},
      {"held", held}};
}

} // namespace fa1::reports
