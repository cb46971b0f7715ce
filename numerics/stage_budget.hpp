/// Where the error of O comes from: a kernel's recurrence with one stage at a time exact, and with one
/// stage at a time inexact.
///
/// Computes  for every element of O, absolute and with their signs, against the same recurrence in
///           exact arithmetic:
///             whole    the error of fp32
///             alone    for each stage, what is left when all other stages are exact
///             left     for each stage, what is left when that stage is exact
///             replayed the error with all stages inexact: `whole` once more, by the way of the others
///           summarize: RMS and mean of these, and each stage's share of the mean square
/// How       The recurrence runs in fp32, in the kernel's own order. Of every operation the relative
///           error d = fl(x op y) / (x op y) - 1 is taken, from the operands as they are there. Beside
///           it run 22 copies in double, which compute (x op y)(1 + d) where the operation belongs to
///           an inexact stage and x op y elsewhere. Who is the maximum is decided once, in fp32: any
///           m gives the same answer, and so the copies differ to first order only
/// Stages    dot       products and sums of q k           scale     s = fl(dot * scale)
///           argument  s - m of the weights               exp       p, and p against the last m
///           sum       sums of p over a tile              alpha     m_old - m_new, its exponential, and
///           l         the carry and the tile's sum in l            alpha l where O is weighted with it
///           pv        products and sums of p v           update    the carry and the tile's sum in O
///           division  O / l; p / l of rows_of_S
///           Products that correct l or O alone belong to these: alpha l of at_end, beta sum p of
///           tile_maximum to l, alpha A and beta sum p v to update. A merge of ranges is alpha (its
///           weights), l, update and division
/// Units     of a summary: u sum p|v|, the unit of error.hpp
/// Requires  plain loops: a*b+c in two roundings. `obstacle` as in bounds.hpp otherwise: nothing is
///           computed then
/// Faults    `rounded`: every result of a stage is rounded to a coarser format as well, to see a fault
///           or a lower precision in the stage it belongs to
/// Error     Each copy is wrong as a recurrence in double is, at most 4 roundings of 2^-53 where fp32
///           makes one of u: below 2^-26 A sum p|v|, A as below
/// Source    derived here
///
/// Parts and whole. Key j reaches numerator and denominator through factors 1 + d and exponentials, so
/// with the stages s its weight is p_j times a product of one factor F_s for each, but for the exponent,
/// where the error of a score is multiplied by the error of the subtraction. Let A bound the sum of all
/// |d| and |errors of arguments| on the way of a key (path). With W = sum p|v| >= |o|, numerator and
/// denominator normalised so that the exact denominator is 1, n and h their errors, r = n - o h:
///     error = r / (1 + h),   |h| <= e^A - 1,   |r| <= 2 W (e^A - 1),
///     |r - sum_s r_s| <= 2 W (e^A - 1 - A + A^2 e^A),
/// and the same for each stage alone with A_s, sum A_s = A. So, for A <= 2^-5,
///     |sum of the parts - whole| <= 2 W (0.51 + 1.04 + 2.14) A^2 <= 8 A^2 W         (second_order).
/// To first order the parts add up element by element. For mean squares the parts have covariances: the
/// share of a stage is <part, whole> / <whole, whole> over all elements. Shares add up to 1 as the parts
/// do to the whole; one is negative where a stage takes error away. Where the stages' roundings are
/// independent, the share is the square of its RMS over that of the whole.
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/formats.hpp"
#include "reference/problem.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace fa1::numerics {

enum class BudgetStage : std::uint8_t {
  dot,
  scale,
  argument,
  exp,
  sum,
  alpha,
  l,
  pv,
  update,
  division
};
inline constexpr std::size_t kBudgetStages = 10;
std::string_view name_of(BudgetStage stage);

template <class Value> using PerStage = std::array<Value, kBudgetStages>;

struct BudgetRun {
  kernels::Order order = kernels::Order::every_tile;
  std::int64_t Bc = 64;
  PerStage<FormatId> rounded{}; ///< fp32: nothing more is rounded
};

struct StageBudget {
  reference::Tensor<float> O;         ///< of fp32, the kernel's bits
  reference::Tensor<double> exact;    ///< the same recurrence without any rounding
  reference::Tensor<double> weighted; ///< sum_j p_j |v_j|
  reference::Tensor<double> whole, replayed;
  PerStage<reference::Tensor<double>> alone, left;
  double path = 0.0;    ///< A: of fp32, an upper bound from the counts of bounds.hpp
  std::string obstacle; ///< empty where the budget holds

  /// Largest |sum of the parts - whole| / sum p|v| of fp32 in all stages; the last term is the evaluation of a sum
  /// of 21 copies. Infinite where A is too large for the bound.
  double second_order() const {
    return path <= 0x1p-5 ? 8.0 * path * path + 0x1p-21 * path
                          : std::numeric_limits<double>::infinity();
  }
};

/// Results do not depend on `threads`.
StageBudget stage_budget(const reference::Problem& problem, const BudgetRun& run,
                         unsigned threads = 1);

struct StagePart {
  double alone = 0.0; ///< RMS with this stage alone inexact
  double left = 0.0;  ///< RMS with this stage alone exact
  double share = 0.0; ///< <alone, whole> / <whole, whole>; 0 where there is no error
  double bias = 0.0;  ///< mean of alone
};

struct BudgetSummary {
  std::int64_t elements = 0;
  double rms = 0.0, mean = 0.0;     ///< of the whole
  double unaccounted = 0.0;         ///< RMS of (sum of the parts - whole) over that of the whole
  double largest_unaccounted = 0.0; ///< max |sum of the parts - whole|
  PerStage<StagePart> stages{};
};

BudgetSummary summarize(const StageBudget& budget);

} // namespace fa1::numerics
