/// Where a kernel whose output is proved wrong goes wrong, and which known fault that looks like.
///
/// parts_at    the smallest number of keys found at which the row of the worst element is proved
///             wrong, the kernel run afresh on the first n keys: bisection, then smaller and larger
///             numbers besides, because what is wrong need not stay wrong (every number up to
///             kEveryNumber, beyond it a choice, which the text says). The row is asked alone where
///             alone it is wrong too. The same for the number of components of Q and K
/// where       which rows and columns of O are proved wrong
/// suspects    the faults of diagnosis_faults.hpp whose wrong answer, computed in double, is the
///             kernel's: every compared element (and m + ln l where the kernel gives it and the
///             fault says it) within kNearness times the bound, taken relative to sum_j p_j |v_j|
///             of the wrong answer; and the RMS of what is left of the error at most kUnexplained
///             of it. A fault that is right on this problem explains nothing and is never named.
///             More than one may fit: the closest first. Faults of tiles are tried with the
///             kernel's Bc where its insides are known, else with the told width and the powers of
///             two
/// Experiment  the same launch again, with another order of the threads, and into arrays that hold
///             the start values: an output that changes says what it should not depend on. Where
///             all this names nothing, NaN (which O, l and m hold before a launch) and 0 (the start
///             value of O) do
/// Requires    nothing: a kernel that is not proved wrong gets an empty diagnosis. Where the
///             conditions of the bound fail only the experiments are made
/// Errors      kernels::KernelFault of a hang passes through; any other fault of a shorter run
///             counts as a wrong answer
/// Cost        about 2 log2(n_kv) + kEveryNumber runs and certified prefixes of the row, and for
///             each fault and tile width kWorkPerFault multiply-adds
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/verdict.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

inline constexpr std::int64_t kEveryNumber = 64;
inline constexpr double kNearness = 16.0;
inline constexpr double kUnexplained = 1.0 / 8.0;
inline constexpr std::int64_t kWorkPerFault = std::int64_t{1} << 20;

struct Suspect {
  std::string name;         ///< as in all_faults()
  std::string says;         ///< one sentence; with the tile width where it is a guess
  double unexplained = 0.0; ///< RMS of what is left over RMS of the error, in units of the bound
};

struct Diagnosis {
  Verdict verdict;                  ///< of the kernel's output on the whole problem
  std::optional<std::int64_t> keys; ///< smallest number found at which the row is proved wrong
  std::string parts_at;             ///< empty where nothing is proved wrong
  std::string where;                ///< the same
  std::vector<Suspect> suspects;    ///< the closest first

  bool wrong() const { return verdict.judgement == Judgement::proved_wrong; }
};

inline constexpr std::string_view kNoKnownPattern = "no known pattern";

Diagnosis diagnose(const reference::Problem& problem, const kernels::Kernel& kernel);

/// The bounds that an output is held to, given the problem's truth.
using BoundsOf = std::function<Bounds(const reference::Problem&, const reference::Truth&)>;

/// The suspects alone, for an output without a kernel that could be asked again: nothing is known of its insides.
/// `with_LSE`: l and m hold an LSE.
std::vector<Suspect> suspects_of(const reference::Problem& problem, const reference::State& output,
                                 bool with_LSE, const Element& worst, const BoundsOf& bounds_of);

/// One run with its verdict.
struct SuspectRun {
  const reference::State& state;
  const reference::Truth& truth;
  const Bounds& bounds; ///< of the kernel's own arithmetic
  const Verdict& verdict;
};

/// The faults of diagnosis_faults.hpp alone, for a run of a kernel that can be asked again: without experiments.
std::vector<Suspect> suspects_of(const reference::Problem& problem, const kernels::Kernel& kernel,
                                 const SuspectRun& run);

/// One sentence for each suspect, or kNoKnownPattern; empty where nothing is wrong.
std::vector<std::string> looks_like(const Diagnosis& diagnosis);
std::string to_string(const Suspect& suspect);

} // namespace fa1::numerics
