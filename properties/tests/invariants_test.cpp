// Every law on every kernel instance: one test a law, named after it. A failure prints the shrunk
// recipe, a line to paste, and RapidCheck's own string.
//
// The tests are made from the table in invariants.cpp, so a new law is tested without a word here.
#include "kernels/launch.hpp"
#include "properties/property.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/interfaces/catch_interfaces_testcase.hpp>
#include <catch2/internal/catch_test_registry.hpp>

#include <deque>
#include <iostream>
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
      // Straight to the output: Catch2 would break the lines that are there to be pasted.
      std::cout << invariant.id << ": " << invariant.says << "\n  found:      " << result.violation
                << "\n  shrunk to:  " << result.shrunk_recipe << "\nreproduce: " << result.replay()
                << "\n  or, with this test: RC_PARAMS=\"" << result.reproduce << "\"\n"
                << std::flush;
      CHECK_FALSE(result.violated);
    }
  }
  // A law that is never asked proves nothing.
  UNSCOPED_INFO(invariant.id << " was asked in " << held << " cases");
  CHECK(held >= cases * static_cast<int>(kernels::all_kernels().size()) / 5);
}

class LawTest : public Catch::ITestInvoker {
public:
  LawTest(const Invariant& invariant, int cases) : invariant_(&invariant), cases_(cases) {}
  void invoke() const override { check_on_every_kernel(*invariant_, cases_); }

private:
  const Invariant* invariant_;
  int cases_;
};

/// Registers two tests a law. Catch2's macros need a name known to the compiler; this is what they
/// expand to.
const bool registered = [] {
  static std::deque<std::string> names; // Catch2 keeps views of them
  for (const Invariant& invariant : properties::all_invariants())
    for (const bool quick : {true, false}) {
      names.push_back(std::string(invariant.id) + (quick ? ": " : " (deep): ") +
                      std::string(invariant.says));
      Catch::AutoReg(
          Catch::Detail::make_unique<LawTest>(invariant, quick ? kQuickCases : kDeepCases),
          CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
          Catch::NameAndTags{names.back(),
                             quick ? "[properties][laws][quick]" : "[properties][laws][deep]"});
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
