// The same laws, edge cases and bits on a GPU. Every test is skipped, and says why, where there is none.
#include "kernels/launch.hpp"
#include "numerics/edge_cases.hpp"
#include "properties/generators.hpp"
#include "properties/tests/table_tests.hpp"

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace fa1;
using kernels::Kernel;
using properties::Answer;
using properties::Invariant;

namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kCases = 3; // per law and kernel instance

void require_device() {
  if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
    SKIP(obstacle);
}

/// The right kernels on the GPU: those with nvcc's defaults, and those with the CPU's bits.
std::vector<const Kernel*> kernels_on_gpu() {
  std::vector<const Kernel*> found;
  for (const auto table : {kernels::all_kernels(), kernels::other_builds()})
    for (const Kernel& kernel : table)
      if (kernel.build == "cuda" || kernel.build == "cuda-portable")
        found.push_back(&kernel);
  REQUIRE_FALSE(found.empty());
  return found;
}

// Lines that are there to be pasted go straight to the output: Catch2 would break them.

void check_law(const Invariant& invariant) {
  require_device();
  int held = 0;
  for (const Kernel* kernel : kernels_on_gpu()) {
    const properties::LawResult result = properties::check(invariant, *kernel, kCases, kSeed);
    held += result.held;
    if (result.violated)
      properties::tests::tell(result);
    CHECK_FALSE(result.violated);
  }
  UNSCOPED_INFO(invariant.id << " was asked in " << held << " cases");
  if (invariant.id == "traffic") // counted by pointers that only the CPU has
    CHECK(held == 0);
  else
    CHECK(held > 0);
}

void check_edge_case(const numerics::EdgeCase& edge_case) {
  require_device();
  int asked = 0;
  for (const Kernel& kernel : kernels::all_kernels()) {
    if (kernel.backend != kernels::Backend::cuda || !numerics::can_express(edge_case, kernel))
      continue;
    const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, kernel, false);
    INFO(outcome.detail);
    if (!outcome.as_catalogued)
      std::cout << "reproduce: ./fa1lab repro " << edge_case.id << " --kernel " << kernel.id
                << std::endl;
    CHECK(outcome.as_catalogued);
    ++asked;
  }
  CHECK(asked > 0);
}

/// For each variant of the portable build one instance that serves the shape; which, changes with
/// `turn`.
std::vector<const Kernel*> one_of_each_variant(const reference::Shape& shape, std::size_t turn) {
  std::map<std::string_view, std::vector<const Kernel*>> serving;
  for (const Kernel& kernel : kernels::other_builds())
    if (kernel.build == "cuda-portable" && kernel.serves(shape))
      serving[kernel.variant].push_back(&kernel);
  std::vector<const Kernel*> chosen;
  for (const auto& [variant, instances] : serving)
    chosen.push_back(instances[turn % instances.size()]);
  return chosen;
}

/// 500 recipes, on every variant.
void check_same_bits(int part) {
  require_device();
  constexpr std::size_t kRecipes = 500;
  const Invariant& law = properties::find_invariant("cpu-gpu");
  const auto recipes = properties::any_recipe({.largest_d = 64, .Br = 4, .Bc = 5});
  rc::Random random(static_cast<std::uint64_t>(part));
  std::size_t compared = 0;
  for (std::size_t i = 0; i < kRecipes; ++i) {
    const reference::Recipe recipe = properties::draw_recipe(recipes, random);
    const auto chosen = one_of_each_variant(reference::shape_of(recipe), i);
    for (const Kernel* kernel : chosen) {
      const properties::Outcome outcome = properties::check_case(law, recipe, *kernel);
      if (outcome.answer == Answer::violated)
        std::cout << outcome.detail << "\nreproduce: "
                  << properties::replay_line(reference::to_string(recipe), *kernel, law.id)
                  << std::endl;
      CHECK(outcome.answer != Answer::violated);
      compared += outcome.answer == Answer::holds;
    }
  }
  CHECK(compared > kRecipes * 5);
}

void register_test(std::string name, std::function<void()> body) {
  properties::tests::register_test(std::move(name), "[properties][gpu]", std::move(body));
}

const bool registered = [] {
  for (const Invariant& invariant : properties::all_invariants())
    register_test("on a GPU, " + std::string(invariant.id) + ": " + std::string(invariant.says),
                  [&invariant] { check_law(invariant); });
  for (const numerics::EdgeCase& edge_case : numerics::all_edge_cases())
    register_test("on a GPU, edge case " + std::string(edge_case.id) + " is as catalogued",
                  [&edge_case] { check_edge_case(edge_case); });
  for (const int part : {1, 2, 3, 4})
    register_test("every variant of the portable build has the CPU's bits on 500 recipes, part " +
                      std::to_string(part) + " of 4",
                  [part] { check_same_bits(part); });
  return true;
}();

} // namespace

TEST_CASE("on a GPU, a build with other bits is told from the portable one", "[properties][gpu]") {
  REQUIRE(registered);
  require_device();
  const Invariant& law = properties::find_invariant("cpu-gpu");
  for (const char* id : {"fa1.Br4xBc2xD8.cuda", "fa1.Br4xBc2xD8.cuda-nofmad"}) {
    Kernel impostor = kernels::find_kernel(id, {1, 1, 1, 8, 8});
    impostor.arithmetic.portable = true;

    const properties::LawResult result = properties::check(law, impostor, 100, kSeed);

    CAPTURE(id);
    CHECK(result.violated);
  }
}
