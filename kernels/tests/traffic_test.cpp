// Claims about global memory: every load and store through a counting pointer is counted, formulas mean
// what they say, and each kernel moves what the formula of its row says.
#include "kernels/simt/counted_pointer.hpp"
#include "kernels/traffic.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>

using namespace fa1;
using kernels::KernelError;
using kernels::Shape;
using kernels::Traffic;
using simt::AccessCounts;
using simt::CountedPointer;

namespace {

Traffic::OfArray of(const Traffic& traffic, std::string_view array) {
  const auto found = std::ranges::find(Traffic::kArrays, array);
  return traffic.arrays[static_cast<std::size_t>(found - Traffic::kArrays.begin())];
}

} // namespace

TEST_CASE("a load and a store through a counted pointer are counted, in the array they touch",
          "[kernels][quick]") {
  float a[4] = {1, 2, 3, 4}, b[2] = {};
  AccessCounts of_a, of_b;
  const simt::CountedArray arrays[] = {{a, &of_a}, {b, &of_b}};
  const simt::CountingScope scope(arrays);

  CountedPointer<const float> in(a);
  CountedPointer<float> out(b);
  in += 1;
  out[0] = in[0] + *(in + 2); // two loads, one store
  out[1] = out[0];            // a load and a store
  out[1] += 1.0f;             // a load and a store

  CHECK(b[0] == 6.0f);
  CHECK(b[1] == 7.0f);
  CHECK(of_a.loads == 2);
  CHECK(of_a.stores == 0);
  CHECK(of_b.loads == 2);
  CHECK(of_b.stores == 3);
  CHECK(scope.strays().loads == 0);
}

TEST_CASE("an access of several elements through a counted pointer counts each of them",
          "[kernels][quick]") {
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {};
  AccessCounts of_a, of_b;
  const simt::CountedArray arrays[] = {{a, &of_a}, {b, &of_b}};
  const simt::CountingScope scope(arrays);
  const CountedPointer<const float> in(a);
  const CountedPointer<float> out(b);

  const float* loaded = (in + 4).loaded(4);
  std::copy_n(loaded, 4, (out + 4).stored(4));
  out.loaded(0);

  CHECK(b[4] == 5.0f);
  CHECK(b[7] == 8.0f);
  CHECK(of_a.loads == 4);
  CHECK(of_a.stores == 0);
  CHECK(of_b.loads == 0);
  CHECK(of_b.stores == 4);
}

TEST_CASE("what goes through a pointer to no announced array is a stray", "[kernels][quick]") {
  float a[1] = {}, b[1] = {};
  AccessCounts of_a;
  const simt::CountedArray arrays[] = {{a, &of_a}};
  const simt::CountingScope scope(arrays);

  CountedPointer<float> other(b);
  other[0] = 1.0f;

  CHECK(of_a.stores == 0);
  CHECK(scope.strays().stores == 1);
}

TEST_CASE("a formula of traffic is read as sums of products of its symbols", "[kernels][quick]") {
  const Shape shape{2, 7, 10, 4, 4}; // Br = 3, Bc = 4: Tr = 3, Tc = 3

  const Traffic traffic = kernels::evaluate_traffic(
      "a word before: read K 2 Tr n_kv D, S R' n_q (D + 2) + (R - R') n_q; write LSE Tc n_q", shape,
      3, 4, 8);

  CHECK(of(traffic, "K") == Traffic::OfArray{2 * (2 * 3 * 10 * 8), 0});
  CHECK(of(traffic, "scratch") == Traffic::OfArray{2 * (3 * 7 * 10), 0});
  CHECK(of(traffic, "m") == Traffic::OfArray{0, 2 * (3 * 7)});
  CHECK(of(traffic, "Q") == Traffic::OfArray{0, 0});
}

