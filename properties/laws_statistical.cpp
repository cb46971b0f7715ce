// Relations of the errors of a whole problem, which catch what hides below a worst-case bound.
//
// Each asks a problem of its own, drawn from the case's recipe, because the expectation wants ordinary
// data: entries of Q, K and V without ties or exact products, scores of standard deviation up to 2.
// Rows are the independent groups of numerics/expectation.hpp; within a row the columns share the
// errors of the weights, and nothing is assumed about how. A kernel of unknown make may be biased and
// right (a rounded log2 e, a product with a rounded 1 / l), so no-bias is not asked of it.
//
// False alarms: each threshold is exceeded by a right kernel with probability below 1e-15. A case holds
// at most seven of them, so even a run of a hundred thousand cases stays below 1e-9.
#include "numerics/error.hpp"
#include "numerics/expectation.hpp"
#include "properties/compare.hpp"
#include "properties/laws.hpp"
#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace fa1::properties::laws {
namespace {

using numerics::Expectation;
using reference::Family;
using reference::Order;
using reference::Recipe;
using reference::Truth;

/// Enough rows for a sharp threshold; fewer where a row is long.
std::int64_t rows_for(const kernels::Kernel& kernel) {
  return std::clamp<std::int64_t>(1024 / kernel.D, 16, 128);
}

/// Rows have errors of their own only while their weights differ. Where a tile is one key, a key that sets
/// the maximum has weight 1 in every row, and what its value loses in the carried sum is the same in all:
/// so not the order in which every key does that; and where the rows differ in one factor alone, so that
/// the same keys set the maximum in all, only the order in which the first key does.
std::span<const Order> orders_for(const kernels::Kernel& kernel) {
  static constexpr Order kOrders[] = {Order::descending, Order::free, Order::ascending};
  const bool one_key = !kernel.arithmetic.known || kernel.arithmetic.Bc == 1;
  return std::span(kOrders).first(!one_key ? 3 : kernel.D > 1 ? 2 : 1);
}

Recipe ordinary(const Case& c, std::mt19937_64& choices) {
  constexpr float kSigmas[] = {0.3f, 1.0f, 2.0f};
  Recipe recipe;
  recipe.seed = choices();
  recipe.n_q = rows_for(c.kernel);
  recipe.n_kv = 16 + static_cast<std::int64_t>(choices() % 81);
  recipe.d = c.kernel.D;
  recipe.sigma = kSigmas[choices() % std::size(kSigmas)];
  const auto orders = orders_for(c.kernel);
  recipe.order = orders[choices() % orders.size()];
  return recipe;
}

/// One problem, what the kernel makes of it, and what may be expected.
struct Measured {
  Problem problem;
  State state;
  Truth truth;
  Expectation expected;

  Measured(const kernels::Kernel& kernel, Problem given)
      : problem(std::move(given)), state(kernels::run(kernel, problem)),
        truth(reference::certify(problem)),
        expected(numerics::expected_error(problem, kernel.arithmetic)) {}

