// Claims about shrinking: how small, of the same kind, and that what is right is left alone.
#include "numerics/shrink.hpp"

#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace fa1::numerics;
using fa1::kernels::find_kernel;
using fa1::kernels::Kernel;
using fa1::reference::Problem;

namespace {

Problem problem_of(const std::string& recipe) {
  return fa1::reference::make_problem(fa1::reference::parse_recipe(recipe));
}

const Kernel& kernel_of(const std::string& id) { return find_kernel(id, {1, 1, 1, 8, 8}); }

/// fa1 whose answer is spoilt by `spoil`.
Kernel spoilt(std::function<void(const fa1::kernels::Arguments&)> spoil) {
  Kernel kernel = kernel_of("fa1.Br4xBc2");
  kernel.run = [run = kernel.run, spoil = std::move(spoil)](const fa1::kernels::Arguments& a,
                                                            const fa1::kernels::Launch& launch) {
    run(a, launch);
    spoil(a);
  };
  return kernel;
}

/// A failing problem of four heads for a recurrence mutant, on the tile with which few keys show it.
struct Failing {
  std::string tile = ".Br4xBc2xD8.cpu", recipe = "bh=4 n_q=512 n_kv=512 d=8";
};

Failing failing_of(const std::string& mutant) {
  Failing failing;
  // Wrong with a last tile that is not full.
  if (mutant == "mutant.alpha_missing_in_last_tile")
    failing.recipe = "bh=4 n_q=512 n_kv=511 d=8";
  // Right but for overflow: a wrong maximum cancels unless scores are 88 apart.
  if (mutant == "mutant.max_forgotten" || mutant == "mutant.max_is_first_score")
    failing.recipe += " sigma=64";
  // O is wrong from the third tile on, which two keys a tile reach with the fifth.
  if (mutant == "mutant.l_before_update")
    failing.tile = ".Br1xBc1xD8.cpu";
  return failing;
}

std::vector<std::string> recurrence_mutants() {
  std::vector<std::string> names;
  for (const Kernel& kernel : fa1::kernels::all_mutants())
    if (kernel.fault == "recurrence" && std::ranges::find(names, kernel.variant) == names.end())
      names.push_back(kernel.variant);
  return names;
}

void check_small(const std::string& mutant) {
  const Failing failing = failing_of(mutant);
  const Kernel& kernel = find_kernel(mutant + failing.tile, {4, 512, 512, 8, 8});
  CAPTURE(kernel.id);

  const auto shrunk = shrink(problem_of(failing.recipe), kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->complete);
  CHECK(shrunk->problem.shape.batch_heads == 1);
  CHECK(shrunk->problem.shape.n_q == 1);
  CHECK(shrunk->problem.shape.n_kv <= 4);
  CHECK(shrunk->problem.shape.d <= 2);
  CHECK(shrunk->problem.shape.dv <= 2);
  const auto again = wrong_run(shrunk->problem, kernel);
  REQUIRE(again);
  CHECK(again->kind.output == shrunk->run.kind.output);
  CHECK(again->kind.how == shrunk->run.kind.how);
}

} // namespace

TEST_CASE(
    "a failing problem of 4 heads, 512 queries and 512 keys of a recurrence mutant shrinks to at "
    "most 4 keys and 2 components",
    "[numerics][quick]") {
  check_small("mutant.no_alpha_on_O");
}

TEST_CASE("what is right, or was not asked to be wrong, is left alone", "[numerics][quick]") {
  const Problem problem = problem_of("bh=2 n_q=9 n_kv=20 d=5");

  CHECK_FALSE(shrink(problem, kernel_of("fa1.Br4xBc2")));
  CHECK_FALSE(wrong_run(problem, kernel_of("fa1.Br4xBc2")));
}

TEST_CASE("a fault of another kind on the way is not taken", "[numerics][quick]") {
  const Kernel kernel = spoilt([](const fa1::kernels::Arguments& a) {
    if (a.shape.n_kv >= 3)
      a.O[0] += 1.0f;
    else // another fault, and all smaller problems have it
      a.O[0] = std::numeric_limits<float>::quiet_NaN();
  });

  const auto shrunk = shrink(problem_of("n_q=5 n_kv=40 d=3"), kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->problem.shape.n_kv == 3);
  CHECK(shrunk->run.kind.how == "its error is beyond its bound");
}

TEST_CASE("the fault that the answer looks like stays the same", "[numerics][quick]") {
  Kernel kernel = kernel_of("mutant.no_alpha_on_O.Br4xBc2");
  kernel.run = [run = kernel.run](const fa1::kernels::Arguments& a,
                                  const fa1::kernels::Launch& launch) {
    run(a, launch);
    if (a.shape.n_kv < 6)
      a.O[0] += 0.5f;
  };

  const auto shrunk = shrink(problem_of("n_q=5 n_kv=40 d=3"), kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->run.kind.name == "no_alpha_on_O");
  CHECK(shrunk->problem.shape.n_kv == 6);
}

TEST_CASE("a fault of m and l alone stays one, where O is right", "[numerics][quick]") {
  const Kernel kernel = spoilt([](const fa1::kernels::Arguments& a) {
    a.l[0] *= 2.0f;
    if (a.shape.n_kv < 4)
      a.O[0] += 1.0f;
  });

  const auto shrunk = shrink(problem_of("n_q=5 n_kv=40 d=3"), kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->run.kind.output == "l, m");
  CHECK(shrunk->problem.shape.n_kv == 4);
}

