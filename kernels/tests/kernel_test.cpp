// Claims about fa1 itself: it is its mirror bit for bit, it starts, resumes, pads and guards as its
// header says.
//
// Sizes: one row, a tile more or less one, several tiles, wider than anything; every instance is
// asked.
#include "kernels/guarded.hpp"
#include "kernels/instances.hpp"
#include "kernels/kernel.hpp"
#include "kernels/originals.hpp"
#include "kernels/traffic.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kernels::Kernel;
using reference::Problem;
using reference::State;

namespace {

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// How many elements of O, l and m differ in their bits; NaN equals NaN.
int differences(const State& a, const State& b) {
  int count = 0;
  for (std::size_t e = 0; e < a.O.elements().size(); ++e)
    count += !same_bits(a.O.elements()[e], b.O.elements()[e]);
  for (std::size_t i = 0; i < a.l.size(); ++i)
    count += !same_bits(a.l[i], b.l[i]) + !same_bits(a.m[i], b.m[i]);
  return count;
}

bool is_nontrivial(const State& state) {
  std::set<float> values(state.O.elements().begin(), state.O.elements().end());
  return values.size() > 1 && !values.contains(0.0f);
}

const Kernel& kernel_of(const char* id) { return kernels::find_kernel(id, {}); }

} // namespace

TEST_CASE("fa1 has six tile shapes or more for every head dimension, 1x1 and Br != Bc among them",
          "[kernels][quick]") {
  std::map<int, std::set<std::pair<int, int>>> tiles;
  for (const Kernel& kernel : kernels::all_kernels())
    if (kernel.variant == "fa1" && kernel.build == "cpu")
      tiles[kernel.D].insert({kernel.Br, kernel.Bc});

  CHECK(tiles.size() == 9);
  for (const auto& [D, shapes] : tiles) {
    CAPTURE(D);
    CHECK(shapes.size() >= 6);
    CHECK(shapes.contains({1, 1}));
    CHECK(std::ranges::any_of(shapes, [](auto shape) { return shape.first != shape.second; }));
    for (const auto& [Br, Bc] : shapes)
      CHECK(4 * D * (2 * Bc + Br) <= 48 * 1024);
  }
}

TEST_CASE("without contraction every instance equals its mirror bit for bit", "[kernels][quick]") {
  for (const Kernel& kernel : kernels::all_kernels()) {
    if (kernel.backend != kernels::Backend::cpu || kernel.arithmetic.contracted ||
        kernel.arithmetic.order != kernels::Order::every_tile)
      continue;
    const int Br = kernel.Br, Bc = kernel.Bc, D = kernel.D;
    for (const auto& [n_q, n_kv] :
         {std::pair{1, 1}, {Br, Bc}, {Br + 1, Bc + 1}, {2 * Br, 3 * Bc}, {Br + 2, 2 * Bc - 1}}) {
      const std::string recipe = "bh=2 n_q=" + std::to_string(n_q) +
                                 " n_kv=" + std::to_string(n_kv) + " d=" + std::to_string(D) +
                                 " sigma=3 seed=11";
      CAPTURE(kernel.id, recipe);
      const Problem problem = problem_of(recipe);

      const State state = kernels::run(kernel, problem);

      REQUIRE(is_nontrivial(state));
      REQUIRE(differences(state, reference::tiled_mirror(problem, Bc)) == 0);
    }
  }
}

TEST_CASE("special values take the mirror's way through the kernel too", "[kernels][quick]") {
  for (const char* recipe :
       {"scores=-inf*4,0*4 V=0,1,2,3,4,5,6,7", "scores=0*4,-inf*4 V=0,1,2,3,4,5,6,7",
        "scores=1,nan,2,3,4 V=1,2,3,4,5", "scores=1,inf,2,3,4 V=1,2,3,4,5",
        "scores=0,-92,-104,-200 V=0,1e38,1,1", "scores=3e38,3e38,-3e38 V=1,2,3",
        "scores=0,1,2,3,4 V=1,nan,inf,-inf,-0"})
    for (const char* id : {"fa1.Br1xBc1xD1.cpu", "fa1.Br1xBc4xD1.cpu", "fa1.Br3xBc5xD1.cpu",
                           "fa1.Br32xBc32xD1.cpu"}) {
      CAPTURE(recipe, id);
      const Problem problem = problem_of(recipe);
      const Kernel& kernel = kernel_of(id);

      CHECK(differences(kernels::run(kernel, problem),
                        reference::tiled_mirror(problem, kernel.Bc)) == 0);
    }
}

