// The laws have teeth: each wrong kernel is caught by the law its row names, and by its shrunk
// recipe again.
#include "properties/property.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace fa1;

TEST_CASE("each wrong kernel is caught by the law that its row names",
          "[properties][mutants][quick]") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer ends the program at the first mutant that leaves its buffers");
#endif
  std::set<std::string> names, caught;

  for (const kernels::Kernel& mutant : kernels::all_mutants()) {
    if (!mutant.survives.empty())
      continue;
    names.insert(mutant.variant);
    const auto& law = properties::find_invariant(mutant.killed_by);
    const auto result = properties::check(law, mutant, 60, 1);
    if (!result.violated)
      continue; // a fault need not show at every tile shape (one thread needs no barrier)
    caught.insert(mutant.variant);
    CAPTURE(mutant.id, law.id, result.shrunk_recipe);
    const auto again =
        properties::check_case(law, reference::parse_recipe(result.shrunk_recipe), mutant);
    CHECK(again.answer == properties::Answer::violated); // the replay line replays
  }

  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(caught.contains(name));
  }
}

TEST_CASE("a mutant's shrunk recipe is small enough to read", "[properties][mutants][quick]") {
  const auto& mutant = kernels::find_kernel("mutant.no_alpha_on_O.Br1xBc1xD8.cpu", {});

  const auto result = properties::check(properties::find_invariant("o-rescale"), mutant, 60, 1);

  REQUIRE(result.violated);
  const auto recipe = reference::parse_recipe(result.shrunk_recipe);
  CHECK(recipe.n_q == 1);
  CHECK(recipe.n_kv == 2); // two tiles of one key, and the maximum rises
  CHECK(recipe.d == 1);
}
