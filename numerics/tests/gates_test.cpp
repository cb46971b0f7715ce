// Other people's gates, as their authors wrote them.
#include "numerics/gates.hpp"

#include "kernels/kernel.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace fa1;
using numerics::Gate;

namespace {

struct Subject {
  reference::Problem problem;
  reference::Tensor<float> O, plain;
  reference::Truth truth;
};

Subject subject(std::string_view recipe) {
  const auto problem = reference::make_problem(reference::parse_recipe(recipe));
  const auto& kernel = kernels::find_kernel("fa1.Br8xBc4", problem.shape);
  return {problem, kernels::run(kernel, problem).O, numerics::plain_attention(problem),
          reference::certify(problem)};
}

bool accepts(const Gate& gate, const Subject& s) { return gate.accepts({s.O, s.truth.O, s.plain}); }

} // namespace

TEST_CASE("every gate accepts a right kernel on its own inputs", "[numerics][gates][quick]") {
  for (const std::string_view recipe : numerics::kGateRecipes) {
    const Subject s = subject(recipe);

    for (const Gate& gate : numerics::all_gates()) {
      CAPTURE(recipe, gate.id);
      CHECK(accepts(gate, s));
    }
  }
}

TEST_CASE("no gate accepts a NaN", "[numerics][gates][quick]") {
  Subject s = subject(numerics::kGateRecipes.front());

  s.O.elements().back() = std::numeric_limits<float>::quiet_NaN();

  for (const Gate& gate : numerics::all_gates()) {
    CAPTURE(gate.id);
    CHECK_FALSE(accepts(gate, s));
  }
}

TEST_CASE("an error is judged by each gate's own rule", "[numerics][gates][quick]") {
  Subject s = subject(numerics::kGateRecipes.front());
  const double exact = s.truth.O.elements()[0].hi;

  // between PyTorch's allowance and xformers', for |o| < 4
  s.O.elements()[0] = static_cast<float>(exact + 1e-4);

  for (const Gate& gate : numerics::all_gates()) {
    CAPTURE(gate.id);
    CHECK(accepts(gate, s) == (gate.id != "pytorch" && gate.id != "flash-attention" &&
                               (gate.id != "kernelbench" || std::fabs(exact) > 0.0)));
  }
}
