#include "numerics/sweep.hpp"

#include "numerics/error_map.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/key_stream.hpp"
#include "reference/parallel.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>

namespace fa1::numerics {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// ---------------------------------------------------------------------------------------------------
// Axes
// ---------------------------------------------------------------------------------------------------

enum class Values { whole, real, word, list };

struct Key {
  std::string_view name;
  Values values;
};

constexpr std::string_view kKernelKey = "kernel", kSeedKey = "seed";

constexpr auto kKeys = std::to_array<Key>({{"bh", Values::whole},
                                           {"n_q", Values::whole},
                                           {"n_kv", Values::whole},
                                           {"d", Values::whole},
                                           {"dv", Values::whole},
                                           {"rows", Values::whole},
                                           {"scale", Values::real},
                                           {kSeedKey, Values::whole},
                                           {"dist", Values::word},
                                           {"sigma", Values::real},
                                           {"order", Values::word},
                                           {"gap", Values::real},
                                           {"v", Values::word},
                                           {"Q", Values::list},
                                           {"K", Values::list},
                                           {"V", Values::list},
                                           {"scores", Values::list},
                                           {"put", Values::list},
                                           {kKernelKey, Values::word}});

[[noreturn]] void fail(std::string_view axis, std::string_view want) {
  const std::string shown =
      axis.size() <= 60 ? std::string(axis) : std::string(axis.substr(0, 57)) + "...";
  throw SweepError(fmt::format("--vary {}: {}", shown, want));
}

template <class Number> bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string> split(std::string_view axis, std::string_view list, char separator) {
  std::vector<std::string> values;
  for (std::size_t from = 0;;) {
    const std::size_t to = std::min(list.find(separator, from), list.size());
    if (to == from)
      fail(axis, "a value is missing; want KEY=a,b,c or KEY=a..b");
    values.emplace_back(list.substr(from, to - from));
    if (to == list.size())
      return values;
    from = to + 1;
  }
}

/// Position k of n on a logarithmic scale from a to b, both ends exact.
double spaced(double a, double b, std::size_t k, std::size_t n) {
  if (k == 0)
    return a;
  if (k + 1 == n)
    return b;
  return a * std::pow(b / a, static_cast<double>(k) / static_cast<double>(n - 1));
}

[[noreturn]] void fail_as_too_many(std::string_view axis, double count) {
  fail(axis, fmt::format("{:.0f} values; want at most {} of one key, and --yes for a grid of more "
                         "than {} points",
                         count, kMaxValues, kMaxPoints));
}

/// a, a + step, a + 2 step, ... up to b.
std::vector<std::string> even_range(std::string_view axis, const Key& key, std::string_view from,
                                    std::string_view to, std::string_view by) {
  std::vector<std::string> values;
  if (key.values == Values::whole) {
    std::uint64_t a = 0, b = 0, step = 0;
    if (!read(from, a) || !read(to, b) || !read(by, step) || step == 0)
      fail(axis, "want whole numbers on both sides of '..' and a positive step after '+'");
    if (a > b)
      fail(axis, "the range runs backwards; want the smaller end first");
    const std::uint64_t steps = (b - a) / step;
    if (steps >= kMaxValues)
      fail_as_too_many(axis, static_cast<double>(steps) + 1.0);
    for (std::uint64_t k = 0; k <= steps; ++k)
      values.push_back(std::to_string(a + k * step));
    return values;
  }
  double a = 0.0, b = 0.0, step = 0.0;
  if (!read(from, a) || !read(to, b) || !read(by, step) || !std::isfinite(a) || !std::isfinite(b) ||
      !(step > 0.0))
    fail(axis, "want finite numbers on both sides of '..' and a positive step after '+'");
  if (a > b)
    fail(axis, "the range runs backwards; want the smaller end first");
  const double steps = std::floor((b - a) / step + 1e-6);
  if (!(steps < static_cast<double>(kMaxValues)))
    fail_as_too_many(axis, steps + 1.0);
  for (std::size_t k = 0; k <= static_cast<std::size_t>(steps); ++k)
    values.push_back(fmt::format("{}", static_cast<float>(a + static_cast<double>(k) * step)));
  return values;
}

std::vector<std::string> whole_range(std::string_view axis, std::string_view from,
                                     std::string_view to, std::size_t count) {
  std::uint64_t a = 0, b = 0;
  if (!read(from, a) || !read(to, b))
    fail(axis, "want whole numbers on both sides of '..'");
  if (a > b)
    fail(axis, "the range runs backwards; want the smaller end first");
  std::vector<std::string> values;
  if (count == 0) {
    for (std::uint64_t x = a; x < b; x = x == 0 ? 1 : 2 * x) {
      values.push_back(std::to_string(x));
      if (x > std::numeric_limits<std::uint64_t>::max() / 2)
        break;
    }
    values.push_back(std::to_string(b));
    return values;
  }
  if (a == 0)
    fail(axis, "a logarithmic scale has no 0; want both ends positive, or the values in a list");
  std::uint64_t last = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t x =
        k == 0 ? a
        : k + 1 == count
            ? b
            : std::min(b, static_cast<std::uint64_t>(std::round(
                              spaced(static_cast<double>(a), static_cast<double>(b), k, count))));
    if (x != last) // whole numbers that fall together count once
      values.push_back(std::to_string(x));
    last = x;
  }
  return values;
}

