#include "reports/family.hpp"

#include "kernels/traffic.hpp"
#include "numerics/sweep.hpp"
#include "reports/parallel.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace fa1::reports {
namespace {

constexpr const char* kRecipe = "n_q=32 d=8 v=positive";
constexpr const char* kTrafficRecipe = "n_q=256 n_kv=256 d=64";

struct Run {
  const kernels::Kernel* kernel;
  std::int64_t keys;
  std::string seed;
  reference::Recipe recipe;
  numerics::Sample sample;
};

bool in_a_ratio(std::string_view variant) { return variant == "fa1" || variant == "fa1_deferred"; }

/// `all`, or what the ratios are made of.
std::vector<Run> measure_growth(const std::string& seeds, std::int64_t most_keys, bool all) {
  std::vector<Run> runs;
  const std::vector<numerics::Axis> axes{
      numerics::parse_axis(fmt::format("n_kv=16..{}", most_keys)),
      numerics::parse_axis("seed=" + seeds)};
  for (const std::string& variant : variants())
    for (const bool contracted : {false, true})
      if (const kernels::Kernel* kernel = representative(variant, contracted))
        for (const numerics::Point& point : numerics::expand(kRecipe, axes))
          if ((all && !contracted) || (in_a_ratio(variant) && point.recipe.n_kv >= kFromKeys))
            runs.push_back({kernel, point.recipe.n_kv, point.values[1], point.recipe, {}});

  std::vector<std::size_t> order(runs.size()); // largest first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return runs[i].keys; });
  double total = 0.0;
  for (const Run& run : runs)
    total += static_cast<double>(run.keys);
  Progress progress("the family", total);
  in_parallel(runs.size(), [&](std::size_t i) {
    Run& run = runs[order[i]];
    run.sample = numerics::sample(run.recipe, *run.kernel);
    progress.done(static_cast<double>(run.keys));
  });
  return runs;
}

Json growth_of(const std::vector<Run>& runs) {
  Json growth = Json::array();
  for (std::size_t from = 0; from < runs.size();) {
    const kernels::Kernel& kernel = *runs[from].kernel;
    Json points = Json::array();
    std::size_t at = from;
    while (at < runs.size() && runs[at].kernel == &kernel) {
      numerics::Pool pool;
      const std::int64_t keys = runs[at].keys;
      for (; at < runs.size() && runs[at].kernel == &kernel && runs[at].keys == keys; ++at)
        pool.add(runs[at].sample);
      const numerics::PointRecord point = pool.take();
      points.push_back({{"keys", keys},
                        {"runs", point.runs},
                        {"rms_error", number(point.error.rms_relative)},
                        {"max_error", number(point.error.max_relative)},
                        {"max_fraction", number(point.error.max_fraction)}});
    }
    growth.push_back(
        {{"kernel", kernel.id},
         {"variant", kernel.variant},
         {"contracted", kernel.arithmetic.contracted},
         {"points", std::move(points)},
         {"reproduce", fmt::format("./fa1lab sweep --vary n_kv={}..{} '{}' --kernel {}",
                                   runs[from].keys, runs[at - 1].keys, kRecipe, kernel.id)}});
    from = at;
  }
  return growth;
}

/// Geometric mean over the problems that both ran, and its 95 % confidence interval (two standard
/// errors of the mean of the logarithms).
Json ratio_of(const std::vector<Run>& runs, bool contracted, double predicted) {
  std::map<std::pair<std::int64_t, std::string>, double> over, under;
  for (const Run& run : runs)
    if (run.keys >= kFromKeys && run.kernel->arithmetic.contracted == contracted) {
      if (run.kernel->variant == "fa1")
        over[{run.keys, run.seed}] = run.sample.record.error.rms_relative;
      if (run.kernel->variant == "fa1_deferred")
        under[{run.keys, run.seed}] = run.sample.record.error.rms_relative;
    }
  std::vector<double> logs;
  for (const auto& [problem, error] : over)
    if (const auto found = under.find(problem); found != under.end())
      logs.push_back(std::log(error / found->second));
  if (logs.size() < 2)
    return nullptr;
  const auto n = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0.0;
  for (const double log : logs)
    squares += (log - mean) * (log - mean);
  const double off = 2.0 * std::sqrt(squares / (n - 1.0) / n);
  return {{"over", "fa1"},
          {"under", "fa1_deferred"},
          {"contracted", contracted},
          {"problems", logs.size()},
          {"predicted", predicted},
          {"measured", number(std::exp(mean))},
          {"low", number(std::exp(mean - off))},
          {"high", number(std::exp(mean + off))}};
}

Json measure_traffic() {
  const reference::Problem problem =
      reference::make_problem(reference::parse_recipe(kTrafficRecipe));
  std::vector<const kernels::Kernel*> counted;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.D == problem.shape.d && !kernel.arithmetic.contracted &&
        kernels::traffic_is_counted(kernel))
      counted.push_back(&kernel);
  std::vector<kernels::LaunchCounts> counts(counted.size());
  in_parallel(counted.size(),
              [&](std::size_t i) { counts[i] = kernels::counted_traffic(*counted[i], problem); });

