// Every law on every kernel instance: one test a law, named after it. A failure prints the shrunk
// recipe, a line to paste, and RapidCheck's own string.
//
// The tests are made from the table in invariants.cpp, so a new law is tested without a word here.
#include "kernels/launch.hpp"
#include "properties/tests/table_tests.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>

using namespace fa1;
using properties::Invariant;
using properties::LawResult;

namespace {

constexpr std::uint64_t kSeed = 1;
#if defined(__SANITIZE_ADDRESS__)
constexpr int kQuickCases = 2; // per kernel instance; each access is looked at, and slow
#else
constexpr int kQuickCases = 6;
#endif
constexpr int kDeepCases = 40;

void check_on_every_kernel(const Invariant& invariant, int cases) {
  if (invariant.needs == properties::Needs::device)
    if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
      SKIP("asked of kernels on a GPU alone: " << obstacle);
  int held = 0;
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    const LawResult result = properties::check(invariant, kernel, cases, kSeed);
    held += result.held;
    if (result.violated) {
      properties::tests::tell(result);
      CHECK_FALSE(result.violated);
    }
  }
  // A law that is never asked proves nothing.
  UNSCOPED_INFO(invariant.id << " was asked in " << held << " cases");
  CHECK(held >= cases * static_cast<int>(kernels::all_kernels().size()) / 5);
}

/// Registers two tests a law.
const bool registered = [] {
  for (const Invariant& invariant : properties::all_invariants()) {
    const std::string id(invariant.id), says(invariant.says);
    properties::tests::register_test(id + ": " + says, "[properties][laws][quick]", [&invariant] {
      check_on_every_kernel(invariant, kQuickCases);
    });
    properties::tests::register_test(
        id + " (deep): " + says, "[properties][laws][deep]",
        [&invariant] { check_on_every_kernel(invariant, kDeepCases); });
  }
  return true;
}();

} // namespace

TEST_CASE("the catalogue is whole: ids are unique, statements and formulas are given",
          "[properties][quick]") {
  REQUIRE(registered);
  std::set<std::string_view> ids;
  for (const Invariant& invariant : properties::all_invariants()) {
    CAPTURE(invariant.id);
    CHECK(ids.insert(invariant.id).second);
    CHECK(!invariant.says.empty());
    CHECK(!invariant.formula.empty());
    CHECK(&properties::find_invariant(invariant.id) == &invariant);
  }
  CHECK(ids.size() == 42);
  CHECK_THROWS_AS(properties::find_invariant("m-exakt"), std::invalid_argument);
}