std::vector<std::string> real_range(std::string_view axis, std::string_view from,
                                    std::string_view to, std::size_t count) {
  double a = 0.0, b = 0.0;
  if (!read(from, a) || !read(to, b))
    fail(axis, "want numbers on both sides of '..'");
  if (!(a > 0.0 && b > 0.0 && std::isfinite(a) && std::isfinite(b)))
    fail(axis, "a logarithmic scale needs positive ends; want 0 < a <= b, or the values in a list");
  if (a > b)
    fail(axis, "the range runs backwards; want the smaller end first");
  std::vector<double> numbers;
  if (count == 0) {
    for (int decade = 0; a * std::pow(10.0, decade) < b * (1.0 - 1e-9); ++decade)
      numbers.push_back(a * std::pow(10.0, decade));
    numbers.push_back(b);
  } else {
    for (std::size_t k = 0; k < count; ++k)
      numbers.push_back(spaced(a, b, k, count));
  }
  std::vector<std::string> values;
  for (const double x : numbers)
    values.push_back(fmt::format("{}", static_cast<float>(x)));
  return values;
}

/// Where in `b+step` the step's sign is; not that of an exponent.
std::size_t plus_of_step(std::string_view text) {
  for (std::size_t at = 1; at < text.size(); ++at)
    if (text[at] == '+' && text[at - 1] != 'e' && text[at - 1] != 'E')
      return at;
  return std::string_view::npos;
}

std::vector<std::string> range(std::string_view axis, const Key& key, std::string_view list,
                               std::size_t dots) {
  if (key.values == Values::word)
    fail(axis, "this key takes names; want a list a,b,c");
  const std::string_view from = list.substr(0, dots);
  std::string_view to = list.substr(dots + 2);
  std::size_t count = 0;
  if (const std::size_t colon = to.find(':'); colon != std::string_view::npos) {
    if (!read(to.substr(colon + 1), count) || count < 2)
      fail(axis, "want a number of values, 2 or more, after ':'");
    if (count > kMaxValues)
      fail_as_too_many(axis, static_cast<double>(count));
    to = to.substr(0, colon);
  } else if (const std::size_t plus = plus_of_step(to); plus != std::string_view::npos) {
    return even_range(axis, key, from, to.substr(0, plus), to.substr(plus + 1));
  }
  return key.values == Values::whole ? whole_range(axis, from, to, count)
                                     : real_range(axis, from, to, count);
}

