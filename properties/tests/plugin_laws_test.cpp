// The laws on kernels from outside: a right one holds them all, a wrong one is caught, and what it does
// to its process is the finding.
#include "kernels/plugin.hpp"
#include "properties/property.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <set>
#include <string>
#include <string_view>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using kernels::Kernel;
using properties::check;
using properties::find_invariant;
using properties::LawResult;

namespace {

constexpr std::uint64_t kSeed = 1;

Kernel plugin(const std::string& name, double timeout = 10.0) {
  return kernels::load_plugin(FA1_PLUGINS + name + ".so", {.timeout = timeout});
}

/// The laws that hold in some case; one that is violated fails the test.
std::set<std::string_view> laws_held(const Kernel& kernel, int cases) {
  std::set<std::string_view> held;
  for (const properties::Invariant& law : properties::all_invariants()) {
    const LawResult result = check(law, kernel, cases, kSeed);
    CAPTURE(law.id, result.violation, result.shrunk_recipe);
    CHECK_FALSE(result.violated);
    if (result.held > 0)
      held.insert(law.id);
  }
  return held;
}

/// Every law that a kernel of unknown make can be asked, given what it gives.
std::set<std::string_view> laws_that_apply(const Kernel& kernel) {
  std::set<std::string_view> laws;
  for (const properties::Invariant& law : properties::all_invariants())
    if (law.stranger != properties::Stranger::not_asked &&
        law.id != "tile-width" && // needs a second kernel with another tile
        (law.needs == properties::Needs::output ||
         (kernel.gives_l_and_m && (law.needs == properties::Needs::l_and_m ||
                                   (law.needs == properties::Needs::carries && kernel.resumes)))))
      laws.insert(law.id);
  return laws;
}

void check_right_plugins(int cases) {
  for (const char* name : {"plain_attention", "fa1", "bad_output_only"}) {
    CAPTURE(name);
    const Kernel kernel = plugin(name);

    const auto held = laws_held(kernel, cases);

    CHECK(held == laws_that_apply(kernel));
  }
}

} // namespace

TEST_CASE("a right plug-in holds every law that applies to what it gives",
          "[properties][plugin][quick]") {
  check_right_plugins(10);
}

TEST_CASE("a right plug-in holds every law in many cases", "[properties][plugin][deep]") {
  check_right_plugins(200);
}

TEST_CASE("a wrong kernel behind the door is caught, and its replay line names the library",
          "[properties][plugin][quick]") {
  const Kernel kernel = plugin("no_alpha_on_O");

  const LawResult result = check(find_invariant("truth"), kernel, 100, kSeed);

  REQUIRE(result.violated);
  CHECK_THAT(result.replay(), ContainsSubstring("./fa1lab repro '" + result.shrunk_recipe +
                                                "' --plugin " FA1_PLUGINS "no_alpha_on_O.so"));
  CHECK_THAT(result.replay(), EndsWith(" --invariant truth"));
  const auto again = properties::check_case(find_invariant("truth"),
                                            reference::parse_recipe(result.shrunk_recipe), kernel);
  CHECK(again.answer == properties::Answer::violated);
}

TEST_CASE("the mean of V is caught by what O alone can show", "[properties][plugin][quick]") {
  const LawResult result =
      check(find_invariant("truth"), plugin("bad_output_only_mean"), 20, kSeed);

  CHECK(result.violated);
}

TEST_CASE("a crash is a violation that shrinks to the smallest problem that crashes",
          "[properties][plugin][quick]") {
  const LawResult result = check(find_invariant("repeat"), plugin("bad_late_crash"), 40, kSeed);

  REQUIRE(result.violated);
  CHECK_THAT(result.violation, ContainsSubstring("SIGSEGV"));
  CHECK(reference::parse_recipe(result.shrunk_recipe).n_kv == 9);
}

TEST_CASE("a hang is a violation that is not shrunk", "[properties][plugin][quick]") {
  int calls = 0;
  Kernel kernel = plugin("bad_late_hang", 0.2);
  kernel.run = [&calls, run = kernel.run](const kernels::Arguments& arguments,
                                          const kernels::Launch& launch) {
    calls += arguments.shape.n_kv > 8 ? 1 : 0;
    run(arguments, launch);
  };

  const LawResult result = check(find_invariant("truth"), kernel, 40, kSeed);

  REQUIRE(result.violated);
  CHECK_THAT(result.violation, ContainsSubstring("did not return"));
  CHECK(calls == 1);
}

TEST_CASE("a shape that the plug-in declines counts as not applicable, never as held",
          "[properties][plugin][quick]") {
  const LawResult none = check(find_invariant("truth"), plugin("bad_unsupported"), 20, kSeed);
  const LawResult some = check(find_invariant("repeat"), plugin("bad_even_d"), 60, kSeed);

  CHECK((none.held == 0 && none.not_applicable == 20 && !none.violated));
  CHECK((some.held > 0 && some.not_applicable > 0 && !some.violated));
}