  Json traffic = Json::array();
  for (std::size_t i = 0; i < counted.size(); ++i)
    traffic.push_back(
        {{"kernel", counted[i]->id},
         {"variant", counted[i]->variant},
         {"recipe", kTrafficRecipe},
         {"shared_floats", counts[i].shared_bytes / 4},
         {"floats", counts[i].traffic.total()},
         {"predicted", kernels::predicted_traffic(*counted[i], problem.shape).total()}});
  return traffic;
}

Json measure_memory() {
  Json memory = Json::array();
  for (const std::string& variant : variants())
    if (const kernels::Kernel* kernel = representative(variant, false))
      for (std::int64_t n = 64; n <= 65536; n *= 4) {
        const kernels::Shape shape{1, n, n, 64, 64};
        memory.push_back(
            {{"variant", variant}, {"keys", n}, {"floats", kernels::extra_memory(*kernel, shape)}});
      }
  return memory;
}

} // namespace

std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (std::ranges::find(names, kernel.variant) == names.end())
      names.push_back(kernel.variant);
  return names;
}

const kernels::Kernel* representative(std::string_view variant, bool contracted, int D) {
  const kernels::Kernel* best = nullptr;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.variant == variant && kernel.D == D && kernel.Bc <= 2 && kernel.Br > 1 &&
        kernel.backend == kernels::Backend::cpu && kernel.arithmetic.contracted == contracted &&
        (best == nullptr || kernel.Bc > best->Bc))
      best = &kernel;
  return best;
}

double roundings_left() {
  std::mt19937_64 bits(1);
  const auto one_to_two = [&] { return 1.0 + static_cast<double>(bits() >> 11) * 0x1p-53; };
  double of_both = 0.0, of_division = 0.0;
  for (int i = 0; i < 200'000; ++i) {
    const auto l = static_cast<float>(one_to_two());
    const auto y = static_cast<float>(one_to_two() * double{l});
    const float quotient = y / l, product = quotient * l;
    of_both += std::pow(double{product} / double{y} - 1.0, 2);
    of_division += std::pow(double{quotient} * double{l} / double{y} - 1.0, 2);
  }
  return of_both / of_division;
}

namespace {

Json ratios_of(const std::vector<Run>& runs) {
  Json ratios = Json::array();
  for (const auto& [contracted, predicted] :
       {std::pair{false, std::sqrt((2.0 + roundings_left()) / 2.0)},
        std::pair{true, std::sqrt(3.0 / 2.0)}})
    if (Json ratio = ratio_of(runs, contracted, predicted); !ratio.is_null())
      ratios.push_back(std::move(ratio));
  return ratios;
}

} // namespace

Json compare_family(const std::string& seeds, std::int64_t most_keys) {
  const std::vector<Run> runs = measure_growth(seeds, most_keys, true);
  return {{"recipe", kRecipe},
          {"growth", growth_of(runs)},
          {"ratios", ratios_of(runs)},
          {"traffic", measure_traffic()},
          {"memory", measure_memory()}};
}

Json compare_divisions(const std::string& seeds, std::int64_t most_keys) {
  return ratios_of(measure_growth(seeds, most_keys, false));
}

} // namespace fa1::reports