/// `base` without the tokens that set one of the axes' keys.
std::string without(std::string_view base, std::span<const Axis> axes) {
  std::string kept;
  for (std::size_t at = 0; at < base.size();) {
    const std::size_t from = base.find_first_not_of(" \t\n", at);
    if (from == std::string_view::npos)
      break;
    at = std::min(base.find_first_of(" \t\n", from), base.size());
    const std::string_view token = base.substr(from, at - from);
    const std::string_view key = token.substr(0, token.find('='));
    if (std::ranges::none_of(axes, [&](const Axis& axis) { return axis.key == key; }))
      kept += std::string(token) + ' ';
  }
  return kept;
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// One measurement
// ---------------------------------------------------------------------------------------------------

double work_of(const reference::Shape& shape) {
  return static_cast<double>(shape.batch_heads) * static_cast<double>(shape.n_q) *
         static_cast<double>(shape.n_kv) * static_cast<double>(shape.d + shape.dv);
}

namespace {

/// Keys that are made, run and certified together: whole tiles, within chunk_bytes, but all of them
/// where the kernel cannot go on from its carries.
std::int64_t keys_at_once(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                          std::int64_t chunk_bytes) {
  const reference::Shape shape = reference::shape_of(recipe);
  const std::int64_t bytes = 4 * shape.batch_heads * (shape.d + shape.dv);
  const std::int64_t fit = chunk_bytes / std::max<std::int64_t>(bytes, 1);
  const std::int64_t wanted = std::max(fit, reference::kMinKeysAtOnce);
  if (shape.n_kv <= wanted || !kernel.resumes)
    return std::max<std::int64_t>(shape.n_kv, 1);
  const std::int64_t Bc = kernel.arithmetic.Bc;
  return std::max(Bc, wanted / Bc * Bc);
}

struct Measured {
  reference::State state;
  reference::Truth truth;
  Bounds bounds;
};

/// Chunk after chunk: the kernel beside the truth, each from where it stood.
Measured measure_chunks(reference::KeyStream& stream, const kernels::Kernel& kernel,
                        const kernels::Launch& launch, unsigned threads, Record& record) {
  reference::State state = reference::start_state(stream.shape());
  reference::Certifier certifier(stream.shape());
  OnlineSoftmaxBound bound(stream.shape(), kernel.arithmetic.over_carries());
  for (std::int64_t c = 0; c < stream.chunks(); ++c) {
    const reference::Problem& chunk = stream.chunk(c);
    const auto job = [&](std::size_t which) {
      const Stopwatch time;
      if (which == 0) {
        state = c == 0 ? kernels::run(kernel, chunk, launch)
                       : kernels::resume(kernel, chunk, state, launch);
        record.kernel_seconds += time.seconds();
      } else {
        certifier.absorb(chunk);
        record.truth_seconds += time.seconds();
        bound.survey(chunk);
      }
    };
    reference::in_parallel(2, threads, job);
  }
  for (std::int64_t c = 0; c < stream.chunks(); ++c)
    bound.weigh(stream.chunk(c), threads);
  return {std::move(state), certifier.truth(), bound.bounds()};
}

Measured measure_at_once(const reference::Problem& problem, const kernels::Kernel& kernel,
                         const kernels::Launch& launch, unsigned threads,
                         reference::TruthSource source, Record& record) {
  const Stopwatch kernel_time;
  reference::State state = kernels::run(kernel, problem, launch);
  record.kernel_seconds = kernel_time.seconds();
  const Stopwatch truth_time;
  reference::Truth truth = reference::truth_of(problem, source, threads);
  record.truth_seconds = truth_time.seconds();
  return {std::move(state), std::move(truth), online_softmax(problem, kernel.arithmetic)};
}

/// The errors of O in u sum p|v|, and beside them the softmax bound of each row in the same unit.
void weigh_elements(const reference::State& state, const reference::Truth& truth,
                    const Bounds& bounds, const reference::Shape& shape, Sample& result) {
  const auto O = state.O.elements();
  const auto exact = truth.O.elements();
  const auto weighted = bounds.weighted.elements();
  const auto columns = static_cast<std::size_t>(shape.dv);
  double squares = 0.0;
  result.errors.reserve(O.size());
  for (std::size_t e = 0; e < O.size(); ++e) {
    const double error = std::fabs(error_of(O[e], exact[e]));
    const double relative = error == 0.0 ? 0.0 : error / (kU * weighted[e]);
    const double line = softmax_bound(shape.n_kv, bounds.spread[e / columns]);
    squares += line * line;
    raise(result.max_softmax, relative / line);
    result.errors.push_back(relative);
  }
  if (!O.empty())
    result.softmax_relative = std::sqrt(squares / static_cast<double>(O.size()));
}

/// What a run is looked at with before it is forgotten.
using SeeRun = std::function<void(const Measured& run, bool bounded)>;

Sample sample_with(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads,
                   std::int64_t chunk_bytes, reference::TruthSource source, const SeeRun& see) {
  const reference::Shape shape = reference::shape_of(recipe);
  const bool by_gpu = reference::made_by_gpu(shape, source);
  reference::KeyStream stream(recipe,
                              by_gpu ? std::max<std::int64_t>(shape.n_kv, 1)
                                     : keys_at_once(recipe, kernel, chunk_bytes),
                              threads);
  const bool at_once = stream.chunks() == 1;
  if (at_once)
    reference::require_memory(stream.shape(), stream.shape().n_kv, "");
  const kernels::Launch launch;
  Sample result;
  Record& record = result.record;
  record.recipe = recipe;
  record.shape = stream.shape();
  record.kernel = kernel.id;
  record.chosen_by = kernel.chosen_by();
  record.backend = kernel.backend;
  record.arithmetic = kernel.arithmetic;
  record.schedule = simt::to_string(launch.schedule);

  const Measured measured =
      at_once ? measure_at_once(stream.chunk(0), kernel, launch, threads, source, record)
              : measure_chunks(stream, kernel, launch, threads, record);
  const auto& [state, truth, bounds] = measured;
  record.truth = truth.method;
  if (!at_once)
    record.truth += fmt::format("; keys in {} chunks", stream.chunks());
  record.error = summarize(state, truth, bounds);
  weigh_elements(state, truth, bounds, stream.shape(), result);
  if (!bounds.obstacle.empty()) { // there is no bound, nor the unit that the errors are told in
    ErrorSummary& e = record.error;
    for (double* none :
         {&e.max_relative, &e.rms_relative, &e.mean_relative, &e.max_fraction, &e.median_fraction,
          &e.max_expected, &e.bound_relative, &e.expected_relative, &e.max_l_relative})
      *none = kNaN;
    std::ranges::fill(result.errors, kNaN);
    result.max_softmax = result.softmax_relative = kNaN;
  }
  record.not_finite =
      std::ranges::count_if(state.O.elements(), [](float x) { return !std::isfinite(x); });
  for (const double eta : bounds.eta)
    record.eta = std::max(record.eta, eta);
  for (const double spread : bounds.spread)
    record.spread = std::max(record.spread, spread);
  record.verdict = judge(stream.chunk(0), state, truth, bounds, kernel.gives_l_and_m);
  see(measured, bounds.obstacle.empty());
  return result;
}

} // namespace

Sample sample(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads,
              std::int64_t chunk_bytes, reference::TruthSource source) {
  return sample_with(recipe, kernel, threads, chunk_bytes, source, [](const Measured&, bool) {});
}

MappedSample sample(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                    unsigned threads, reference::TruthSource source, std::int64_t most_rows,
                    std::int64_t most_columns) {
  MappedSample result;
  const auto draw = [&](const Measured& run, bool bounded) {
    const auto& O = run.state.O;
    const std::int64_t n_q = O.rows(), dv = O.columns(), rows = O.batch_heads() * n_q;
    result.in_ulp = !bounded;
    result.map = ErrorMap(rows, dv, most_rows, most_columns);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t c = 0; c < dv; ++c) {
        const auto e = static_cast<std::size_t>(row * dv + c);
        const reference::Enclosed& truth = run.truth.O.elements()[e];
        const double error = error_of(O.elements()[e], truth);
        const double unit =
            bounded ? kU * run.bounds.weighted.elements()[e] : ulp_of(static_cast<float>(truth.hi));
        result.map.add(
            row, c, cell_of(double{O.elements()[e]}, truth.hi, error == 0.0 ? 0.0 : error / unit));
      }
  };
  result.sample = sample_with(recipe, kernel, threads, reference::kMaxBytes, source, draw);
  return result;
}