TEST_CASE("the hand-checked example comes out tile by tile", "[kernels][quick]") {
  // N = 4, d = 4, dv = 2, scale 1/2, tile 2. The scores are exact in fp32, so m must be, and the
  // rest is within the rounding of the table's digits to fp32 and a few operations: compared as
  // floats one or two apart.
  const Problem problem =
      problem_of("n_q=4 n_kv=4 d=4 dv=2 scale=0.5 Q=1,0,2,0,0,1,1,0,1,1,0,1,0,2,1,1 "
                 "K=2,1,0,0,0,1,1,0,1,0,1,1,0,0,2,1 V=1,0,0,1,1,1,2,1");
  const Kernel& kernel = kernel_of("fa1.Br4xBc2xD4.cpu");
  const auto near = [](float got, double want) {
    return std::fabs(double{got} - want) <= 2.0 * std::fabs(want) * 0x1p-23; // two floats
  };

  const State first = kernels::run(kernel, reference::slice_keys(problem, 0, 2));
  const State second = kernels::resume(kernel, reference::slice_keys(problem, 2, 2), first);

  CHECK(first.m == std::vector<float>{1.0f, 1.0f, 1.5f, 1.5f});
  CHECK(second.m == std::vector<float>{2.0f, 1.0f, 1.5f, 1.5f});
  const double l1[] = {2.0, 1.6065306597126334, 1.3678794411714423, 1.6065306597126334};
  const double l2[] = {2.3422895420555181, 3.2130613194252668, 2.3422895420555181,
                       3.2130613194252668};
  const double O1[][2] = {{0.5, 0.5},
                          {0.37754066879814544, 0.62245933120185456},
                          {0.73105857863000488, 0.26894142136999512},
                          {0.37754066879814544, 0.62245933120185456}};
  const double O2[][2] = {{1.2698729373456661, 0.84294023665041721},
                          {1.0, 0.81122966560092728},
                          {1.0, 0.57306729930475115},
                          {1.0, 0.81122966560092728}};
  for (std::int64_t row = 0; row < 4; ++row) {
    CAPTURE(row);
    CHECK(near(first.l[static_cast<std::size_t>(row)], l1[row]));
    CHECK(near(second.l[static_cast<std::size_t>(row)], l2[row]));
    for (std::int64_t column = 0; column < 2; ++column) {
      CHECK(near(first.O(0, row, column), O1[row][column]));
      CHECK(near(second.O(0, row, column), O2[row][column]));
    }
  }
  CHECK(differences(kernels::run(kernel, problem), second) == 0);
}

TEST_CASE("one key of any size gives its value back, fused or not", "[kernels][quick]") {
  // round(s * scale) must be what both the max and the exponential see: a fused s * scale - m
  // leaves a remainder of 90.
  const Problem problem = problem_of("n_q=1 n_kv=1 d=3 dv=1 Q=40000* K=40000* V=7");

  for (const Kernel& kernel : kernels::all_kernels())
    if (kernel.serves(problem.shape)) {
      CAPTURE(kernel.id);
      const State state = kernels::run(kernel, problem);
      CHECK(state.O(0, 0, 0) == 7.0f);
      CHECK(state.l[0] == 1.0f);
    }
}

TEST_CASE("no keys give O = 0, l = 0, m = -Inf and no queries give nothing", "[kernels][quick]") {
  for (const char* id : {"fa1.Br1xBc1xD4.cpu", "fa1.Br16xBc16xD4.cpu", "fa1.Br3xBc5xD8.cpu"}) {
    CAPTURE(id);
    const State no_keys = kernels::run(kernel_of(id), problem_of("bh=2 n_q=3 n_kv=0 d=4"));
    CHECK(differences(no_keys, reference::start_state({2, 3, 0, 4, 4})) == 0);

    CHECK(kernels::run(kernel_of(id), problem_of("n_q=0 n_kv=5 d=4")).O.size() == 0);
    CHECK(kernels::run(kernel_of(id), problem_of("bh=0 n_q=3 n_kv=5 d=4")).O.size() == 0);
  }
}

TEST_CASE("resuming without keys leaves the carries alone", "[kernels][quick]") {
  const Kernel& kernel = kernel_of("fa1.Br4xBc2xD8.cpu");
  const Problem problem = problem_of("n_q=5 n_kv=7 d=6 dv=3 seed=2");
  const State carries = kernels::run(kernel, problem);

  CHECK(differences(kernels::resume(kernel, reference::slice_keys(problem, 0, 0), carries),
                    carries) == 0);
}

TEST_CASE("blocks may spread over OS threads without changing a bit", "[kernels][quick]") {
  const Kernel& kernel = kernel_of("fa1.Br8xBc4xD16.cpu");
  const Problem problem = problem_of("bh=7 n_q=19 n_kv=33 d=16 seed=5");
  const State alone = kernels::run(kernel, problem);

  REQUIRE(is_nontrivial(alone));
  CHECK(differences(kernels::run(kernel, problem, {.os_threads = 3}), alone) == 0);
}

