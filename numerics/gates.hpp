/// Other people's acceptance tests for attention outputs, to be compared with the laws.
///
/// Each gate says whether it would accept an output O, given the exact answer and, where the rule needs
/// one, a plain implementation of the same precision. Their authors use them on ordinary inputs, so
/// kGateRecipes are normal Q, K and V of a few shapes.
///
///   allclose   |a - b| <= atol + rtol |b| for every element, b the reference; NaN is never close
/// Source     allclose 1e-2: a common choice in kernel repositories; PyTorch: torch.testing defaults for
///            float32; xformers: its fp32 forward tolerance; KernelBench: its fp32 tolerance; ggml: the
///            normalised mean square error of test-backend-ops for flash attention; FlashAttention: its
///            tests' rule, at most twice the error of a plain implementation
#pragma once

#include "reference/problem.hpp"

#include <array>
#include <span>
#include <string_view>

namespace fa1::numerics {

/// What a gate looks at; all three of one shape.
struct GateView {
  const reference::Tensor<float>& O;
  const reference::Tensor<reference::Enclosed>& exact;
  const reference::Tensor<float>& plain; ///< three passes over fp32 loops
};

struct Gate {
  std::string_view id;
  std::string_view says; ///< the rule
  bool (*accepts)(const GateView&);
};

std::span<const Gate> all_gates();

inline constexpr std::array<std::string_view, 4> kGateRecipes{
    "bh=2 n_q=64 n_kv=64 d=8 seed=11", "n_q=37 n_kv=101 d=8 seed=12",
    "bh=3 n_q=16 n_kv=128 d=8 seed=13", "n_q=128 n_kv=256 d=8 seed=14"};

/// Standard attention in fp32: all scores, softmax, weighted sum.
reference::Tensor<float> plain_attention(const reference::Problem& problem);

} // namespace fa1::numerics
