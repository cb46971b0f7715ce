#include "numerics/fault_screens.hpp"

#include "numerics/error.hpp"
#include "numerics/expectation.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fa1::numerics {
namespace {

using reference::Problem;

constexpr int kStepsAnOctave = 4, kSmallestStep = -2 * kStepsAnOctave,
              kLargestStep = 20 * kStepsAnOctave; ///< sizes from u / 4 to 2^20 u

struct Asked {
  Problem problem;
  reference::State right;
  reference::Truth truth;
  Bounds bounds;
  double allowed; ///< sum of squares of the errors of O
};

Asked ask(reference::Recipe recipe, std::int64_t Bc, std::uint64_t seed) {
  recipe.seed = seed;
  Problem problem = reference::make_problem(recipe);
  kernels::Arithmetic arithmetic;
  arithmetic.Bc = static_cast<int>(Bc);
  const Expectation expected = expected_error(problem, arithmetic);
  std::vector<double> variances; // of rows, as in the law of the same name
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (std::int64_t row = 0; row < problem.shape.n_q; ++row) {
      double variance = 0.0;
      for (const double x : expected.O.row(bh, row))
        variance += x;
      variances.push_back(variance);
    }
  reference::State right = reference::tiled_mirror(problem, Bc);
  reference::Truth truth = reference::certify(problem);
  Bounds bounds = online_softmax(problem, arithmetic);
  return {std::move(problem), std::move(right), std::move(truth), std::move(bounds),
          squares_allowed(variances)};
}

reference::State with_fault(const Asked& asked, std::int64_t Bc, FaultyInput where, double size) {
  Problem faulty = asked.problem;
  std::mt19937_64 random(1);
  auto& input = where == FaultyInput::K ? faulty.K : faulty.V;
  for (float& x : input.elements()) {
    const double xi = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
    x = static_cast<float>(double{x} * (1.0 + size * xi));
  }
  return reference::tiled_mirror(faulty, Bc);
}

bool seen_by_lambda(const Asked& asked, const reference::State& state) {
  const Judgement judgement =
      judge(asked.problem, state, asked.truth, asked.bounds, false).judgement;
  return judgement == Judgement::suspicious || judgement == Judgement::proved_wrong;
}

bool seen_by_squares(const Asked& asked, const reference::State& state) {
  double sum = 0.0;
  const auto O = state.O.elements();
  for (std::size_t e = 0; e < O.size(); ++e)
    sum += std::pow(error_of(O[e], asked.truth.O.elements()[e]), 2);
  return !(sum <= asked.allowed);
}

} // namespace

SmallestFaults smallest_faults(const std::string& recipe, std::int64_t Bc, FaultyInput where,
                               int problems) {
  std::vector<Asked> all;
  for (int seed = 1; seed <= problems; ++seed)
    all.push_back(ask(reference::parse_recipe(recipe), Bc, static_cast<std::uint64_t>(seed)));

  /// RMS over all problems of value(problem, element), in u sum p|v|.
  const auto rms = [&](auto&& value) {
    double squares = 0.0, elements = 0.0;
    for (const Asked& asked : all) {
      const auto weighted = asked.bounds.weighted.elements();
      for (std::size_t e = 0; e < weighted.size(); ++e)
        squares += std::pow(value(asked, e) / (kU * weighted[e]), 2);
      elements += static_cast<double>(weighted.size());
    }
    return std::sqrt(squares / elements);
  };
  const auto smallest = [&](auto&& seen) {
    // Whoever sees a fault sees larger ones, so halving finds the smallest.
    int low = kSmallestStep, high = kLargestStep + 1;
    const auto size_of = [](int step) {
      return kU * std::exp2(static_cast<double>(step) / kStepsAnOctave);
    };
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (std::ranges::all_of(all, [&](const Asked& asked) {
            return seen(asked, with_fault(asked, Bc, where, size_of(middle)));
          }))
        high = middle;
      else
        low = middle + 1;
    }
    if (low > kLargestStep)
      return std::numeric_limits<double>::infinity();
    std::vector<reference::State> faulty;
    for (const Asked& asked : all)
      faulty.push_back(with_fault(asked, Bc, where, size_of(low)));
    return rms([&](const Asked& asked, std::size_t e) {
      const auto at = static_cast<std::size_t>(&asked - all.data());
      return double{faulty[at].O.elements()[e]} - double{asked.right.O.elements()[e]};
    });
  };

  SmallestFaults result;
  result.right = rms([](const Asked& asked, std::size_t e) {
    return error_of(asked.right.O.elements()[e], asked.truth.O.elements()[e]);
  });
  for (const Asked& asked : all)
    result.false_alarms += seen_by_lambda(asked, asked.right) + seen_by_squares(asked, asked.right);
  result.by_lambda = smallest(seen_by_lambda);
  result.by_squares = smallest(seen_by_squares);
  return result;
}

} // namespace fa1::numerics