  double error_of_O(std::int64_t row, std::int64_t column) const {
    return numerics::error_of(state.O(0, row, column), truth.O(0, row, column));
  }
  /// Relative, at the computed maximum.
  double error_of_l(std::size_t row) const {
    return double{state.l[row]} / numerics::l_at(double{state.m[row]}, truth, row).hi - 1.0;
  }
};

void squares_within(Findings& findings, std::span<const double> squares,
                    std::span<const double> variances, const std::string& what) {
  const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
  const double expected = std::sqrt(std::accumulate(variances.begin(), variances.end(), 0.0));
  findings.within(std::sqrt(sum), std::sqrt(numerics::squares_allowed(variances)), [&] {
    return fmt::format(
        "{}: the RMS error is {:.3g} times the expected one; its root sum of squares", what,
        std::sqrt(sum) / expected);
  });
}

/// sum_e weight_e err_e of O against 0. Columns of a row may depend on each other: their standard
/// deviations add up.
template <class Weight>
void mean_of_O(Findings& findings, const Measured& x, const std::string& what, Weight&& weight) {
  double sum = 0.0;
  std::vector<double> variances;
  for (std::int64_t row = 0; row < x.problem.shape.n_q; ++row) {
    double deviation = 0.0;
    for (std::int64_t column = 0; column < x.problem.shape.dv; ++column) {
      sum += weight(row, column) * x.error_of_O(row, column);
      deviation += std::fabs(weight(row, column)) * std::sqrt(x.expected.O(0, row, column));
    }
    variances.push_back(deviation * deviation);
  }
  findings.within(sum, numerics::sum_allowed(variances),
                  [&] { return "the sum of the errors of O, " + what + ","; });
}

/// Two keys, of score 0 and value 0 and of score -x and value 1: o = e^-x / (1 + e^-x) shows the
/// exponential bare. Scores and arguments are exact, x runs from 1/4 to 80 evenly in its logarithm, one
/// row each; errors are taken in units of their own deviation, so that every x counts.
void small_weights(Findings& findings, const Case& c, std::mt19937_64& choices) {
  Problem problem{{1, 128, 2, 1, 1},
                  1.0f,
                  Tensor<float>(1, 128, 1),
                  Tensor<float>(1, 2, 1),
                  Tensor<float>(1, 2, 1)};
  for (float& x : problem.Q.elements())
    x = 0.25f * std::exp(std::log(320.0f) * static_cast<float>(choices() % (1u << 24)) * 0x1p-24f);
  problem.K(0, 1, 0) = -1.0f;
  problem.V(0, 1, 0) = 1.0f;
  const Measured x(c.kernel, std::move(problem));
  if (!x.expected.obstacle.empty())
    return;
  std::vector<double> squares;
  for (std::int64_t row = 0; row < x.problem.shape.n_q; ++row)
    squares.push_back(std::pow(x.error_of_O(row, 0), 2) / x.expected.O(0, row, 0));
  squares_within(findings, squares, std::vector<double>(squares.size(), 1.0), "O of small weights");
}

} // namespace

Outcome expected_error(const Case& c) {
  auto choices = choices_of(c);
  Recipe recipe = ordinary(c, choices);
  recipe.v = choices() % 2 == 0 ? Family::normal : Family::positive;
  const Measured x(c.kernel, reference::make_problem(recipe));
  if (!x.expected.obstacle.empty())
    return not_applicable(x.expected.obstacle);

  Findings findings;
  std::vector<double> squares, variances;
  for (std::int64_t row = 0; row < recipe.n_q; ++row) {
    double square = 0.0, variance = 0.0;
    for (std::int64_t column = 0; column < x.problem.shape.dv; ++column) {
      square += std::pow(x.error_of_O(row, column), 2);
      variance += x.expected.O(0, row, column);
    }
    squares.push_back(square);
    variances.push_back(variance);
  }
  const std::string which = " for " + reference::to_string(recipe);
  squares_within(findings, squares, variances, "O" + which);
  if (c.kernel.gives_l_and_m) {
    for (std::size_t row = 0; row < squares.size(); ++row)
      squares[row] = std::pow(x.error_of_l(row), 2);
    squares_within(findings, squares, x.expected.l, "l" + which);
  }
  small_weights(findings, c, choices);
  return std::move(findings).outcome();
}

Outcome no_bias(const Case& c) {
  auto choices = choices_of(c);
  Recipe recipe = ordinary(c, choices);
  recipe.v = Family::positive;
  const Problem positive = reference::make_problem(recipe);
  const std::string which = " for " + reference::to_string(recipe);
  const auto one = [](auto, auto) { return 1.0; };

  Findings findings;
  const Measured x(c.kernel, positive);
  if (!x.expected.obstacle.empty())
    return not_applicable(x.expected.obstacle);
  mean_of_O(findings, x, "V positive" + which, one);
  if (c.kernel.gives_l_and_m) {
    double sum = 0.0;
    for (std::size_t row = 0; row < x.state.l.size(); ++row)
      sum += x.error_of_l(row);
    findings.within(sum, numerics::sum_allowed(x.expected.l),
                    [&] { return "the sum of the relative errors of l" + which; });
  }

  Tensor<float> ones = positive.V; // FA1 gives 1 here, bit for bit
  std::ranges::fill(ones.elements(), 1.0f);
  mean_of_O(findings, Measured(c.kernel, with_values(positive, ones)), "V = 1" + which, one);

  // V = K makes q . o the mean score, which a bias of the small weights moves one way.
  mean_of_O(findings, Measured(c.kernel, with_values(positive, positive.K)), "V = K" + which,
            [&](auto row, auto column) { return double{positive.Q(0, row, column)}; });
  return std::move(findings).outcome();
}

} // namespace fa1::properties::laws