TEST_CASE("a formula that does not parse is an error that says where", "[kernels][quick]") {
  struct Example {
    const char* formula;
    const char* says;
  };
  for (const Example& example :
       {Example{"move K n_kv", "at ' n_kv' is no"}, Example{"read X 1", "'X' is no array"},
        Example{"read K N", "'N' is no symbol"}, Example{"read K (n_kv D", "want a `)`"},
        Example{"read K n_kv D.", "want a `,`, a `;` or the end"}, Example{"read K", "want a word"},
        Example{"", "want a word"}}) {
    CAPTURE(example.formula);
    if (std::string_view(example.formula).starts_with("move"))
      CHECK_THROWS_WITH(kernels::evaluate_traffic(example.formula, {1, 1, 1, 1, 1}, 1, 1, 1),
                        Catch::Matchers::ContainsSubstring("want `read` or `write`"));
    else
      CHECK_THROWS_WITH(kernels::evaluate_traffic(example.formula, {1, 1, 1, 1, 1}, 1, 1, 1),
                        Catch::Matchers::ContainsSubstring(example.says));
  }
}

TEST_CASE("every kernel on the CPU moves what the formula of its row says, for ragged shapes too",
          "[kernels][quick]") {
  std::set<std::string> variants;
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    if (kernel.backend != kernels::Backend::cpu || kernel.arithmetic.contracted || kernel.D > 8)
      continue;
    REQUIRE(kernels::traffic_is_counted(kernel));
    variants.insert(kernel.variant);
    for (const char* sizes :
         {"n_q=1 n_kv=1", "n_q=7 n_kv=11 bh=2", "n_q=16 n_kv=16", "n_q=5 n_kv=0", "n_q=0 n_kv=3"}) {
      CAPTURE(kernel.id, sizes);
      const auto recipe =
          reference::parse_recipe(std::string(sizes) + " d=" + std::to_string(kernel.D));
      const reference::Problem problem = reference::make_problem(recipe);

      const Traffic counted = kernels::counted_traffic(kernel, problem).traffic;

      for (std::size_t array = 0; array < Traffic::kArrays.size(); ++array) {
        CAPTURE(Traffic::kArrays[array]);
        const Traffic predicted = kernels::predicted_traffic(kernel, problem.shape);
        CHECK(counted.arrays[array].read == predicted.arrays[array].read);
        CHECK(counted.arrays[array].written == predicted.arrays[array].written);
      }
      CHECK((counted.total() > 0) == (problem.shape.n_q > 0 && problem.shape.n_kv > 0));
    }
  }
  CHECK(variants.contains("fa1"));
}

TEST_CASE("the traffic of fa1 is that of the paper's loops, counted by hand", "[kernels][quick]") {
  // N = 4, d = 4, tiles of 2: K and V once; Q and O once for each of 2 key tiles; l and m likewise.
  const kernels::Kernel& kernel = kernels::find_kernel("fa1.Br4xBc2xD4.cpu", {1, 4, 4, 4, 4});
  const auto recipe = reference::parse_recipe("n_q=4 n_kv=4 d=4");

  const auto [counted, barriers, shared_bytes] =
      kernels::counted_traffic(kernel, reference::make_problem(recipe));

  CHECK(of(counted, "K") == Traffic::OfArray{16, 0});
  CHECK(of(counted, "V") == Traffic::OfArray{16, 0});
  CHECK(of(counted, "Q") == Traffic::OfArray{32, 0});
  CHECK(of(counted, "O") == Traffic::OfArray{32, 32});
  CHECK(of(counted, "l") == Traffic::OfArray{8, 8});
  CHECK(of(counted, "m") == Traffic::OfArray{8, 8});
  CHECK(counted.total() == 160);
  CHECK(barriers == 2 * 2 * 1);               // two for each pair of a key tile and a query tile
  CHECK(shared_bytes == 4 * 4 * (2 * 2 + 4)); // 4 D (2 Bc + Br)
}

TEST_CASE("a kernel without a counting instance says so", "[kernels][quick]") {
  const kernels::Kernel& mutant =
      kernels::find_kernel("mutant.no_division.Br4xBc2xD8", {1, 1, 1, 8, 8});
  const reference::Problem problem =
      reference::make_problem(reference::parse_recipe("n_q=1 n_kv=1"));

  CHECK_FALSE(kernels::traffic_is_counted(mutant));
  CHECK_THROWS_AS(kernels::counted_traffic(mutant, problem), KernelError);
}
