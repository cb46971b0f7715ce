// The kinds of wrong kernel that public bug reports are about, one change each, and the laws that
// must catch them without a look at the source. PUBLIC_FAULTS.md beside this file says for every
// report where it is answered, or why it does not apply; the ids are its ids.
#include "properties/compare.hpp"
#include "properties/property.hpp"

#include "kernels/kernel.hpp"
#include "numerics/edge_cases.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace fa1;
using kernels::Kernel;
using reference::Problem;
using reference::State;

namespace {

struct Fault {
  std::string_view report;
  std::string_view what; ///< the kernel's fault
  std::string_view mutant;
  std::vector<std::string_view> laws; ///< each of them must catch it
};

const std::vector<Fault> kFaults{
    {"H01", "a finite number for -Inf", "m_starts_low", {"m-exact", "truth"}},
    {"H02", "a maximum of -Inf mended to 0 and kept", "zero_for_minus_infinity", {"m-exact"}},
    {"H05", "a shift by the first score", "max_is_first_score", {"m-exact", "truth"}},
    {"H07", "padding counts", "pads_count", {"uniform", "tile-width"}},
    {"H07", "the ragged tile is skipped", "tail_dropped", {"uniform", "single-key"}},
    {"H08", "stale memory in the padding of K", "stale_key_tail", {"uniform", "single-key"}},
    {"H08", "a row past the end takes part", "one_row_too_far", {"written"}},
    {"H09", "N below one tile is not cut", "short_input_padded", {"single-key", "uniform"}},
    {"H10", "padding enters l alone", "pads_count_in_l", {"value-constant", "lse-consistent"}},
    {"H11", "nobody writes O where no tile is", "stale_output", {"written"}},
    {"H12", "a fixed head dimension", "dot_of_first_four", {"m-exact", "head-permutation"}},
    {"H13", "heads and rows change places", "heads_interleaved", {"batch-neighbours", "truth"}},
    {"H14", "the strides of V are ignored", "transposed_values", {"value-columns", "truth"}},
    {"H15", "an index too narrow", "narrow_index", {"dominant-key", "truth"}},
    {"H16", "heads read each other's keys", "head_stride_short", {"batch-neighbours", "truth"}},
    {"H16", "heads share V", "heads_share_values", {"batch-neighbours", "truth"}},
    {"H20", "NaN in V is lost", "nan_values_dropped", {"nan-locality"}},
    {"H20", "NaN in Q is lost", "nan_queries_dropped", {"nan-locality"}},
    {"H20", "NaN in K is lost", "nan_clamped", {"nan-locality"}},
    {"H21", "l without this tile", "tile_not_in_l", {"l-at-least-one", "truth"}},
    {"H21", "O is not rescaled", "no_alpha_on_O", {"o-rescale", "truth"}},
    {"H21", "l is not rescaled", "no_alpha_on_l", {"l-rescale", "truth"}},
    {"H21", "p at the old maximum", "stale_max", {"l-at-least-one"}},
    {"H21", "no division", "no_division", {"hull", "truth"}},
    {"H22", "small rises are not rescaled", "lazy_rescale", {"l-rescale", "o-rescale", "truth"}},
    {"H23", "log-sum-exp in base 2", "m_in_base_two", {"lse-consistent", "merge"}},
    {"H24", "log-sum-exp without its maximum", "max_not_handed_out", {"lse-consistent", "m-exact"}},
    {"H25", "max and exp see different scores", "fused_score", {"single-key"}},
    {"H26", "products in TF32", "tf32_inputs", {"m-exact", "expected-error"}},
    {"H27", "sums in fp16", "fp16_sum", {"single-key", "truth"}},
    {"H29", "a scale of 0 is taken for none", "zero_scale_replaced", {"m-exact"}},
    {"H29", "the default scale whatever is asked", "scale_from_d", {"m-exact", "truth"}},
    {"H31", "tiles used too early", "no_first_barrier", {"schedule"}},
    {"H31", "tiles overwritten too early", "no_second_barrier", {"schedule"}},
    {"H31", "a barrier that not all reach", "barrier_in_branch", {"schedule"}},
    {"H32", "the order of sums follows the batch", "order_follows_batch", {"batch-neighbours"}},
    {"H32", "the order of sums follows the load", "order_follows_rows", {"row-block"}},
    {"H33", "sums left by an earlier launch", "workspace_kept", {"truth"}},
    {"H42", "exp never reaches 0", "exponent_clamped", {"dominant-key"}},
    {"H43", "subnormals are flushed", "flushes_to_zero", {"truth"}},
};

/// Every tile shape of one mutant; a fault need not show at each of them.
std::vector<const Kernel*> instances_of(std::string_view mutant) {
  std::vector<const Kernel*> instances;
  for (const Kernel& kernel : kernels::all_mutants())
    if (kernel.variant == fmt::format("mutant.{}", mutant))
      instances.push_back(&kernel);
  return instances;
}

bool is_caught(std::string_view mutant, std::string_view law) {
  constexpr int kCases = 60;
  const auto instances = instances_of(mutant);
  return std::ranges::any_of(instances, [&](const Kernel* kernel) {
    return properties::check(properties::find_invariant(law), *kernel, kCases, 1, false).violated;
  });
}

const Kernel& fa1_for(const Problem& problem) { return kernels::find_kernel("fa1", problem.shape); }

Problem problem_of(std::string_view recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

bool same_bits(const State& a, const State& b) {
  const auto same = [](std::span<const float> x, std::span<const float> y) {
    return std::ranges::equal(x, y, numerics::same_bits);
  };
  return same(a.O.elements(), b.O.elements()) && same(a.l, b.l) && same(a.m, b.m);
}

/// The kernel reads V[j mod 2^bits] where V[j] is meant: its index of a key has so many bits.
Kernel with_narrow_index(const Kernel& kernel, int bits) {
  Kernel narrow = kernel;
  narrow.run = [run = kernel.run, bits](const kernels::Arguments& arguments,
                                        const kernels::Launch& launch) {
    const std::int64_t dv = arguments.shape.dv;
    std::vector<float> V;
    for (std::int64_t j = 0; j < arguments.shape.n_kv; ++j) {
      const float* const row = arguments.V + j % (std::int64_t{1} << bits) * dv;
      V.insert(V.end(), row, row + dv);
    }
    kernels::Arguments other = arguments;
    other.V = V.data();
    run(other, launch);
  };
  return narrow;
}

} // namespace

TEST_CASE("every kind of wrong kernel that public bug reports show is caught by laws",
          "[properties][mutants][quick]") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer ends the program at the first mutant that leaves its buffers");
#endif
  for (const Fault& fault : kFaults)
    for (const std::string_view law : fault.laws) {
      CAPTURE(fault.report, fault.what, fault.mutant, law);
      CHECK(is_caught(fault.mutant, law));
    }
}

