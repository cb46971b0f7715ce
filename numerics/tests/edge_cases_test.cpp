// Claims about the catalogue of edge cases: its printed answers are the exact ones, every kernel
// gives what its row says, and a kernel that is wrong, or a limit that moves, is noticed.
#include "numerics/edge_cases.hpp"

#include "kernels/kernel.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>

using namespace fa1;
using numerics::EdgeCase;
using numerics::EdgeExample;
using numerics::Published;
using reference::Enclosed;

namespace {

/// Examples with more keys than this are run on every kernel by the deep tests only.
constexpr std::int64_t kKeysOfQuickTests = 4096;

bool is_long(const EdgeExample& example) {
  return reference::shape_of(reference::parse_recipe(example.recipe)).n_kv > kKeysOfQuickTests;
}
bool is_long(const EdgeCase& edge_case) {
  return std::ranges::any_of(edge_case.examples,
                             [](const EdgeExample& example) { return is_long(example); });
}

const Enclosed& element(const reference::Truth& truth, const Published& published) {
  if (published.output == "O")
    return truth.O(0, published.row, published.column);
  const auto& values = published.output == "l"   ? truth.l
                       : published.output == "m" ? truth.m
                                                 : truth.LSE;
  return values[static_cast<std::size_t>(published.row)];
}

/// Half a unit in the last printed decimal.
double half_a_digit(std::string_view digits) {
  const auto point = digits.find('.');
  const auto decimals = point == std::string_view::npos ? 0 : digits.size() - point - 1;
  return 0.5 * std::pow(10.0, -static_cast<double>(decimals));
}

/// True where the enclosure leaves no doubt that the printed digits are the truth.
bool prints_the_truth(const Published& published, const Enclosed& truth) {
  const double printed = std::strtod(std::string(published.digits).c_str(), nullptr);
  if (std::isnan(printed) || std::isinf(printed))
    return std::isnan(printed) ? std::isnan(truth.hi) : truth.hi == printed;
  const double distance = std::fabs((truth.hi - printed) + truth.lo);
  if (published.exact)
    return distance <= truth.radius;
  return distance + truth.radius <= half_a_digit(published.digits);
}

/// The catalogue's own claim about one recipe.
void check_published(const EdgeExample& example, std::string_view recipe) {
  const reference::Truth truth =
      reference::certify(reference::make_problem(reference::parse_recipe(recipe)));
  for (const Published& published : example.published) {
    const Enclosed& exact = element(truth, published);
    INFO(fmt::format("{}: {}[{},{}] is printed as {}, certified {:.17g} + {:.3g} +- {:.3g}", recipe,
                     published.output, published.row, published.column, published.digits, exact.hi,
                     exact.lo, exact.radius));
    CHECK(prints_the_truth(published, exact));
  }
}

void check_on_every_kernel(const EdgeCase& edge_case) {
  int plain = 0;
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    if (!numerics::can_express(edge_case, kernel))
      continue;
    const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, kernel, false);
    INFO(outcome.detail);
    if (!outcome.as_catalogued) // straight to the output: Catch2 would break the line
      std::cout << "reproduce: ./fa1lab repro " << edge_case.id << " --kernel " << kernel.id
                << std::endl;
    CHECK(outcome.as_catalogued);
    plain += !kernel.arithmetic.contracted;
  }
  CHECK(plain > 0);
}

const kernels::Kernel& mutant(std::string_view name, int Bc) {
  for (const kernels::Kernel& kernel : kernels::all_mutants())
    if (kernel.variant == fmt::format("mutant.{}", name) && kernel.Bc == Bc)
      return kernel;
  throw std::invalid_argument(fmt::format("there is no mutant {} with Bc = {}", name, Bc));
}

/// Runs `kernel`, then replaces O.
kernels::Kernel giving(const kernels::Kernel& kernel, float O) {
  kernels::Kernel other = kernel;
  other.run = [run = kernel.run, O](const kernels::Arguments& arguments,
                                    const kernels::Launch& launch) {
    run(arguments, launch);
    std::fill_n(arguments.O, arguments.shape.n_q * arguments.shape.dv, O);
  };
  return other;
}

} // namespace

TEST_CASE("the exact answer rounds to every digit that the catalogue prints",
          "[numerics][edge_cases][quick]") {
  int printed = 0;
  for (const EdgeCase& edge_case : numerics::all_edge_cases())
    for (const EdgeExample& example : edge_case.examples) {
      printed += static_cast<int>(example.published.size());

      check_published(example, example.same_O_as.empty() ? example.recipe : example.same_O_as);
    }

  CHECK(printed > 0);
}

TEST_CASE("a short recipe that stands in for a long one has its exact O",
          "[numerics][edge_cases][deep]") {
  std::set<std::string_view> checked;
  for (const EdgeCase& edge_case : numerics::all_edge_cases())
    for (const EdgeExample& example : edge_case.examples)
      if (!example.same_O_as.empty() && checked.insert(example.recipe).second)

        check_published(example, example.recipe);

  CHECK_FALSE(checked.empty());
}

