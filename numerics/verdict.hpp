/// Is this output right? Four answers, and the element that decides.
///
///   proved_right   every element's error plus the truth's radius is inside the bound
///   proved_wrong   an element's error less the radius is outside the bound, or NaN, Inf stand
///                  where the truth has a number, or a number where the truth is NaN
///   suspicious     inside the bound, but more than kLambda times the statistical expectation
///   undecided      the bound's conditions do not hold, the scores carry no digit (eta >=
///                  kNoDigit), or the radius is too wide to tell
///
/// Comparisons read `!(error <= allowed)`, so a NaN never passes. NaN and Inf are decided before
/// any metric; sign and payload of NaN and the sign of zero do not matter here.
/// Judged: O, and where the kernel gives them l (against the exact sum at the computed maximum) and
/// LSE = m + ln l.
#pragma once

#include "numerics/bounds.hpp"
#include "numerics/error.hpp"
#include "reference/problem.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

inline constexpr double kNoDigit = 1.0;

enum class Judgement { proved_right, suspicious, undecided, proved_wrong };
std::string_view name_of(Judgement judgement);

/// One output element with everything needed to argue about it.
struct Element {
  std::string output; ///< O, l or LSE
  std::int64_t batch_head = 0, row = 0, column = 0;
  float got = 0.0f;
  reference::Enclosed truth;
  double error = 0.0;    ///< signed
  double bound = 0.0;    ///< absolute
  double expected = 0.0; ///< statistical, lambda = 1; 0 where there is none
  double ulps = 0.0;
  double fraction() const { return error == 0.0 ? 0.0 : std::fabs(error) / bound; }
};

struct Verdict {
  Judgement judgement = Judgement::proved_right;
  Element worst;   ///< the element that decided, else the one closest to its bound
  std::string why; ///< one sentence
  std::array<std::int64_t, 4> elements{}; ///< judged so, in the order of Judgement
};

Verdict judge(const reference::Problem& problem, const reference::State& state,
              const reference::Truth& truth, const Bounds& bounds, bool judge_l_and_LSE = true);

/// The same of every element of O alone.
reference::Tensor<Judgement> judge_each_O(const reference::State& state,
                                          const reference::Truth& truth, const Bounds& bounds);

/// A judge on trial: outputs that are wrong beyond the bound on this very problem, and whether
/// each was proved wrong. Offered: zeros, NaN everywhere, the rows moved on by one, the mean of V
/// for every row, and one element of the truth moved up or down by its bound and 64 ulp more, or by
/// 64 bounds. Each is left out where on this problem it lies within the bound (V may be 0), and all
/// are where the bound's conditions fail. The truth rounded to fp32 is offered as well, and must
/// not be proved wrong.
struct JudgeTrial {
  std::vector<std::string> seen;   ///< offered and judged as they should be
  std::vector<std::string> missed; ///< and not
};

using Judge = std::function<Verdict(const reference::Problem&, const reference::State&,
                                    const reference::Truth&, const Bounds&, bool)>;

JudgeTrial verify_judge(const reference::Problem& problem, const reference::Truth& truth,
                        const Bounds& bounds, const Judge& judge = numerics::judge);

/// One line: `O[0,3,5] = 0x1.8p-2 (0.375), truth 0.37500001, error 0.3 ulp, 4 % of its bound`.
std::string to_string(const Element& element);
std::string to_string(const Verdict& verdict);

} // namespace fa1::numerics
