/// A statement about the error of kernels, and the search for what contradicts it.
///
///     error <= 3*u*sum_p_v for n_kv<=8192 sigma<=4 kernel=fa1
///
/// Grammar     claim      = quantity "<=" expression [ "for" condition { ["and"] condition } ]
///             quantity   = error   |O^ - o|, for every element of O
///                        | rms     root mean square of O^ - o over all elements
///                        | bias    |mean of O^ - o| over all elements
///             expression = + - * / ^ (right to left, above a sign), parentheses, sqrt(), log2(), numbers and
///                          u          2^-24
///                          sum_p_v    sum_j p_j |v_j|      bound   that of numerics/bounds.hpp
///                          o          |o|                  these three of the element; with rms their
///                                                          root mean square, with bias their mean
///                          n_q n_kv d sigma Bc
///             condition  = key "=" value { "," value } | key "<=" number | key ">=" number
///                        | key "in" number ".." number
///             key        = n_q n_kv d dv sigma gap (numbers), dist order v (words), or kernel: an id, or the
///                          beginning of one, such as fa1 or fa1.Br4xBc2: all instances on the CPU
/// Open keys   n_q <= 8, n_kv <= 1024, d <= 64, sigma <= 4, gap <= 32, every family but subnormal and zero, every
///             order, kernel = fa1. Of a range of whole numbers 1, 2, 3, 4, 6, 8, 12 ... and both ends
///             are tried, of real ones 17 on a logarithmic scale
/// Search      Evolution (search.hpp) over recipes, for the largest quantity / expression. Entries are not
///             moved one by one: conditions are about recipes. What refutes is made smaller key by key,
///             towards the first of its values, as long as it refutes
/// Counts      only a problem whose bound holds and whose scores carry a digit. The truth's radius is taken
///             off the error, so that a refutation is certain
/// Same        for one seed and number of evaluations, whatever the number of threads
/// Errors      ClaimError: one line that shows the place in the text and what would be right
#pragma once

#include "numerics/search.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

class ClaimError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Quantity { error, rms, bias };

/// What an expression may speak of, but for u.
struct ClaimTerms {
  double sum_p_v = 0.0, bound = 0.0, o = 0.0;
  double n_q = 0.0, n_kv = 0.0, d = 0.0, sigma = 0.0, Bc = 0.0;
};

struct Claim {
  Quantity quantity = Quantity::error;
  std::function<double(const ClaimTerms&)> allowed;
  std::vector<Axis> axes; ///< the simplest value first; `kernel` among them
  /// Instances by the value of the axis `kernel`, which leaves out D; the smallest D first.
  std::map<std::string, std::vector<const kernels::Kernel*>, std::less<>> instances;
};

Claim parse_claim(std::string_view text);

/// Quantity and expression of one run where their quotient is largest.
struct ClaimCase {
  double quantity = 0.0, allowed = 0.0;
  double ratio = 0.0; ///< above 1: refuted
};

/// For an already judged run. Throws ClaimError where the expression is NaN.
ClaimCase weigh(const Claim& claim, const JudgedRun& run, const reference::Recipe& recipe,
                const kernels::Kernel& kernel);

struct ClaimAnswer {
  bool refuted = false;
  ClaimCase closest; ///< refuted: the smallest that was found; else the largest ratio
  reference::Recipe recipe;
  const kernels::Kernel* kernel = nullptr; ///< nullptr: no problem counted
  std::int64_t evaluations = 0;            ///< before it was made smaller
  std::int64_t counted = 0;
};

ClaimAnswer test_claim(const Claim& claim, std::uint64_t seed, const Budget& budget,
                       unsigned threads);

} // namespace fa1::numerics