Record measure(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads,
               std::int64_t chunk_bytes, reference::TruthSource source) {
  return sample(recipe, kernel, threads, chunk_bytes, source).record;
}

// ---------------------------------------------------------------------------------------------------
// One point over its seeds
// ---------------------------------------------------------------------------------------------------

void Pool::add(const Sample& run) {
  const Record& r = run.record;
  PointRecord& p = point_;
  if (p.runs++ == 0) {
    p.first = r.recipe;
    p.deciding = r;
  }
  const Judgement now = r.verdict.judgement, before = p.deciding.verdict.judgement;
  if (now > before || // Judgement runs from right to wrong
      (now == before && !(r.error.max_fraction <= p.deciding.error.max_fraction)))
    p.deciding = r;
  ++p.judged[static_cast<std::size_t>(r.verdict.judgement)];
  const ErrorSummary& e = r.error;
  const auto n = static_cast<double>(e.elements);
  p.last_seed = r.recipe.seed;
  p.not_finite += r.not_finite;
  raise(p.eta, r.eta);
  raise(p.spread, r.spread);
  ErrorSummary& all = p.error;
  all.elements += e.elements;
  raise(all.max_relative, e.max_relative);
  raise(all.max_ulp, e.max_ulp);
  raise(all.max_fraction, e.max_fraction);
  raise(all.max_expected, e.max_expected);
  raise(all.max_l_relative, e.max_l_relative);
  raise(p.max_softmax, run.max_softmax);
  squares_ += n * e.rms_relative * e.rms_relative;
  sum_ += n * e.mean_relative;
  bound_squares_ += n * e.bound_relative * e.bound_relative;
  expected_squares_ += n * e.expected_relative * e.expected_relative;
  softmax_squares_ += n * run.softmax_relative * run.softmax_relative;
  for (std::size_t bin = 0; bin < kUlpBins; ++bin)
    all.ulp_histogram[bin] += e.ulp_histogram[bin];
  errors_.insert(errors_.end(), run.errors.begin(), run.errors.end());
}

