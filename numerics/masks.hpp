/// Which keys a query row may see.
///
/// Computes  permitted: the keys of one row, as runs of neighbours. A key counts where all that was asked permits it:
///           lengths    j < length of the batch (n_kv where none is given)
///           band       D - left <= j <= D + right, with the diagonal D = i (Corner::top_left), or
///                      D = i + length - n_q (Corner::bottom_right: the last row's diagonal is the last key that
///                      counts, as FlashAttention has it). A causal mask is the band with right = 0
///           array      true (not 0) where the key is permitted; with true_is_masked where it is not. Of a floating
///                      type: 0 permits, -inf forbids, and nothing else may stand there
///           bias       -inf forbids; what it and a soft cap do to the scores of other keys: score_change.hpp
/// Shapes    array, bias: [n_kv], [n_q, n_kv], [h, n_q, n_kv] or [b, h, n_q, n_kv], aligned at the last axis as NumPy does,
///           h being query heads; an axis of 1 is repeated. Lengths: one for each batch; where there is one batch,
///           also one for each query head (arrays of rank 3 have batch and head in one axis)
/// Masked    A mask is structural: what stands in a forbidden key's K and V, NaN too, is no part of the row's
///           problem, which is an ordinary one over its permitted keys, and truth and bound are those of that
///           problem. A kernel that gets there by adding -inf to scores adds no error (exp(-inf) = 0 exactly, a
///           maximum and a sum never move by -inf and 0), as long as its forbidden scores are not NaN or +inf; one that goes
///           through a tile of forbidden keys rounds its carries once more, which LowPrecision::keys_visited
///           counts. A finite number such as -1e4 or -FLT_MAX in the place of -inf is no mask but an additive bias:
///           the same answer where some key is permitted and scores differ by less, another where none is
/// Special   a row without a permitted key: O = 0 and LSE = -inf (EmptyRow::zero), or NaN both (EmptyRow::nan, what
///           the formula makes of 0 / 0)
/// Errors    reference::FileError, one line: an array whose shape does not fit, lengths beyond n_kv, a number that is
///           neither 0 nor -inf in a mask, NaN or +inf in a bias
#pragma once

#include "reference/files/array.hpp"
#include "reference/problem.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa1::numerics {

enum class Corner : std::uint8_t { top_left, bottom_right };
enum class EmptyRow : std::uint8_t { zero, nan };

struct MaskOptions {
  Corner corner = Corner::bottom_right;
  std::optional<std::int64_t> left = {}, right = {}; ///< of the band
  std::vector<std::int64_t> lengths = {};            ///< none: all keys
  std::optional<reference::Array> array = {};
  bool true_is_masked = false;
  std::optional<reference::Array> bias = {}; ///< added to the scaled scores; -inf forbids the key
  double softcap = 0.0;        ///< C: s becomes C tanh(s / C) before the bias; 0: none
  bool tanh_approx = false;    ///< by PTX's tanh.approx.f32
  bool bias_is_scaled = false; ///< a fault: s + scale b
  bool cap_comes_last = false; ///< a fault: C tanh((s + b) / C)
  EmptyRow empty_row = EmptyRow::zero;

  bool band() const { return left || right; }
  bool changes_scores() const { return bias || softcap > 0.0; }
  bool any() const { return band() || !lengths.empty() || array || bias || softcap > 0.0; }
};

/// Keys from first on, before end.
struct Run {
  std::int64_t first = 0, end = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what the default compares with is no pointer
  auto operator<=>(const Run&) const = default;
};
using Runs = std::vector<Run>; ///< ascending, none empty, no two touch

bool contains(const Runs& runs, std::int64_t key);

/// The same queries against these keys alone.
reference::Problem with_keys(const reference::Problem& problem, const Runs& runs);

/// reference::certify, and the convention where there is no key.
reference::Truth certify(const reference::Problem& problem, EmptyRow empty_row,
                         unsigned threads = 1);

class Mask {
public:
  struct Extents {
    std::int64_t batches = 1, heads = 1, n_q = 0, n_kv = 0; ///< query heads
  };
  Mask(MaskOptions options, const Extents& extents);

  Runs permitted(std::int64_t batch, std::int64_t head, std::int64_t row) const;
  /// Of the keys in these runs.
  std::vector<double> bias(std::int64_t batch, std::int64_t head, std::int64_t row,
                           const Runs& runs) const;
  const MaskOptions& options() const { return options_; }
  const Extents& extents() const { return extents_; }
  std::vector<std::string> says() const; ///< what is masked, one sentence each

private:
  std::int64_t length(std::int64_t batch, std::int64_t head) const;

  MaskOptions options_;
  Extents extents_;
};

/// The whole numbers of an array of rank 1; throws where they are none.
std::vector<std::int64_t> lengths_of(const reference::Array& array);

/// Another mask under which an output would be right.
struct OtherMask {
  std::string says;
  MaskOptions options;
};

/// What kernels make of a mask: parts of it ignored, the other corner, a band that is one off, the wrong length, truth
/// values the other way round, the array of another batch or head, its axes exchanged. Those that are no other mask
/// are left out.
std::vector<OtherMask> other_masks(const Mask& mask);

} // namespace fa1::numerics
