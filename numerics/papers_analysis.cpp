#include "numerics/papers_analysis.hpp"

#include "kernels/split_kv.cuh"
#include "kernels/traffic.hpp"
#include "numerics/bounds.hpp"
#include "numerics/growth.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/parallel.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>

namespace fa1::numerics {
namespace {

using reference::Problem;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// A row whose source gives a relation and no number. `ours` is the largest.
PaperRow largest(std::string source, std::string quantity, std::string unit, std::string says,
                 std::span<const double> values, std::string shapes, std::string differs) {
  const auto [low, high] = std::ranges::minmax(values);
  return {.source = std::move(source),
          .quantity = std::move(quantity),
          .unit = std::move(unit),
          .theirs = kNone,
          .says = std::move(says),
          .ours = high,
          .low = low,
          .high = high,
          .shapes = std::move(shapes),
          .differs = std::move(differs)};
}

/// The same for a slope, with its 95 % interval.
PaperRow slope_row(std::string source, std::string quantity, std::string says, const Slope& slope,
                   std::string shapes, std::string differs) {
  PaperRow row = largest(std::move(source), std::move(quantity), "exponent", std::move(says),
                         std::array{slope.slope}, std::move(shapes), std::move(differs));
  row.low = slope.low;
  row.high = slope.high;
  return row;
}

// ---------------------------------------------------------------------------------------------------
// Blanchard, Higham and Higham

/// max |g^ - g| / max g, in u.
double softmax_error(std::span<const float> x) {
  const float largest = *std::ranges::max_element(x);
  std::vector<float> weights;
  std::vector<double> exact;
  float sum = 0.0f;
  double exact_sum = 0.0;
  for (const float each : x) {
    weights.push_back(std::exp(each - largest));
    exact.push_back(std::exp(double{each} - double{largest}));
    sum += weights.back();
    exact_sum += exact.back();
  }
  double error = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    error = std::max(error, std::fabs(double{weights[i] / sum} - exact[i] / exact_sum));
  return error / (1.0 / exact_sum) / kU;
}

} // namespace

std::vector<PaperRow> softmax_rows(PaperSet set) {
  const std::int64_t most = set == PaperSet::few ? 4096 : 65536;
  constexpr std::array kSigmas{0.1f, 1.0f, 4.0f, 16.0f};
  const int seeds = set == PaperSet::few ? 8 : 32;
  std::vector<double> parts; // of the bound, the largest of each n
  std::vector<double> keys, errors;
  for (std::int64_t n = 16; n <= most; n *= 4) {
    double largest_part = 0.0, largest_error = 0.0;
    for (const float sigma : kSigmas)
      for (int seed = 1; seed <= seeds; ++seed) {
        const auto recipe =
            reference::parse_recipe(fmt::format("n_kv={} d=1 sigma={} seed={}", n, sigma, seed));
        std::vector<float> x(static_cast<std::size_t>(n));
        reference::make_rows(recipe, reference::Matrix::K, 0, 0, n, x.data());
        for (float& each : x)
          each *= sigma;
        const auto [low, high] = std::ranges::minmax(x);
        const double error = softmax_error(x);
        largest_error = std::max(largest_error, error);
        largest_part = std::max(largest_part, error / softmax_bound(n, double{high} - double{low}));
      }
    parts.push_back(largest_part);
    keys.push_back(static_cast<double>(n));
    errors.push_back(largest_error);
  }
  const std::string source = "Blanchard, Higham and Higham 2021";
  const std::string shapes =
      fmt::format("n from 16 to {}, x normal of deviation {}, {} seeds each; the range is over n",
                  most, fmt::join(kSigmas, ", "), seeds);
  const std::string differs =
      "theirs is a worst case for sums in order, proved; no number of theirs "
      "is for these inputs";
  return {largest(source, "softmax: largest error of p over their bound", "", "at most 1", parts,
                  shapes, differs),
          slope_row(source, "softmax: slope of the largest error over n", "at most 1 for long rows",
                    log_log_slope(keys, errors), shapes, differs)};
}

// ---------------------------------------------------------------------------------------------------
// Demmel et al.

std::vector<PaperRow> grade_rows(PaperSet set, unsigned threads) {
  const std::int64_t most = set == PaperSet::few ? 2048 : 16384;
  constexpr std::int64_t kBc = 32;
  std::vector<std::string> recipes;
  for (std::int64_t n = 64; n <= most; n *= 2)
    for (const char* input : kGradedInputs)
      recipes.push_back(fmt::format("n_q=8 n_kv={} d=16 {}", n, input));
  std::vector<GradedError> errors(recipes.size());
  reference::in_parallel(recipes.size(), threads, [&](std::size_t i) {
    const Problem problem = reference::make_problem(reference::parse_recipe(recipes[i]));
    errors[i] =
        graded_error(problem, reference::tiled_mirror(problem, kBc), reference::certify(problem));
  });
  const Grade result = grade(errors);

  const std::string source = "Demmel et al. 2026, grading the BLAS";
  const std::string shapes =
      fmt::format("n_kv from 64 to {}, d = 16, Bc = {}, 8 rows of each of {} kinds of inputs; fa1 "
                  "gets the grade {}",
                  most, kBc, kGradedInputs.size(), result.letter);
  const std::string differs = "attention instead of a product of matrices: sum p|v| stands for "
                              "|A||B|; the range is the 95 % interval";
  const std::string says = "grade A: at most 1";
  return {slope_row(source, "largest error over u sum p|v|: slope over the keys", says,
                    result.plain_slope, shapes, differs),
          slope_row(source,
                    fmt::format("the same times the condition of the inputs: grade {}, slope",
                                result.letter),
                    says, result.slope, shapes, differs),
          largest(source, "the same over f(N) = 4 N + d + 6", "", "at most 1",
                  std::array{result.part}, shapes, differs + "; f is ours")};
}

// ---------------------------------------------------------------------------------------------------
// Milakov and Gimelshein

namespace {

struct Part {
  float O[1];
  float l, m;
};

Part merged(const Part& a, const Part& b) {
  Part both = a;
  kernels::merge_states(both.O, both.l, both.m, b.O, b.l, b.m);
  return both;
}

/// The bound of the difference in the header.
double merge_bound(std::span<const Part> parts) {
  const double c = kernels::Arithmetic{}.exp_error;
  double M = -HUGE_VAL, bound = 0.0;
  for (const Part& part : parts)
    M = std::max(M, double{part.m});
  for (const Part& part : parts) {
    const double below = M - double{part.m};
    bound += double{part.l} * std::exp(-below) *
             (std::exp(kU * (below + 2.0 * c + 2.0)) * (1.0 + gamma(2.0)) - 1.0);
  }
  return 2.0 * bound;
}

} // namespace

std::vector<PaperRow> merge_rows() {
  constexpr int kTriples = 100'000;
  std::mt19937_64 random(1);
  const auto uniform = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(random() % (1u << 24)) * 0x1p-24f;
  };
  double in_u = 0.0, of_bound = 0.0, of_m = 0.0;
  for (int n = 0; n < kTriples; ++n) {
    std::array<Part, 3> parts{};
    for (Part& part : parts)
      part = {{uniform(-3.0f, 3.0f)}, uniform(1.0f, 100.0f), uniform(-20.0f, 20.0f)};
    const Part left = merged(merged(parts[0], parts[1]), parts[2]);
    const Part right = merged(parts[0], merged(parts[1], parts[2]));
    const double difference = std::fabs(double{left.l} - double{right.l});
    in_u = std::max(in_u, difference / (kU * double{right.l}));
    of_bound = std::max(of_bound, difference / merge_bound(parts));
    of_m = std::max(of_m, std::fabs(double{left.m} - double{right.m}));
  }
  const std::string source = "Milakov and Gimelshein 2018";
  const std::string shapes = fmt::format(
      "{} triples of states, d from 1 to 100, m from -20 to 20, merged in either order", kTriples);
  const std::string differs =
      "theirs holds in exact arithmetic; ours is fp32, where only the order of m's is kept exactly";
  const std::string says = "0: the merge is associative";
  return {largest(source, "merge: largest |(a+b)+c - (a+(b+c))| of d", "u d", says,
                  std::array{in_u}, shapes, differs),
          largest(source, "the same over its bound", "", "at most 1 is proved here",
                  std::array{of_bound}, shapes, differs),
          largest(source, "the same of m", "", says, std::array{of_m}, shapes,
                  "nothing: a maximum never rounds")};
}

