/// The smallest problem on which a kernel is wrong in the same way.
///
/// Same kind    kind_of says what kind of fault a problem shows:
///                output  O where an element of O is proved wrong; else `l, m` where the kernel gives them and l or
///                        m + ln l is; empty where the kernel failed instead (a crash, a write outside, a broken rule
///                        of CUDA)
///                how     the verdict's reason for the worst element (verdict.hpp): its error is beyond its bound,
///                        or NaN or Inf stand where the truth is finite, or the truth is NaN, or infinite; where the
///                        kernel failed its words, numbers aside
///                held_to the widest bound of any right fp32 kernel, where the problem is proved wrong even by that;
///                        else the bound of the kernel's own arithmetic
///                name    the closest fault whose closed form the answer is (diagnosis_faults.hpp); may be empty
///              Where NaN or Inf stand for a number, the kind is the one that the row shows at first: with the fewest
///              keys, found by bisection, with which it is wrong. So an overflow counts as the error that grew into it
///              A smaller problem shows the same kind where output, how and held_to are the same and `name`, if there
///              is one, is among the faults that its answer looks like. What only an experiment shows (an order of
///              threads, something uninitialised) has no name here
/// Order        batch-heads, query rows, keys, components of Q and K, columns of V; then entries become 0; then values
///              become shorter: fewer significant bits, then closer to 1, then positive; the scale too, never 0. Again
///              from the start until a whole round changes nothing. Parts of a list go in pieces of ever smaller powers
///              of two; of the last kFew, any neighbours
/// Keeps        the scale is not formed anew from d; a smaller d is the kernel's D with columns of 0, as in any launch
/// Requires     one part of everything is left, so that no shape becomes empty that was not
/// Cost         at most ShrinkLimits::runs runs of the kernel, each with its truth and its bounds. Where they do not
///              suffice the smallest problem so far is the answer, and `complete` is false
/// Same         the same answer each time for a kernel that repeats itself: no seed, no clock, one thread
/// Errors       UnsupportedShape where the kernel declines the whole problem; smaller ones that it declines are not
///              taken. A hang passes through as KernelFault: each step would cost the time limit
/// Source       A. Zeller, R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28 (2002): delta
///              debugging, here of several lists one after the other
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/bounds.hpp"
#include "numerics/verdict.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fa1::numerics {

inline constexpr std::int64_t kFew = 16;

enum class HeldTo { any_kernel, own_arithmetic };

struct FaultKind {
  std::string output, how, name;
  HeldTo held_to = HeldTo::any_kernel;

  bool failed() const { return output.empty(); }
};
/// `O: its error is beyond its bound; looks like no_alpha`.
std::string to_string(const FaultKind& kind);

/// A run that is wrong, with what it is held against; empty State and Verdict where the kernel failed.
struct WrongRun {
  FaultKind kind;
  reference::State state;
  reference::Truth truth;
  Bounds bounds; ///< those of `held_to`; where the kernel failed, the widest
  Verdict verdict;
};

/// Nothing where nothing is proved wrong.
std::optional<WrongRun> wrong_run(const reference::Problem& problem, const kernels::Kernel& kernel);

struct ShrinkLimits {
  std::int64_t runs = 20000;
};

struct Shrunk {
  reference::Problem problem;
  WrongRun run;
  std::int64_t runs = 0; ///< of the kernel, the first one included
  bool complete = true;  ///< a whole round changed nothing
};

/// What is told after each step: the smallest problem so far, and the runs.
using OnShrunk = std::function<void(const reference::Problem&, std::int64_t runs)>;

/// Nothing where nothing is proved wrong to begin with.
std::optional<Shrunk> shrink(const reference::Problem& problem, const kernels::Kernel& kernel,
                             const ShrinkLimits& limits = {}, const OnShrunk& on_shrunk = {});

/// Simpler floats of the same sign or not, the simplest first, each simpler than x; 0 is not among them.
std::vector<float> shorter(float x);

} // namespace fa1::numerics
