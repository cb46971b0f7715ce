#include "reports/build_runs.hpp"

#include "kernels/launch.hpp"
#include "numerics/sweep.hpp"
#include "numerics/ulp.hpp"
#include "properties/laws.hpp"
#include "reports/arguments.hpp"
#include "reports/law_runs.hpp"
#include "reports/parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace fa1::reports {
namespace {

using kernels::Kernel;

constexpr int kD = 8;
constexpr std::array kBuildRecipes{
    "bh=2 n_q=32 n_kv=1000 d=8 seed=1", "bh=2 n_q=32 n_kv=1000 d=8 sigma=4 seed=2",
    "bh=2 n_q=32 n_kv=1000 d=8 v=positive seed=3", "bh=2 n_q=32 n_kv=4096 d=8 seed=4"};

/// The kernels of one build.
struct Build {
  std::string name;
  std::vector<const Kernel*> kernels;
};

std::vector<Build> builds_of(std::string_view variant) {
  std::vector<Build> builds;
  for (const auto table : {kernels::all_kernels(), kernels::other_builds()})
    for (const Kernel& kernel : table) {
      if (kernel.variant != variant || kernel.D != kD)
        continue;
      auto found = std::ranges::find(builds, kernel.build, &Build::name);
      if (found == builds.end())
        found = builds.insert(builds.end(), {kernel.build, {}});
      found->kernels.push_back(&kernel);
    }
  return builds;
}

std::string says_of(const Build& build) {
  if (build.name == "cpu")
    return "nothing fused, the platform's expf";
  if (build.name == "cpu-fma")
    return "a*b+c fused, the platform's expf";
  if (build.name == "cpu-portable")
    return "nothing fused, expf and logf of kernels/portable_math.cuh";
  for (const kernels::CudaBuild& row : kernels::cuda_builds())
    if (build.name == row.suffix)
      return row.says;
  return {};
}

void ask_laws(const Build& build, int cases, std::uint64_t seed, BuildRow& row) {
  std::vector<const properties::Invariant*> laws;
  for (const properties::Invariant& law : properties::all_invariants())
    laws.push_back(&law);
  const auto results = check_all(laws, build.kernels, cases, seed);
  for (std::size_t l = 0; l < laws.size(); ++l) {
    bool asked = false, violated = false;
    for (std::size_t k = 0; k < build.kernels.size(); ++k) {
      const properties::LawResult& result = results[l * build.kernels.size() + k];
      asked = asked || result.held > 0 || result.violated;
      violated = violated || result.violated;
      if (result.violated && row.first_violation.empty())
        row.first_violation = result.replay();
      if (!result.violated)
        row.worst_fraction = std::max(row.worst_fraction, result.worst_fraction);
    }
    row.laws_asked += asked;
    if (violated)
      row.broken.emplace_back(laws[l]->id);
  }
}

double rms_error(const Build& build) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const Kernel* kernel : build.kernels)
    for (const char* recipe : kBuildRecipes)
      for (const double error :
           numerics::sample(reference::parse_recipe(recipe), *kernel, cores()).errors) {
        sum += error * error;
        ++count;
      }
  return std::sqrt(sum / static_cast<double>(count));
}

const Kernel* beside(const Kernel& kernel) {
  return kernel.backend == kernels::Backend::cuda ? properties::laws::twin_on_cpu(kernel)
                                                  : properties::laws::in_build(kernel, "cpu");
}

void measure_distances(const Build& build, BuildRow& row) {
  std::vector<std::int64_t> distances;
  for (const Kernel* kernel : build.kernels) {
    const Kernel* const other = beside(*kernel);
    if (other == nullptr)
      return;
    row.beside = other->build;
    for (const char* recipe : kBuildRecipes) {
      const reference::Problem problem = reference::make_problem(reference::parse_recipe(recipe));
      const reference::State state = kernels::run(*kernel, problem),
                             other_state = kernels::run(*other, problem);
      const auto got = state.O.elements(), want = other_state.O.elements();
      double square = 0.0;
      for (const float o : want)
        square += double{o} * double{o};
      const double rms = std::sqrt(square / static_cast<double>(want.size()));
      for (std::size_t e = 0; e < got.size(); ++e) {
        const std::int64_t distance = numerics::float_distance(got[e], want[e]);
        if (distance != 0)
          distances.push_back(distance);
        if (!(std::fabs(double{want[e]}) < rms))
          row.largest_distance = std::max(row.largest_distance, distance);
      }
      row.elements += static_cast<std::int64_t>(got.size());
    }
  }
  row.different = static_cast<std::int64_t>(distances.size());
  if (distances.empty())
    return;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  row.median_distance = *middle;
}

} // namespace

std::vector<BuildRow> compare_builds(std::string_view variant, int cases, std::uint64_t seed) {
  const std::vector<Build> builds = builds_of(variant);
  if (builds.empty())
    throw UsageError("builds: " + unknown("variant", variant, "`fa1lab list variants` with D = 8"));
  std::vector<BuildRow> rows;
  std::map<kernels::Backend, double> first; // error of the first build of each side
  for (const Build& build : builds) {
    BuildRow row;
    row.build = build.name;
    row.says = says_of(build);
    row.instances = static_cast<std::int64_t>(build.kernels.size());
    ask_laws(build, cases, seed, row);
    row.error = rms_error(build);
    row.error_ratio =
        row.error / first.emplace(build.kernels.front()->backend, row.error).first->second;
    measure_distances(build, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json to_json(const BuildRow& row, std::string_view variant, int cases, std::uint64_t seed) {
  return {{"what", "build"},
          {"variant", variant},
          {"build", row.build},
          {"says", row.says},
          {"instances", row.instances},
          {"cases", cases},
          {"seed", seed},
          {"laws_asked", row.laws_asked},
          {"broken", row.broken},
          {"first_violation", row.first_violation},
          {"worst_fraction", number(row.worst_fraction)},
          {"error", number(row.error)},
          {"error_ratio", number(row.error_ratio)},
          {"beside", row.beside},
          {"elements", row.elements},
          {"different", row.different},
          {"median_distance", row.median_distance},
          {"largest_distance", row.largest_distance}};
}

} // namespace fa1::reports
