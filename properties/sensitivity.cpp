#include "properties/sensitivity.hpp"

#include "properties/generators.hpp"
#include "properties/property.hpp"
#include "reference/certified.hpp"
#include "reference/hash.hpp"

#include <algorithm>
#include <cmath>

namespace fa1::properties {
namespace {

using kernels::Arguments;

constexpr int kMostD = 8;

/// The recurrence of fa1.cuh, with the fault.
void run_injected(const Arguments& a, Where where, float factor) {
  const auto& shape = a.shape;
  const auto faulty = [&](Where here, float x) { return here == where ? x * factor : x; };
  const auto d = static_cast<std::size_t>(shape.d), dv = static_cast<std::size_t>(shape.dv);
  const auto keys = static_cast<std::size_t>(shape.n_kv);
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  for (std::size_t at = 0; at < rows; ++at) {
    const std::size_t bh = at / static_cast<std::size_t>(shape.n_q);
    const bool first_row = at % static_cast<std::size_t>(shape.n_q) == 0;
    float* const O = a.O + at * dv;
    float &l = a.l[at], &m = a.m[at];
    if (!a.resume) {
      std::fill_n(O, dv, 0.0f);
      l = 0.0f;
      m = -std::numeric_limits<float>::infinity();
    }
    for (std::size_t first = 0; first < keys; first += kInjectedBc) {
      const std::size_t columns = std::min<std::size_t>(kInjectedBc, keys - first);
      float s[kInjectedBc] = {}, pv[kMostD] = {};
      float m_new = m;
      for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t i = 0; i < d; ++i)
          s[c] += a.Q[at * d + i] * a.K[(bh * keys + first + c) * d + i];
        s[c] *= a.scale;
        if (first_row && first + c == 0)
          s[c] = faulty(Where::score, s[c]);
        m_new = std::fmax(m_new, s[c]);
      }
      float sum_p = 0.0f;
      for (std::size_t c = 0; c < columns; ++c) {
        float p = std::exp(s[c] - m_new);
        if (p < 1.0f)
          p = faulty(Where::p, p);
        sum_p += p;
        for (std::size_t i = 0; i < dv; ++i) {
          float v = a.V[(bh * keys + first + c) * dv + i];
          if (bh == 0 && first + c == 0 && i == 0)
            v = faulty(Where::value, v);
          pv[i] += p * v;
        }
      }
      float alpha = std::exp(m - m_new);
      if (m_new > m)
        alpha = faulty(Where::alpha, alpha);
      const float carried = alpha * l;
      const float l_new = faulty(Where::l, carried + sum_p);
      for (std::size_t i = 0; i < dv; ++i)
        O[i] = faulty(Where::O, (carried * O[i] + pv[i]) / l_new);
      l = l_new;
      m = m_new;
    }
  }
}

} // namespace

kernels::Kernel injected(Where where, double size, Known known) {
  kernels::Kernel kernel;
  kernel.id = kernel.variant = "injected";
  kernel.says = "FA1 with one intermediate off by a relative error";
  kernel.Br = 1;
  kernel.Bc = kInjectedBc;
  kernel.D = kMostD;
  kernel.arithmetic.Bc = kInjectedBc;
  kernel.arithmetic.known = known == Known::as_fa1;
  kernel.gives_l_and_m = known != Known::O_alone;
  kernel.resumes = known != Known::O_alone;
  kernel.mutant = true;
  kernel.run = [where, factor = static_cast<float>(1.0 + size)](const Arguments& arguments,
                                                                const kernels::Launch&) {
    run_injected(arguments, where, factor);
  };
  return kernel;
}

int caught_by_laws(const kernels::Kernel& kernel, int cases, std::uint64_t seed) {
  const auto recipes = any_recipe(limits_of(kernel));
  int caught = 0;
  for (const Invariant& law : all_invariants()) {
    rc::Random random(seed ^ reference::hash_of(law.id));
    for (int i = 0; i < cases; ++i) {
      const reference::Recipe recipe = draw_recipe(recipes, random);
      caught += check_case(law, recipe, kernel).answer == Answer::violated;
      if (caught >= kSure)
        return caught;
    }
  }
  return caught;
}

std::vector<int> caught_by_gates(const kernels::Kernel& kernel, int cases, std::uint64_t seed) {
  const auto gates = numerics::all_gates();
  std::vector<int> caught(gates.size(), 0);
  for (int i = 0; i < cases; ++i) {
    reference::Recipe recipe;
    recipe.n_q = 16;
    recipe.n_kv = 64;
    recipe.d = kernel.D;
    recipe.seed = seed + static_cast<std::uint64_t>(i);
    const reference::Problem problem = reference::make_problem(recipe);
    const reference::State state = kernels::run(kernel, problem);
    const reference::Truth truth = reference::certify(problem);
    const reference::Tensor<float> plain = numerics::plain_attention(problem);
    for (std::size_t gate = 0; gate < gates.size(); ++gate)
      caught[gate] += !gates[gate].accepts({state.O, truth.O, plain});
  }
  return caught;
}

} // namespace fa1::properties