TEST_CASE("an overflow is followed back to the error that grows into it", "[numerics][quick]") {
  const Kernel& kernel = kernel_of("mutant.no_division.Br4xBc2");
  const Problem problem = problem_of("n_q=2 n_kv=300 d=3");
  REQUIRE(wrong_run(problem, kernel)->kind.how == "the truth is finite");

  const auto shrunk = shrink(problem, kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->run.kind.how == "its error is beyond its bound");
  CHECK(shrunk->problem.shape.n_kv <= 3);
}

TEST_CASE(
    "an error between the bounds of this kernel and of any kernel is held to that of this one",
    "[numerics][quick]") {
  const Problem problem = problem_of("n_kv=20 d=3 dv=1 v=positive");
  fa1::kernels::Arithmetic stranger = kernel_of("fa1.Br4xBc2").arithmetic;
  const double own = online_softmax(problem, stranger).O(0, 0, 0);
  stranger.known = false;
  const double widest = online_softmax(problem, stranger).O(0, 0, 0);
  REQUIRE(widest > 1.5 * own);
  const auto between = static_cast<float>((own + widest) / 2.0);

  const auto found = wrong_run(
      problem, spoilt([between](const fa1::kernels::Arguments& a) { a.O[0] += between; }));
  const auto gross =
      wrong_run(problem, spoilt([](const fa1::kernels::Arguments& a) { a.O[0] += 1.0f; }));

  REQUIRE(found);
  CHECK(found->kind.held_to == HeldTo::own_arithmetic);
  REQUIRE(gross);
  CHECK(gross->kind.held_to == HeldTo::any_kernel);
}

TEST_CASE("what needs two heads keeps two", "[numerics][quick]") {
  const auto shrunk =
      shrink(problem_of("bh=5 n_q=3 n_kv=9 d=3"), kernel_of("mutant.heads_share_values.Br4xBc2"));

  REQUIRE(shrunk);
  CHECK(shrunk->problem.shape.batch_heads == 2);
  CHECK(shrunk->problem.shape.n_kv == 1);
}

TEST_CASE("a kernel that fails is shrunk while it fails with the same words, numbers aside",
          "[numerics][quick]") {
  const Kernel kernel = spoilt([](const fa1::kernels::Arguments& a) {
    if (a.shape.n_kv >= 3)
      throw fa1::kernels::KernelFault("wrote " + std::to_string(a.shape.n_kv) + " floats outside");
    throw fa1::kernels::KernelFault("crashed");
  });
  const Kernel hangs = spoilt(
      [](const fa1::kernels::Arguments&) { throw fa1::kernels::KernelFault("10 s passed", true); });

  const auto shrunk = shrink(problem_of("n_q=5 n_kv=40 d=3"), kernel);

  REQUIRE(shrunk);
  CHECK(shrunk->run.kind.failed());
  CHECK(shrunk->run.kind.how == "wrote # floats outside");
  CHECK(shrunk->problem.shape.n_kv == 3);
  CHECK_THROWS_AS(shrink(problem_of("n_kv=40 d=3"), hangs), fa1::kernels::KernelFault);
}

TEST_CASE(
    "with too few runs the smallest problem so far is the answer, and says that it is not all",
    "[numerics][quick]") {
  const Kernel& kernel = kernel_of("mutant.no_alpha_on_O.Br4xBc2");

  const auto shrunk = shrink(problem_of("bh=2 n_q=5 n_kv=40 d=3"), kernel, {.runs = 5});

  REQUIRE(shrunk);
  CHECK(shrunk->runs == 5);
  CHECK_FALSE(shrunk->complete);
  CHECK(shrunk->problem.shape.batch_heads == 1);
  CHECK(shrunk->problem.shape.n_kv > 4);
  CHECK(wrong_run(shrunk->problem, kernel));
}

TEST_CASE("simpler floats come with fewer bits, then closer to 1, then positive",
          "[numerics][quick]") {
  CHECK(shorter(1.0f).empty());
  CHECK(shorter(-1.0f) == std::vector<float>{1.0f});
  CHECK(shorter(0.0f).empty());
  CHECK(shorter(4.0f) == std::vector<float>{1.0f, -1.0f});
  CHECK(shorter(-5.0f) == std::vector<float>{1.0f, -1.0f, 4.0f, -4.0f, 5.0f});
  CHECK(shorter(std::numeric_limits<float>::quiet_NaN()) == std::vector<float>{1.0f, -1.0f});
  CHECK(shorter(0x1.fffffep+127f) == std::vector<float>{1.0f, -1.0f}); // the others round to Inf
}

TEST_CASE("so does one of every recurrence mutant", "[numerics][deep]") {
  const std::vector<std::string> mutants = recurrence_mutants();
  REQUIRE(mutants.size() >= 24);

  for (const std::string& mutant : mutants)
    check_small(mutant);
}

TEST_CASE(
    "a kernel that declines the problem is not called right, and smaller ones that it declines "
    "are not taken",
    "[numerics][quick]") {
  const Kernel declines = spoilt([](const fa1::kernels::Arguments& a) {
    if (a.shape.n_kv < 7)
      throw fa1::kernels::UnsupportedShape("want 7 keys");
    a.O[0] += 1.0f;
  });

  const auto shrunk = shrink(problem_of("n_q=5 n_kv=40 d=3"), declines);

  REQUIRE(shrunk);
  CHECK(shrunk->problem.shape.n_kv == 7);
  CHECK_THROWS_AS(shrink(problem_of("n_kv=3 d=3"), declines), fa1::kernels::UnsupportedShape);
}
