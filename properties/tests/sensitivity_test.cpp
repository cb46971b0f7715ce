// The instrument behind `fa1lab check --sensitivity`.
#include "properties/sensitivity.hpp"

#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace fa1;
using properties::Injection;
using properties::Known;

TEST_CASE("without a fault the injected kernel is FA1, bit for bit",
          "[properties][sensitivity][quick]") {
  for (const char* recipe : {"bh=2 n_q=3 n_kv=11 d=5 dv=3 sigma=4 seed=7", "n_kv=0 d=2",
                             "n_q=2 n_kv=9 d=8 order=ascending"}) {
    const auto problem = reference::make_problem(reference::parse_recipe(recipe));
    for (const Injection& injection : properties::kInjections) {
      const auto got = kernels::run(properties::injected(injection.where, 0.0), problem);
      const auto want = reference::tiled_mirror(problem, properties::kInjectedBc);

      CAPTURE(recipe, injection.id);
      CHECK(got.O == want.O);
      CHECK(got.l == want.l);
      CHECK(got.m == want.m);
    }
  }
}

TEST_CASE("no law sees a fault of size 0, and every large one is seen",
          "[properties][sensitivity][quick]") {
  for (const Injection& injection : properties::kInjections) {
    CAPTURE(injection.id);
    for (const auto known : {Known::as_fa1, Known::outputs, Known::O_alone}) {
      const auto caught = [&](double size) {
        return properties::caught_by_laws(properties::injected(injection.where, size, known), 20,
                                          1);
      };
      CHECK(caught(0.0) == 0);
      CHECK(caught(0x1p-4) == properties::kSure);
    }
  }
}

TEST_CASE("gates see a large fault of O", "[properties][sensitivity][quick]") {
  const auto caught =
      properties::caught_by_gates(properties::injected(properties::Where::O, 0x1p-1), 2, 1);

  for (const int count : caught)
    CHECK(count == 2);
}