PointRecord Pool::take() {
  if (point_.error.elements > 0) {
    const auto n = static_cast<double>(point_.error.elements);
    point_.error.rms_relative = std::sqrt(squares_ / n);
    point_.error.mean_relative = sum_ / n;
    point_.error.bound_relative = std::sqrt(bound_squares_ / n);
    point_.error.expected_relative = std::sqrt(expected_squares_ / n);
    point_.softmax_relative = std::sqrt(softmax_squares_ / n);
    // NaN, which no order has, counts as larger than everything.
    std::ranges::sort(errors_, [](double a, double b) { return a < b || (b != b && a == a); });
    for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
      const auto rank = static_cast<std::size_t>(std::ceil(kQuantiles[q] * n));
      point_.quantiles[q] = errors_[std::clamp<std::size_t>(rank, 1, errors_.size()) - 1];
    }
  }
  PointRecord done = std::move(point_);
  *this = Pool();
  return done;
}

// ---------------------------------------------------------------------------------------------------
// Many
// ---------------------------------------------------------------------------------------------------

Axis parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    fail(text, "want KEY=LIST, such as n_kv=64..4096");
  const std::string_view name = text.substr(0, equals), list = text.substr(equals + 1);
  const auto* const key = std::ranges::find(kKeys, name, &Key::name);
  if (key == kKeys.end()) {
    std::string names;
    for (const Key& known : kKeys)
      names += (names.empty() ? "" : " ") + std::string(known.name);
    fail(text, fmt::format("a recipe has no key '{}'; want one of {}", name.substr(0, 40), names));
  }
  Axis axis{std::string(name), {}};
  const std::size_t dots = list.find("..");
  if (key->values == Values::list)
    axis.values = split(text, list, '|');
  else if (dots != std::string_view::npos)
    axis.values = range(text, *key, list, dots);
  else
    axis.values = split(text, list, ',');
  if (axis.values.size() > kMaxValues)
    fail_as_too_many(text, static_cast<double>(axis.values.size()));
  return axis;
}

