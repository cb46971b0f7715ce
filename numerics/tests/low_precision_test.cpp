// Claims about the bound for products of fewer bits: right kernels of that arithmetic stay inside, wrong ones do not,
// and with nothing rounded it is the bound of unknown insides.
#include "numerics/low_precision.hpp"

#include "numerics/emulation.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <string>

using namespace fa1;
using numerics::Configuration;
using numerics::FormatId;
using numerics::Judgement;
using numerics::Stage;
using reference::Problem;

namespace {

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// FlashAttention's or, with `whole_rows`, the standard order in a declared arithmetic.
Configuration kernel_in(FormatId format, bool whole_rows) {
  Configuration kernel;
  for (const Stage stage : {Stage::inputs, Stage::p, Stage::output})
    kernel.formats[static_cast<std::size_t>(stage)] = format;
  kernel.one_tile = kernel.normalised = whole_rows;
  return kernel;
}

Judgement judged(const Problem& problem, const Configuration& kernel, std::string_view declared,
                 FormatId output) {
  const std::int64_t Bc = kernel.one_tile ? problem.shape.n_kv : 32;
  const reference::State state =
      numerics::emulate(numerics::prepare(problem, kernel, Bc), kernel, Bc);
  const reference::Truth truth = reference::certify(problem);
  numerics::Bounds bounds = numerics::low_precision_bound(
      problem, numerics::roundings_of(*numerics::find_declared(declared), problem));
  numerics::round_output(bounds, truth, numerics::format_of(output));
  return numerics::judge(problem, state, truth, bounds, false).judgement;
}

struct Arithmetic {
  const char* declared;
  FormatId format;
};

} // namespace

TEST_CASE("Right kernels of each declared arithmetic are inside its bound, inputs rounded or not",
          "[numerics][quick]") {
  const auto arithmetic =
      GENERATE(Arithmetic{"fp32", FormatId::fp32}, Arithmetic{"tf32", FormatId::tf32},
               Arithmetic{"bf16-inputs", FormatId::bf16}, Arithmetic{"fp16-inputs", FormatId::fp16},
               Arithmetic{"e5m2-inputs", FormatId::e5m2});
  const auto* const recipe = GENERATE(
      "n_q=4 n_kv=70 d=8 sigma=0.5 seed=1", "n_q=4 n_kv=200 d=16 v=positive sigma=0.2 seed=2",
      "n_q=4 n_kv=64 d=4 sigma=2 order=ascending seed=3", "n_q=4 n_kv=33 d=8 dist=ints v=ints");
  const bool whole_rows = GENERATE(false, true);
  CAPTURE(arithmetic.declared, recipe, whole_rows);

  const Judgement judgement = judged(problem_of(recipe), kernel_in(arithmetic.format, whole_rows),
                                     arithmetic.declared, arithmetic.format);

  CHECK(judgement != Judgement::proved_wrong);
  if (arithmetic.format != FormatId::e5m2) // its rounded inputs may leave a score without a digit
    CHECK(judgement != Judgement::undecided);
}

TEST_CASE("A kernel whose inputs are rounded more coarsely than declared is proved wrong",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=16 n_kv=64 d=64 sigma=2 seed=4");
  const Configuration coarse = kernel_in(FormatId::e5m2, false);
  const Configuration half = kernel_in(FormatId::bf16, false);

  CHECK(judged(problem, coarse, "bf16-inputs", FormatId::bf16) == Judgement::proved_wrong);
  CHECK(judged(problem, half, "fp16-inputs", FormatId::fp16) == Judgement::proved_wrong);
  CHECK(judged(problem, half, "fp32", FormatId::fp32) == Judgement::proved_wrong);
}

