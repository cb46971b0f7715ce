/// The floats that a launch moves between global memory (HBM) and the chip, per array: by the closed form
/// of its row in variants.def, and as counted.
///
/// predicted_traffic  evaluates the formula that variants.def shows, for one shape and the kernel's tile
/// counted_traffic    runs the kernel's text, compiled with pointers that count every load and store
///                    (simt/counted_pointer.hpp)
/// Units     floats, all batch-heads together. A head dimension that is padded counts as D. The carries
///           of no keys, written by a kernel of their own before, are not counted.
/// Errors    KernelError: a formula that does not parse (named, with the place), or a kernel that has
///           none or no counting instance
#pragma once

#include "kernels/kernel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fa1::kernels {

struct Traffic {
  /// What a kernel keeps in m may be LSE; scratch is S or the states of ranges.
  static constexpr std::array<std::string_view, 7> kArrays{"Q", "K", "V", "O", "l", "m", "scratch"};

  struct OfArray {
    std::int64_t read = 0, written = 0;
    bool operator==(const OfArray&) const = default;
  };
  std::array<OfArray, kArrays.size()> arrays;

  std::int64_t total() const;
  bool operator==(const Traffic&) const = default;
};

/// `read K n_kv D, Q Tc n_q D; write O Tc n_q D`: products are written without a sign, + - ( ) are
/// allowed, words before a colon are a comment. Symbols: n_q n_kv D Br Bc, Tr and Tc (numbers of query
/// blocks and of K/V tiles), R and R' (ranges of keys, and those that are not empty).
Traffic evaluate_traffic(std::string_view formula, const Shape& shape, int Br, int Bc, int D);

Traffic predicted_traffic(const Kernel& kernel, const Shape& shape);

/// What one launch did.
struct LaunchCounts {
  Traffic traffic;
  std::int64_t barriers = 0;     ///< of the block that met most, each once for the block
  std::int64_t shared_bytes = 0; ///< shared memory of a block
};

bool traffic_is_counted(const Kernel& kernel);
LaunchCounts counted_traffic(const Kernel& kernel, const Problem& problem);

/// Floats of global memory that a launch needs besides Q, K, V and O: l, m and scratch.
std::int64_t extra_memory(const Kernel& kernel, const Shape& shape);

} // namespace fa1::kernels