TEST_CASE("digits that are not the truth are not believed", "[numerics][edge_cases][quick]") {
  const Enclosed truth{7.00000001488, 0.0, 1e-18};

  CHECK(prints_the_truth({"O", "7.000000015"}, truth));
  CHECK(prints_the_truth({"O", "7.00"}, truth));
  CHECK_FALSE(prints_the_truth({"O", "7.000000014"}, truth));
  CHECK_FALSE(prints_the_truth({"O", "7", true}, truth));
  CHECK_FALSE(prints_the_truth({"O", "nan"}, truth));
  CHECK_FALSE(prints_the_truth({"O", "7.000000015"}, {NAN, 0.0, 0.0}));
}

TEST_CASE("every kernel gives what the catalogue says", "[numerics][edge_cases][quick]") {
  for (const EdgeCase& edge_case : numerics::all_edge_cases())
    if (!is_long(edge_case))
      DYNAMIC_SECTION(edge_case.id) { check_on_every_kernel(edge_case); }
}

TEST_CASE("every kernel gives what the catalogue says about many keys",
          "[numerics][edge_cases][deep]") {
  for (const EdgeCase& edge_case : numerics::all_edge_cases())
    if (is_long(edge_case))
      DYNAMIC_SECTION(edge_case.id) { check_on_every_kernel(edge_case); }
}

TEST_CASE("ids are unique, and a case is shown on a kernel with its own tile",
          "[numerics][edge_cases][quick]") {
  std::set<std::string_view> ids;
  for (const EdgeCase& edge_case : numerics::all_edge_cases()) {
    const kernels::Kernel& kernel = numerics::kernel_for(edge_case);

    INFO(edge_case.id);
    CHECK(ids.insert(edge_case.id).second);
    CHECK(kernel.Bc == edge_case.tile().Bc);
    CHECK_FALSE(kernel.arithmetic.contracted);
    CHECK(&numerics::find_edge_case(edge_case.id) == &edge_case);
  }
}

TEST_CASE("an unknown id is refused with the nearest ones", "[numerics][edge_cases][quick]") {
  CHECK_THROWS_WITH(numerics::find_edge_case("inf-frist-tile"),
                    Catch::Matchers::ContainsSubstring("'inf-frist-tile' is unknown") &&
                        Catch::Matchers::ContainsSubstring("nearest are inf-first-tile"));
}

TEST_CASE("rising scores give each fault of the recurrence its own wrong answer",
          "[numerics][edge_cases][mutants][quick]") {
  const EdgeCase& edge_case = numerics::find_edge_case("ascending-every-tile");
  const auto problem = reference::make_problem(reference::parse_recipe(edge_case.recipe()));
  struct {
    std::string_view mutant, gives;
  } const rows[] = {{"no_alpha_on_O", "9"},
                    {"no_alpha_on_l", "4.667"},
                    {"stale_max", "7.6"},
                    {"no_division", "9.333"}};
  for (const auto& row : rows)
    DYNAMIC_SECTION(row.mutant) {
      const kernels::Kernel& kernel = mutant(row.mutant, 1);

      const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, kernel);

      CHECK_FALSE(outcome.as_catalogued);
      CHECK(outcome.first_bad_tile == 1);
      CHECK(fmt::format("{:.4g}", kernels::run(kernel, problem).O(0, 0, 0)) == row.gives);
    }
}

TEST_CASE("falling scores hide a missing alpha", "[numerics][edge_cases][mutants][quick]") {
  for (const std::string_view name : {"no_alpha_on_O", "no_alpha_on_l", "stale_max"})
    CHECK(numerics::run_edge_case(numerics::find_edge_case("descending"), mutant(name, 1))
              .as_catalogued);
}

TEST_CASE("what the catalogue records of fa1 is asked of its own mutants, not of another variant's",
          "[numerics][edge_cases][mutants][quick]") {
  int recorded = 0;
  for (const EdgeCase& edge_case : numerics::all_edge_cases()) {
    if (edge_case.kind == numerics::EdgeKind::contract || !edge_case.variants.empty())
      continue;
    CAPTURE(edge_case.id);

    const bool of_fa1 = numerics::can_express(edge_case, mutant("no_division", 2));
    const bool of_deferred = numerics::can_express(edge_case, mutant("never_divided", 2));

    recorded += of_fa1;
    CHECK_FALSE(of_deferred);
  }
  CHECK(recorded > 0);
}