std::vector<Point> expand(std::string_view base, std::span<const Axis> axes) {
  std::size_t count = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b)
      if (axes[a].key == axes[b].key)
        fail(axes[a].key, "is varied twice; want each key once");
    if (axes[a].values.size() > kMaxPoints / count)
      throw SweepError(
          fmt::format("--vary: the grid has more than {} points; want fewer", kMaxPoints));
    count *= axes[a].values.size();
  }
  const std::string fixed = without(base, axes);
  std::vector<Point> points;
  points.reserve(count);
  for (std::size_t at = 0; at < count; ++at) {
    Point point;
    point.values.resize(axes.size());
    std::string text = fixed;
    for (std::size_t a = axes.size(), rest = at; a-- > 0; rest /= axes[a].values.size())
      point.values[a] = axes[a].values[rest % axes[a].values.size()];
    for (std::size_t a = 0; a < axes.size(); ++a)
      text += fmt::format("{}={} ", axes[a].key, point.values[a]);
    point.recipe = reference::parse_recipe(text);
    reference::shape_of(point.recipe);
    points.push_back(std::move(point));
  }
  return points;
}

Grid::Grid(std::string_view base, std::vector<Axis> axes) {
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (axes[a].key == axes[b].key)
        fail(axes[a].key, "is varied twice; want each key once");
  fixed_ = without(base, axes);
  for (Axis& axis : axes) {
    if (axis.key == kSeedKey) {
      for (const std::string& seed : axis.values)
        seeds_.push_back(reference::parse_recipe("seed=" + seed).seed);
      continue;
    }
    if (axis.values.size() > kMostPoints / points_)
      throw SweepError(
          fmt::format("--vary: the grid has more than {} points; want fewer", kMostPoints));
    points_ *= axis.values.size();
    axes_.push_back(std::move(axis));
  }
}

GridPoint Grid::point(std::uint64_t index) const {
  GridPoint point;
  point.values.resize(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0; index /= axes_[a].values.size())
    point.values[a] = axes_[a].values[index % axes_[a].values.size()];
  std::string text = fixed_;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].key == kKernelKey)
      point.kernel = point.values[a];
    else
      text += fmt::format("{}={} ", axes_[a].key, point.values[a]);
  }
  point.recipe = reference::parse_recipe(text);
  if (!seeds_.empty())
    point.recipe.seed = seeds_.front();
  reference::shape_of(point.recipe);
  return point;
}

reference::Recipe Grid::run(const GridPoint& point, std::uint64_t which) const {
  reference::Recipe recipe = point.recipe;
  if (!seeds_.empty())
    recipe.seed = seeds_[which];
  return recipe;
}

Slope log_log_slope(std::span<const double> x, std::span<const double> y) {
  std::vector<double> log_x, log_y;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (x[i] > 0.0 && y[i] > 0.0 && std::isfinite(x[i]) && std::isfinite(y[i])) {
      log_x.push_back(std::log(x[i]));
      log_y.push_back(std::log(y[i]));
    }
  const auto n = static_cast<double>(log_x.size());
  Slope fit{kNaN, kNaN, kNaN, static_cast<int>(log_x.size())};
  if (fit.points < 3)
    return fit;
  double mean_x = 0.0, mean_y = 0.0, xx = 0.0, xy = 0.0, residual = 0.0;
  for (std::size_t i = 0; i < log_x.size(); ++i) {
    mean_x += log_x[i] / n;
    mean_y += log_y[i] / n;
  }
  for (std::size_t i = 0; i < log_x.size(); ++i) {
    xx += (log_x[i] - mean_x) * (log_x[i] - mean_x);
    xy += (log_x[i] - mean_x) * (log_y[i] - mean_y);
  }
  if (!(xx > 0.0))
    return fit;
  fit.slope = xy / xx;
  for (std::size_t i = 0; i < log_x.size(); ++i) {
    const double off = (log_y[i] - mean_y) - fit.slope * (log_x[i] - mean_x);
    residual += off * off;
  }
  const double standard_error = std::sqrt(residual / (n - 2.0) / xx);
  const double t = boost::math::quantile(boost::math::students_t(n - 2.0), 0.975);
  fit.low = fit.slope - t * standard_error;
  fit.high = fit.slope + t * standard_error;
  return fit;
}

} // namespace fa1::numerics
