#include "properties/zoo.hpp"

#include "kernels/originals.hpp"
#include "numerics/ulp.hpp"
#include "properties/generators.hpp"
#include "reference/certified.hpp"

#include <algorithm>
#include <chrono>

namespace fa1::properties {
namespace {

constexpr int kFewCases = 6; ///< on each tile, before more are asked of any

} // namespace

std::vector<Specimen> specimens(std::span<const kernels::Kernel> table) {
  std::vector<Specimen> list;
  for (const kernels::Kernel& kernel : table) {
    if (list.empty() || list.back().variant != kernel.variant)
      list.push_back({kernel.variant, {}});
    list.back().tiles.push_back(kernel);
  }
  return list;
}

Hunt hunt(const Invariant& law, const Specimen& specimen, int cases, std::uint64_t seed) {
  const auto start = std::chrono::steady_clock::now();
  Hunt result;
  const auto ask = [&](int count, std::uint64_t seed_here) {
    for (const kernels::Kernel& kernel : specimen.tiles) {
      const LawResult found = check(law, kernel, count, seed_here, false);
      result.held += found.held;
      result.cases += found.held + found.not_applicable + (found.violated ? 1 : 0);
      if (found.violated) {
        result.killed = true;
        result.detail = found.violation;
        result.replay = found.replay();
        return;
      }
    }
  };
  ask(std::min(cases, kFewCases), seed);
  if (!result.killed && cases > kFewCases)
    ask(cases - kFewCases, seed + 1);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

bool changes_O(const Specimen& specimen, int cases, std::uint64_t seed) {
  for (const kernels::Kernel& kernel : specimen.tiles) {
    const auto right = std::ranges::find_if(kernels::all_kernels(), [&](const auto& other) {
      return other.variant == kernels::original_of(specimen.variant) && other.Br == kernel.Br &&
             other.Bc == kernel.Bc && other.D == kernel.D && !other.arithmetic.contracted;
    });
    const auto recipes = any_recipe(limits_of(*right));
    rc::Random random(seed);
    for (int i = 0; i < cases; ++i) {
      const reference::Problem problem = reference::make_problem(draw_recipe(recipes, random));
      try {
        const reference::State got = kernels::run(kernel, problem);
        const reference::State want = kernels::run(*right, problem);
        if (!std::ranges::equal(got.O.elements(), want.O.elements(), numerics::same_bits))
          return true;
      } catch (const simt::ExecutorError&) {
        return true;
      }
    }
  }
  return false;
}

std::vector<GateInput> gate_inputs() {
  std::vector<GateInput> inputs;
  for (const std::string_view text : numerics::kGateRecipes) {
    reference::Problem problem = reference::make_problem(reference::parse_recipe(text));
    reference::Truth truth = reference::certify(problem);
    reference::Tensor<float> plain = numerics::plain_attention(problem);
    inputs.push_back({std::move(problem), std::move(truth), std::move(plain)});
  }
  return inputs;
}

std::vector<bool> seen_by_gates(const Specimen& specimen, std::span<const GateInput> inputs) {
  const auto gates = numerics::all_gates();
  std::vector<bool> seen(gates.size(), false);
  for (const auto& [problem, truth, plain] : inputs)
    for (const kernels::Kernel& kernel : specimen.tiles) {
      try {
        const reference::State state = kernels::run(kernel, problem);
        for (std::size_t gate = 0; gate < gates.size(); ++gate)
          seen[gate] = seen[gate] || !gates[gate].accepts({state.O, truth.O, plain});
      } catch (const simt::ExecutorError&) {
        return std::vector<bool>(gates.size(), true); // a launch that fails is seen by anybody
      }
    }
  return seen;
}

} // namespace fa1::properties