TEST_CASE("wrong kernels are caught by the cases made for them",
          "[numerics][edge_cases][mutants][quick]") {
  struct {
    std::string_view mutant, edge_case;
    int Bc;
  } const rows[] = {
      {"no_alpha_on_O", "ascending-every-tile", 1},
      {"no_alpha_on_l", "ascending-every-tile", 1},
      {"no_alpha_on_l", "small-rises", 1},
      {"stale_max", "ascending-every-tile", 1},
      {"no_division", "all-ties", 4},
      {"old_l_divides", "all-ties", 4},
      {"m_starts_at_zero", "sentinel-low", 1},
      {"l_starts_at_one", "empty-keys", 4},
      {"stale_output", "stale-output-nan", 4},
      {"pads_count", "ragged-tail", 4},
      {"pads_count", "ragged-negative", 2},
      {"tail_dropped", "ragged-tail", 4},
      {"max_misses_last", "alpha-zero", 2},
      {"one_row_too_far", "poisoned-tail", 4},
      {"neighbour_value", "needs-24-bits", 2},
      {"m_starts_low", "sentinel-low", 1},
      {"max_is_first_score", "first-score-low", 1},
      {"short_input_padded", "v-subnormal", 4},
      {"pads_count_in_l", "ragged-ones", 4},
      {"stale_key_tail", "ragged-ones", 4},
      {"dot_of_first_four", "last-component-only", 1},
      {"transposed_values", "values-row-major", 1},
      {"nan_clamped", "nan-score", 1},
      {"zero_weights_skipped", "nan-v-zero-weight", 1},
      {"tile_not_in_l", "descending", 1},
      {"lazy_rescale", "small-rises", 1},
      {"m_in_base_two", "lse-holds-the-max", 1},
      {"max_not_handed_out", "lse-holds-the-max", 1},
      {"fused_score", "one-key-huge", 1},
      {"tf32_inputs", "needs-24-bits", 1},
      {"fp16_sum", "beyond-fp16", 4},
      {"scale_from_d", "scale-default-and-zero", 1},
      {"zero_scale_replaced", "scale-default-and-zero", 1},
      {"zero_for_minus_infinity", "inf-first-tile-low", 2},
      {"exponent_clamped", "vanishing-weights", 1},
      {"flushes_to_zero", "v-subnormal", 1},
  };
  for (const auto& row : rows) {
#if defined(__SANITIZE_ADDRESS__)
    if (row.mutant == "one_row_too_far")
      continue; // AddressSanitizer catches it first, and ends the program
#endif
    DYNAMIC_SECTION(row.mutant << " by " << row.edge_case) {
      const EdgeCase& edge_case = numerics::find_edge_case(row.edge_case);

      const numerics::EdgeOutcome outcome =
          numerics::run_edge_case(edge_case, mutant(row.mutant, row.Bc));

      CHECK_FALSE(outcome.as_catalogued);
      CHECK_FALSE(outcome.detail.empty());
    }
  }
}

TEST_CASE("a limit whose outcome changes is noticed, even where it changes to the truth",
          "[numerics][edge_cases][quick]") {
  const EdgeCase& edge_case = numerics::find_edge_case("inf-first-tile");
  const kernels::Kernel mended = giving(numerics::kernel_for(edge_case), 5.5f);

  const numerics::EdgeOutcome outcome = numerics::run_edge_case(edge_case, mended);

  CHECK_FALSE(outcome.as_catalogued);
  CHECK_THAT(outcome.detail, Catch::Matchers::ContainsSubstring("the recorded outcome is nan"));
}

TEST_CASE("NaN where the truth is a number is noticed in every contract that has an output",
          "[numerics][edge_cases][quick]") {
  int asked = 0;
  for (const EdgeCase& edge_case : numerics::all_edge_cases()) {
    const bool has_numbers = !edge_case.examples.front().published.empty() &&
                             edge_case.id != "nan-score" && edge_case.id != "nan-k-row";
    if (edge_case.kind != numerics::EdgeKind::contract || is_long(edge_case) || !has_numbers)
      continue;
    const kernels::Kernel broken = giving(numerics::kernel_for(edge_case), NAN);

    INFO(edge_case.id);
    CHECK_FALSE(numerics::run_edge_case(edge_case, broken).as_catalogued);
    ++asked;
  }

  CHECK(asked > 0);
}

TEST_CASE("a zero of either sign is right where the catalogue says so",
          "[numerics][edge_cases][quick]") {
  const EdgeCase& edge_case = numerics::find_edge_case("minus-zero-v");
  const kernels::Kernel& kernel = numerics::kernel_for(edge_case);

  CHECK(numerics::run_edge_case(edge_case, giving(kernel, -0.0f)).as_catalogued);
  CHECK_FALSE(numerics::run_edge_case(edge_case, giving(kernel, 0x1p-149f)).as_catalogued);
}

TEST_CASE("a kernel that flushes subnormals is noticed by the cases made for it",
          "[numerics][edge_cases][quick]") {
  for (const std::string_view id : {"subnormal-weight-huge-v", "v-subnormal"}) {
    const EdgeCase& edge_case = numerics::find_edge_case(id);

    const numerics::EdgeOutcome outcome =
        numerics::run_edge_case(edge_case, giving(numerics::kernel_for(edge_case), 0.0f));

    INFO(id);
    CHECK_FALSE(outcome.as_catalogued);
  }
}

TEST_CASE("a kernel without the tile of a case is refused", "[numerics][edge_cases][quick]") {
  const EdgeCase& edge_case = numerics::find_edge_case("carry-overflow");
  const kernels::Kernel& wide = numerics::kernel_for(numerics::find_edge_case("ragged-tail"));

  CHECK_FALSE(numerics::can_express(edge_case, wide));
  CHECK_THROWS_AS(numerics::run_edge_case(edge_case, wide), kernels::KernelError);
}
