#include "reports/self_test.hpp"

#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reports/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fa1::reports {

void require_sound_judge(const numerics::Judge& judge) {
  constexpr std::size_t kOffers = 8;
  constexpr const char* kRecipe = "bh=2 n_q=5 n_kv=40 d=16 dv=8 seed=3";
  const reference::Problem problem = reference::make_problem(reference::parse_recipe(kRecipe));
  const reference::Truth truth = reference::certify(problem);
  for (const bool known : {true, false}) {
    const numerics::Bounds bounds = numerics::online_softmax(problem, {.known = known, .Bc = 8});

    const numerics::JudgeTrial trial = numerics::verify_judge(problem, truth, bounds, judge);

    if (!trial.missed.empty())
      throw EnvironmentError(fmt::format("the judge fails its self-test on '{}': it misjudges {}; "
                                         "want a build of fa1lab that passes "
                                         "its own tests (./fa1lab test quick)",
                                         kRecipe, fmt::join(trial.missed, ", ")));
    if (trial.seen.size() != kOffers)
      throw EnvironmentError(
          fmt::format("the judge's self-test on '{}' asked {} questions; want {}", kRecipe,
                      trial.seen.size(), kOffers));
  }
}

} // namespace fa1::reports
