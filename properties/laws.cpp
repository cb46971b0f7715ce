#include "properties/laws.hpp"

#include "properties/transform.hpp"
#include "reference/hash.hpp"

#include <algorithm>
#include <cmath>

namespace fa1::properties::laws {

std::mt19937_64 choices_of(const Case& c) {
  return std::mt19937_64(reference::hash_of(reference::to_string(c.recipe)));
}

std::vector<std::int64_t> tile_borders(const Case& c, std::size_t most) {
  std::vector<std::int64_t> all;
  const std::int64_t n_kv = c.problem.shape.n_kv, Bc = c.kernel.Bc;
  for (std::int64_t border = Bc; border < n_kv; border += Bc)
    all.push_back(border);
  if (n_kv > 0)
    all.push_back(n_kv);
  if (all.size() <= most)
    return all;
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < most; ++i)
    some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

std::vector<State> carries_after_tiles(const Case& c, std::int64_t tiles) {
  std::vector<State> states;
  const std::int64_t n_kv = c.problem.shape.n_kv, Bc = c.kernel.Bc;
  for (std::int64_t first = 0; first < n_kv && static_cast<std::int64_t>(states.size()) < tiles;
       first += Bc) {
    const Problem tile = with_keys(c.problem, range(first, std::min(Bc, n_kv - first)));
    states.push_back(first == 0 ? kernels::run(c.kernel, tile)
                                : kernels::resume(c.kernel, tile, states.back()));
  }
  return states;
}

const kernels::Kernel* sibling(const kernels::Kernel& kernel, bool same_Bc,
                               std::mt19937_64& choices) {
  std::vector<const kernels::Kernel*> candidates;
  for (const auto table : kernels::all_tables())
    for (const auto& other : table)
      if (other.variant == kernel.variant && other.build == kernel.build && other.D == kernel.D &&
          other.id != kernel.id &&
          (same_Bc ? other.Bc == kernel.Bc && other.Br != kernel.Br : other.Bc != kernel.Bc))
        candidates.push_back(&other);
  return candidates.empty() ? nullptr : candidates[choices() % candidates.size()];
}

const kernels::Kernel* in_build(const kernels::Kernel& kernel, std::string_view build) {
  return find_kernel_where([&](const kernels::Kernel& other) {
    return other.variant == kernel.variant && other.build == build && other.Br == kernel.Br &&
           other.Bc == kernel.Bc && other.D == kernel.D;
  });
}

const kernels::Kernel* twin_on_cpu(const kernels::Kernel& kernel) {
  return in_build(kernel, kernel.arithmetic.portable     ? "cpu-portable"
                          : kernel.arithmetic.contracted ? "cpu-fma"
                                                         : "cpu");
}

float score_in_order(std::span<const float> q, std::span<const float> k, float scale,
                     bool contracted) {
  float dot = 0.0f;
  for (std::size_t i = 0; i < q.size(); ++i)
    dot = contracted ? std::fmaf(q[i], k[i], dot) : dot + q[i] * k[i];
  return dot * scale;
}

} // namespace fa1::properties::laws
