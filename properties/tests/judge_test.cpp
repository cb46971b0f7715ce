// The judge that every law relies on is tried on generated problems.
#include "numerics/verdict.hpp"
#include "properties/generators.hpp"
#include "properties/rapidcheck_bridge.hpp"
#include "reference/certified.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>

using namespace fa1;

TEST_CASE("the judge rejects what is wrong on generated problems", "[properties][quick]") {
  std::map<std::string, int> offered;

  const auto report = properties::run_property("judge/trial", {500, 7}, [&] {
    const reference::Recipe recipe = *properties::any_recipe({});
    const bool known = *rc::gen::arbitrary<bool>();
    const reference::Problem problem = reference::make_problem(recipe);
    const numerics::Bounds bounds = numerics::online_softmax(problem, {.known = known, .Bc = 4});
    const auto trial = numerics::verify_judge(problem, reference::certify(problem), bounds);
    for (const std::string& offer : trial.seen)
      ++offered[offer];
    if (!trial.missed.empty())
      RC_FAIL(
          fmt::format("{} on '{}'", fmt::join(trial.missed, ", "), reference::to_string(recipe)));
  });

  CAPTURE(report.message, report.reproduce);
  CHECK(report.held);
  CHECK(offered.size() == 8);
  for (const auto& [offer, times] : offered) {
    CAPTURE(offer, times);
    CHECK(times >= report.cases / 10); // no offer is left out nearly always
  }
}