TEST_CASE("a kernel is found by its id, by its variant and by its tile", "[kernels][quick]") {
  CHECK(kernels::find_kernel("fa1.Br4xBc2xD16.cpu", {1, 1, 1, 3, 3}).id == "fa1.Br4xBc2xD16.cpu");
  CHECK(kernels::find_kernel("fa1", {1, 1, 1, 64, 5}).id == "fa1.Br32xBc32xD64.cpu");
  CHECK(kernels::find_kernel("fa1", {1, 1, 1, 65, 5}).id == "fa1.Br32xBc32xD128.cpu");
  CHECK(kernels::find_kernel("fa1.Br1xBc4", {1, 1, 1, 3, 9}).id == "fa1.Br1xBc4xD16.cpu");
  CHECK(kernels::find_kernel("fa2", {1, 1, 1, 3, 5}).id == "fa2.Br16xBc16xD8.cpu");
  CHECK(kernels::find_kernel("mutant.no_alpha_on_O", {1, 1, 1, 3, 8}).mutant);
  CHECK_THROWS_MATCHES(kernels::find_kernel("fa3", {}), kernels::KernelError,
                       MessageMatches(ContainsSubstring("kernel 'fa3' is unknown")));
  CHECK_THROWS_MATCHES(kernels::find_kernel("fa1.Br4xBc2xD16.cpu", {1, 1, 1, 17, 3}),
                       kernels::KernelError,
                       MessageMatches(ContainsSubstring("d=17 dv=3 is larger than it serves")));
}

TEST_CASE("guarded buffers see a read past the end, an output never written and nothing in a right "
          "kernel",
          "[kernels][guarded][quick]") {
  const Problem problem = problem_of("n_q=5 n_kv=7 d=8 seed=3");

#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer ends the program at the first access outside, before the guard can report "
       "it");
#endif
  CHECK(kernels::run_guarded(kernel_of("fa1.Br4xBc2xD8.cpu"), problem).violation.empty());
  CHECK_THAT(
      kernels::run_guarded(kernel_of("mutant.one_row_read.Br4xBc2xD8.cpu"), problem).violation,
      ContainsSubstring("an access outside K: element 56 where 0 .. 55 exist (row 7 of 7)"));
  CHECK_THAT(
      kernels::run_guarded(kernel_of("mutant.stale_output.Br4xBc2xD8.cpu"), problem).violation,
      ContainsSubstring("O[0,0] was never written"));
  // The escape from the faulting kernel leaves the executor usable.
  CHECK(kernels::run_guarded(kernel_of("fa1.Br4xBc2xD8.cpu"), problem).violation.empty());
}

TEST_CASE("every mutant's edit still fits the text of its variant", "[kernels][mutants][quick]") {
  for (const std::string_view name : kernels::stale_mutants()) {
    INFO("kernels/mutants/" << name << ".edit: its first part must stand exactly once in kernels/"
                            << kernels::original_of("mutant." + std::string(name)) << ".cuh");
    CHECK(false);
  }
  CHECK(kernels::stale_mutants().empty());
  CHECK(!kernels::all_mutants().empty());
}

TEST_CASE("a mutant gives, resumes, rounds and promises what the right kernel at its tile does",
          "[kernels][mutants][quick]") {
  std::set<std::string_view> originals;
  for (const Kernel& mutant : kernels::all_mutants()) {
    CAPTURE(mutant.id);
    const std::string_view original = kernels::original_of(mutant.variant);
    originals.insert(original);

    const auto right = std::ranges::find_if(kernels::all_kernels(), [&](const Kernel& kernel) {
      return kernel.variant == original && kernel.Br == mutant.Br && kernel.Bc == mutant.Bc &&
             kernel.D == mutant.D;
    });

    REQUIRE(right != kernels::all_kernels().end());
    CHECK(mutant.arithmetic.order == right->arithmetic.order);
    CHECK(mutant.arithmetic.gives_LSE == right->arithmetic.gives_LSE);
    CHECK(mutant.resumes == right->resumes);
    CHECK(std::ranges::equal(mutant.given_up, right->given_up, {}, &kernels::GivenUp::law,
                             &kernels::GivenUp::law));
    if (kernels::traffic_is_counted(mutant))
      CHECK(mutant.traffic == right->traffic);
  }
  for (const Kernel& kernel : kernels::all_kernels()) {
    CAPTURE(kernel.variant);
    CHECK(originals.contains(kernel.variant));
  }
}

TEST_CASE("CUDA kernels are listed where a device is present", "[kernels][cuda][quick]") {
  std::size_t cuda = 0;
  for (const Kernel& kernel : kernels::all_kernels())
    cuda += kernel.backend == kernels::Backend::cuda;
  if (cuda == 0)
    SKIP("no CUDA: this build or this machine has none");

  const Problem problem = problem_of("bh=3 n_q=37 n_kv=101 d=60 dv=33 seed=4");
  const State state =
      kernels::run(kernels::find_kernel("fa1.Br32xBc32xD64.cuda", problem.shape), problem);

  CHECK(cuda >= 54);
  CHECK(is_nontrivial(state));
}
