/// The FA1 recurrence as plain loops in the kernel's order of operations.
///
/// Computes  the carries (O, l, m) after all keys of a problem, from any carries before them
/// Shapes    as in problem.hpp
/// Requires  a translation unit compiled with -ffp-contract=off; Bc >= 1
/// Error     numerics/bounds.hpp, `online_softmax`, as for the kernel: this is the kernel without
///           CUDA
/// Special   the same as kernels/fa1.cuh, bit for bit (the payload and sign of NaN aside)
/// Source    the recurrence in kernels/fa1.cuh
/// Twin      kernels/fa1.cuh; kernels/tests/mirror_test.cpp compares the bits
#pragma once

#include "reference/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace fa1::reference {

/// What one query row did in one tile.
struct TileStep {
  std::int64_t batch_head = 0, row = 0;
  std::int64_t tile = 0, first_key = 0, columns = 0;
  float m_old = 0, m_new = 0, alpha = 0, l_old = 0, sum_p = 0, l_new = 0;
};

/// `on_step(const TileStep&)` is called once per row and tile, tiles outermost.
template <class OnStep>
State tiled_mirror(const Problem& problem, std::int64_t Bc, State carries, OnStep&& on_step) {
  const Shape& shape = problem.shape;
  const auto d = static_cast<std::size_t>(shape.d), dv = static_cast<std::size_t>(shape.dv);
  std::vector<float> s(static_cast<std::size_t>(Bc)), pv(dv);
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t key0 = 0; key0 < shape.n_kv; key0 += Bc) {
      const auto columns = static_cast<std::size_t>(std::min(Bc, shape.n_kv - key0));
      for (std::int64_t row = 0; row < shape.n_q; ++row) {
        const auto at = static_cast<std::size_t>(bh * shape.n_q + row);
        const auto q = problem.Q.row(bh, row);
        TileStep step{bh, row, key0 / Bc, key0, static_cast<std::int64_t>(columns)};
        step.m_old = carries.m[at];
        step.l_old = carries.l[at];

        step.m_new = step.m_old;
        for (std::size_t c = 0; c < columns; ++c) {
          const auto k = problem.K.row(bh, key0 + static_cast<std::int64_t>(c));
          float dot = 0.0f;
          for (std::size_t i = 0; i < d; ++i)
            dot += q[i] * k[i];
          s[c] = dot * problem.scale;
          step.m_new = std::fmax(step.m_new, s[c]);
        }

        std::ranges::fill(pv, 0.0f);
        for (std::size_t c = 0; c < columns; ++c) {
          const float p = std::exp(s[c] - step.m_new);
          step.sum_p += p;
          const auto v = problem.V.row(bh, key0 + static_cast<std::int64_t>(c));
          for (std::size_t i = 0; i < dv; ++i)
            pv[i] += p * v[i];
        }

        step.alpha = std::exp(step.m_old - step.m_new);
        const float carried = step.alpha * step.l_old;
        step.l_new = carried + step.sum_p;
        const auto o = carries.O.row(bh, row);
        for (std::size_t i = 0; i < dv; ++i)
          o[i] = (carried * o[i] + pv[i]) / step.l_new;
        carries.l[at] = step.l_new;
        carries.m[at] = step.m_new;
        on_step(step);
      }
    }
  return carries;
}

inline State tiled_mirror(const Problem& problem, std::int64_t Bc) {
  return tiled_mirror(problem, Bc, start_state(problem.shape), [](const TileStep&) {});
}

} // namespace fa1::reference