TEST_CASE(
    "Emulated FlashAttention-2 in bf16 and fp16 is right, and with sums kept in bf16 it is not",
    "[numerics][quick]") {
  const Problem problem = problem_of("n_q=4 n_kv=512 d=16 v=positive sigma=0.5 seed=6");
  const auto verdict = [&](const char* configuration, const char* declared, FormatId output) {
    return judged(problem, numerics::parse_configuration(configuration), declared, output);
  };

  CHECK(verdict("fa2-bf16", "bf16-inputs", FormatId::bf16) == Judgement::proved_right);
  CHECK(verdict("fa2-fp16", "fp16-inputs", FormatId::fp16) == Judgement::proved_right);
  CHECK(verdict("inputs=bf16,p=bf16", "bf16-inputs", FormatId::fp32) == Judgement::proved_right);
  Configuration low_sums = kernel_in(FormatId::bf16, true);
  low_sums.formats[static_cast<std::size_t>(Stage::accumulator)] = FormatId::bf16;
  CHECK(judged(problem_of("n_q=1 n_kv=512 d=4 dist=zero v=positive"), low_sums, "bf16-inputs",
               FormatId::bf16) == Judgement::proved_wrong); // 256 + 1 is 256
  CHECK(verdict("fa2-bf16", "fp16-inputs", FormatId::fp16) == Judgement::proved_wrong);
}

TEST_CASE(
    "What the rounding of p may move is there when it moves: a tie that falls one way in every key",
    "[numerics][quick]") {
  // Half of the weight on key 0, the rest on equal ones whose p, 1/17 of its, is rounded alike.
  Problem problem = problem_of("n_q=1 n_kv=18 d=1 dist=zero v=zero scale=1");
  problem.Q(0, 0, 0) = 1.0f;
  problem.K(0, 0, 0) = 2.828125f; // a bfloat16 number near ln 17
  problem.V(0, 0, 0) = 1.0f;
  for (std::int64_t j = 1; j < 18; ++j)
    problem.V(0, j, 0) = -1.0f;
  const reference::Truth truth = reference::certify(problem);
  const auto low = numerics::roundings_of(*numerics::find_declared("bf16-inputs"), problem);
  REQUIRE(low.q.relative == 0.0);
  REQUIRE(low.v.relative == 0.0);
  const Configuration kernel = kernel_in(FormatId::bf16, false);
  reference::State state = numerics::emulate(numerics::prepare(problem, kernel, 32), kernel, 32);
  const double error = std::fabs(double{state.O(0, 0, 0)} - truth.O(0, 0, 0).hi);

  numerics::Bounds with = numerics::low_precision_bound(problem, low);
  numerics::Bounds without = numerics::low_precision_bound(problem, {});

  CHECK(error <= with.O(0, 0, 0));
  CHECK(error > without.O(0, 0, 0));
}

TEST_CASE("With nothing rounded it is the bound of unknown insides, bit for bit",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=3 n_kv=50 d=5 dv=7 seed=5");
  kernels::Arithmetic unknown;
  unknown.known = false;

  const numerics::Bounds one = numerics::low_precision_bound(problem, {}, false, 2);
  const numerics::Bounds other = numerics::online_softmax(problem, unknown);

  CHECK(one.O == other.O);
  CHECK(one.LSE == other.LSE);
}

TEST_CASE("An output that may overflow its format is undecided, not wrong", "[numerics][quick]") {
  Problem problem = problem_of("n_q=1 n_kv=2 d=1 dist=zero v=zero");
  problem.V(0, 0, 0) = problem.V(0, 1, 0) = 65504.0f;
  const Configuration kernel = kernel_in(FormatId::fp16, false);

  // The number itself is right even so; an Inf in its place is not decided.
  CHECK(judged(problem, kernel, "fp16-inputs", FormatId::fp16) == Judgement::proved_right);
  const reference::Truth truth = reference::certify(problem);
  numerics::Bounds bounds = numerics::low_precision_bound(
      problem, numerics::roundings_of(*numerics::find_declared("fp16-inputs"), problem));
  numerics::round_output(bounds, truth, numerics::format_of(FormatId::fp16));
  reference::State state = reference::start_state(problem.shape);
  state.O(0, 0, 0) = std::numeric_limits<float>::infinity();
  CHECK(numerics::judge(problem, state, truth, bounds, false).judgement == Judgement::undecided);
}
