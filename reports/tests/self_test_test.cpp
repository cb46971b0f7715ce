// The judge is tried before it judges, and a judge that lets something pass ends the program.
#include "reports/self_test.hpp"

#include "reports/command.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using numerics::Judgement;
using numerics::Verdict;

TEST_CASE("the judge passes its own trial", "[reports][quick]") {
  CHECK_NOTHROW(reports::require_sound_judge());
}

TEST_CASE("a judge that is blind to something is found out", "[reports][quick]") {
  struct Blind {
    const char* misses;
    bool (*sees)(const reference::State& state, const Verdict& verdict);
  };
  const auto blind = GENERATE(values<Blind>({
      {"zeros", [](const auto& s, const Verdict&) { return s.O(0, 0, 0) != 0.0f; }},
      {"NaN everywhere",
       [](const auto& s, const Verdict&) { return s.O(0, 0, 0) == s.O(0, 0, 0); }},
      {"one element 64 ulp above its bound",
       [](const auto&, const Verdict& verdict) { return !(verdict.worst.fraction() < 8.0); }},
      {"the truth rounded to fp32", [](const auto&, const Verdict&) { return true; }},
  }));
  const numerics::Judge judge = [sees = blind.sees](const auto& problem, const auto& state,
                                                    const auto& truth, const auto& bounds, bool l) {
    Verdict verdict = numerics::judge(problem, state, truth, bounds, l);
    verdict.judgement = sees(state, verdict) ? Judgement::proved_wrong : Judgement::proved_right;
    return verdict;
  };

  CHECK_THROWS_MATCHES(reports::require_sound_judge(judge), reports::EnvironmentError,
                       MessageMatches(ContainsSubstring(blind.misses)));
}