// ---------------------------------------------------------------------------------------------------
// FlashAttention-1

std::vector<PaperRow> traffic_rows(PaperSet set, unsigned threads) {
  struct Run {
    const kernels::Kernel* kernel;
    std::int64_t keys;
    double counted = 0.0, predicted = 0.0, scale = 0.0; ///< floats; N^2 d^2 / M
  };
  const std::int64_t most = set == PaperSet::few ? 256 : 1024;
  std::vector<Run> runs;
  std::vector<std::string> tiles;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.variant == "fa1" && kernel.D >= 64 && kernel.Br == kernel.Bc && kernel.Bc >= 16 &&
        !kernel.arithmetic.contracted && kernels::traffic_is_counted(kernel)) {
      tiles.push_back(fmt::format("{} x {} at d = {}", kernel.Br, kernel.Bc, kernel.D));
      for (std::int64_t n = 128; n <= most; n *= 2)
        runs.push_back({&kernel, n});
    }
  reference::in_parallel(runs.size(), threads, [&](std::size_t i) {
    Run& run = runs[i];
    const auto d = static_cast<double>(run.kernel->D), n = static_cast<double>(run.keys);
    const Problem problem = reference::make_problem(reference::parse_recipe(
        fmt::format("n_q={} n_kv={} d={}", run.keys, run.keys, run.kernel->D)));
    const kernels::LaunchCounts counts = kernels::counted_traffic(*run.kernel, problem);
    run.counted = static_cast<double>(counts.traffic.total());
    run.predicted =
        static_cast<double>(kernels::predicted_traffic(*run.kernel, problem.shape).total());
    run.scale = n * n * d * d / (static_cast<double>(counts.shared_bytes) / 4.0);
  });
  std::vector<double> ratios, scales, counted;
  for (const Run& run : runs) {
    ratios.push_back(run.counted / run.predicted);
    scales.push_back(run.scale);
    counted.push_back(run.counted);
  }
  const auto [low, high] = std::ranges::minmax(ratios);
  const Slope slope = log_log_slope(scales, counted);
  const std::string source = "FlashAttention-1 (Dao et al. 2022)";
  const std::string shapes =
      fmt::format("N from 128 to {}, tiles {}", most, fmt::join(tiles, ", "));
  PaperRow exact{.source = source,
                 .quantity = "floats moved: counted over the closed form",
                 .unit = "",
                 .theirs = 1.0,
                 .says = "",
                 .ours =
                     std::reduce(ratios.begin(), ratios.end()) / static_cast<double>(ratios.size()),
                 .low = low,
                 .high = high,
                 .shapes = shapes,
                 .differs = "they give the order of growth; the closed form counts what their "
                            "Algorithm 1 reads and writes"};
  PaperRow grows{.source = source,
                 .quantity = "floats moved: slope against N^2 d^2 / M",
                 .unit = "exponent",
                 .theirs = 1.0,
                 .says = "",
                 .ours = slope.slope,
                 .low = slope.low,
                 .high = slope.high,
                 .shapes = shapes,
                 .differs =
                     "M is what a tile takes of shared memory, in floats; K and V, read once, "
                     "and l and m are in the count; the range is the 95 % interval"};
  return {exact, grows};
}

} // namespace fa1::numerics
