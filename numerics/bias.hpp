/// Is a kernel's error biased: does it lean to one side on the average?
///
/// Computes  the mean of the signed error over the elements of one problem, then its mean over problems of
///           independent seeds and the confidence interval of that:
///             O    error / (u sum p|v|)
///             |O|  sign(o) error / (u sum p|v|): away from zero is positive. Asked where V has both signs;
///                  a kernel that turns its sign with V has no mean error of O there, whatever it does
///             l    (l - exact l at the m handed out) / (u l), where the kernel gives l and m; V does not matter
///           for V in four families (kBiasValues): 1 and 0.1, which every weight multiplies alike, so that
///           errors of the weights cancel and those of the sums are left; of one sign, where sum p|v| = |o|
///           and nothing cancels; of mean zero
/// Units     u sum p|v| for O, as in error.hpp, and u l for l. u |o| is the same where V has one sign; where it
///           has both, |o| may be next to 0 and a mean in that unit has no finite variance
/// Interval  Student's t over the seeds' means: seeds are independent; elements of one seed share keys and are
///           not, so they are never counted. 95 %: mean +- t(0.975, n - 1) s / sqrt(n)
/// Biased    where the interval excludes 0 at the level 1 - 0.05 / (rows of the call): over all rows of one call the
///           probability to call any unbiased kernel biased is at most 5 % (Bonferroni). An error that is
///           the same for every seed has an interval of length 0
/// Error     an error within the truth's radius counts as 0, so exact outputs have the mean 0 exactly
/// Requires  2 or more seeds; a recipe without seed and v
/// Special   NaN or Inf in O makes the mean NaN, and such a row is not called biased
/// Source    Student's t; the quantities are chosen here
#pragma once

#include "reference/problem.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

struct BiasValue {
  std::string_view id;
  std::string_view v; ///< of the recipe
  bool both_signs;
};
inline constexpr std::array kBiasValues{
    BiasValue{"1", "constant:1", false}, BiasValue{"0.1", "constant:0.1", false},
    BiasValue{"one sign", "positive", false}, BiasValue{"mean zero", "normal", true}};

/// What is asked: a kernel, a mutant, an emulation.
struct BiasSubject {
  std::string id;
  std::function<reference::State(const reference::Problem&)> run;
  bool gives_l = true;
};

struct Interval {
  double low = 0.0, high = 0.0;
  bool excludes_zero() const { return low > 0.0 || high < 0.0; }
};

struct BiasRow {
  std::string subject;
  std::string quantity; ///< O, |O|, l
  std::string V;        ///< id of kBiasValues; empty for l
  std::int64_t seeds = 0;
  double mean = 0.0;
  double deviation = 0.0; ///< standard deviation of one seed's mean
  Interval confidence;    ///< 95 %
  Interval in_family;     ///< at the level that decides
  bool biased() const { return in_family.excludes_zero(); }
};

/// Rows subject by subject. Results do not depend on `threads`. `done` is called once for each problem,
/// by any thread.
std::vector<BiasRow> measure_bias(std::span<const BiasSubject> subjects, const std::string& recipe,
                                  std::uint64_t first_seed, std::int64_t seeds,
                                  unsigned threads = 1, const std::function<void()>& done = {});

/// mean +- t(1 - risk / 2, n - 1) deviation / sqrt(n)
Interval student_interval(double mean, double deviation, std::int64_t n, double risk);

} // namespace fa1::numerics