TEST_CASE("two heads of three positions: the layout is heads first", "[properties][quick]") {
  Problem problem = problem_of("bh=2 n_q=3 n_kv=3 d=1 scale=1 Q=0* K=0*");
  std::ranges::copy(std::array{0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, problem.V.elements().begin());

  const reference::Truth truth = reference::certify(problem);
  const State state = kernels::run(fa1_for(problem), problem);

  for (std::int64_t row = 0; row < 3; ++row) { // positions first would be 1.5, 2.5, 3.5
    CHECK(state.O(0, row, 0) == 1.0f);
    CHECK(state.O(1, row, 0) == 4.0f);
    CHECK(truth.O(0, row, 0).hi == 1.0);
    CHECK(truth.O(1, row, 0).hi == 4.0);
  }
}

TEST_CASE("an index of a key that has 15 or 16 bits is noticed", "[properties][quick]") {
  const int bits = GENERATE(15, 16);
  const auto& edge_case = numerics::find_edge_case("long-index");
  const Kernel narrow = with_narrow_index(numerics::kernel_for(edge_case), bits);

  const auto outcome = numerics::run_edge_case(edge_case, narrow, false);

  CHECK_FALSE(outcome.as_catalogued);
}

TEST_CASE("one hundred runs in any order of threads give the same bits", "[properties][quick]") {
  const Problem problem = problem_of("n_q=64 n_kv=64 d=8 dv=8 sigma=4");
  const Kernel& kernel = kernels::find_kernel("fa1.Br16xBc16", problem.shape);
  const State first = kernels::run(kernel, problem);

  int differing = 0;
  for (std::uint32_t run = 0; run < 100; ++run)
    differing +=
        !same_bits(first, kernels::run(kernel, problem, {simt::Schedule::shuffled(run), 0, 1}));

  CHECK(differing == 0);
}

TEST_CASE("rows do not know the unrelated rows that stand in the same launch",
          "[properties][quick]") {
  const Problem both = problem_of("n_q=41 n_kv=37 d=5 dv=3 sigma=4");
  Problem alone = both;
  alone.shape.n_q = 7;
  alone.Q = reference::Tensor<float>(1, 7, 5);
  std::ranges::copy(both.Q.elements().first(7 * 5), alone.Q.elements().begin());

  for (const Kernel& kernel : kernels::all_kernels()) {
    if (!kernel.serves(both.shape))
      continue;
    const State one = kernels::run(kernel, alone), two = kernels::run(kernel, both);

    CAPTURE(kernel.id);
    CHECK(std::ranges::equal(one.O.elements(), two.O.elements().first(7 * 3), numerics::same_bits));
  }
}

TEST_CASE("a run full of NaN leaves nothing behind for the next one", "[properties][quick]") {
  const Problem clean = problem_of("n_q=3 n_kv=9 d=4 sigma=2");
  const Problem spoiled = problem_of("n_q=3 n_kv=9 d=4 Q=nan* K=nan* V=nan*");
  const auto is_clean_after_spoiled = [&](const Kernel& kernel) {
    const State before = kernels::run(kernel, clean);
    return same_bits(before, kernels::run_into(kernel, clean, kernels::run(kernel, spoiled)));
  };

  // The plain kernels alone take d = 4 without a padded copy.
  CHECK(is_clean_after_spoiled(fa1_for(clean)));
  CHECK_FALSE(is_clean_after_spoiled(
      kernels::find_kernel("mutant.workspace_kept.Br1xBc1xD8.cpu", clean.shape)));
}

TEST_CASE("the comparisons of laws pass no pair of different kinds, and not the empty comparison",
          "[properties][quick]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto what = [] { return std::string("it"); };
  const auto answer = [](auto&& compare) {
    properties::Findings findings;
    compare(findings);
    return std::move(findings).outcome().answer;
  };
  using properties::Answer;
  using properties::Findings;

  const std::array kinds{1.0f, -1.0f, 0.0f, kMax, kInfinity, -kInfinity, kNaN};
  for (const float a : kinds)
    for (const float b : kinds) {
      CAPTURE(a, b);
      const bool same = numerics::same_bits(a, b);
      CHECK((answer([&](Findings& f) { f.same_bits(a, b, what); }) == Answer::holds) == same);
      CHECK((answer([&](Findings& f) { f.same_value(a, b, what); }) == Answer::holds) == same);
      const double difference = double{a} - double{b};
      CHECK((answer([&](Findings& f) { f.within(difference, 0.5, what); }) == Answer::holds) ==
            (std::isfinite(a) && same));
    }
  CHECK(answer([&](Findings& f) { f.within(0.0, kNaN, what); }) == Answer::violated);
  CHECK(answer([](Findings&) {}) == Answer::not_applicable); // never a pass
}

TEST_CASE("the page on public bug reports has each of them once, and what it names exists",
          "[properties][quick]") {
  std::ifstream page("properties/tests/PUBLIC_FAULTS.md");
  REQUIRE(page.good());
  std::map<std::string, int> rows;
  int named = 0;

  const std::regex row(R"(^\| (H[0-9]{2}) \|)"), name(R"((case|law|mutant):([A-Za-z0-9_-]+))");
  for (std::string line; std::getline(page, line);) {
    std::smatch id;
    if (!std::regex_search(line, id, row))
      continue;
    ++rows[id[1]];
    for (auto at = std::sregex_iterator(line.begin(), line.end(), name);
         at != std::sregex_iterator(); ++at, ++named) {
      const std::string kind = (*at)[1], what = (*at)[2];
      CAPTURE(line, kind, what);
      if (kind == "case")
        CHECK_NOTHROW(numerics::find_edge_case(what));
      else if (kind == "law")
        CHECK_NOTHROW(properties::find_invariant(what));
      else
        CHECK_FALSE(instances_of(what).empty());
    }
  }
  for (const Fault& fault : kFaults) // what is tested here is on the page
    CHECK(rows.contains(std::string(fault.report)));

  constexpr int kReports = 46;
  CHECK(rows.size() == kReports);
  for (int n = 1; n <= kReports; ++n)
    CHECK(rows[fmt::format("H{:02}", n)] == 1);
  CHECK(named > kReports);
}
