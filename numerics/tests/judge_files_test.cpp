// Claims about outputs in files: what is read as what, which verdict it gets and what is said of it. The public
// catalogue's cases about layouts, strides, grouped heads, LSE and comparers, each with its right value.
#include "numerics/judge.hpp"

#include "kernels/kernel.hpp"
#include "numerics/diagnosis_faults.hpp"
#include "numerics/judge_files.hpp"
#include "numerics/tests/arrays_in_memory.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace fa1;
using numerics::JudgeInput;
using numerics::Judgement;
using numerics::JudgeOptions;
using numerics::JudgeRecord;
using numerics::Layout;
using reference::Array;
using reference::Dtype;
using reference::Problem;
using tests::array_of;
using tests::f32;
using tests::says;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

JudgeInput input_of(const Problem& problem, const reference::Tensor<float>& O) {
  return {f32("Q", problem.Q), f32("K", problem.K), f32("V", problem.V), {f32("O", O)}, {}};
}

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

Judgement judged(const JudgeInput& input, const JudgeOptions& options = {}) {
  return numerics::judge_files(input, options).outputs.at(0).judgement;
}

} // namespace

TEST_CASE("H13: the shape 1 x 2 x 3 x 1 is two heads as bhnd and three heads as bnhd, and the "
          "other layout is named",
          "[numerics][quick]") {
  const std::vector<float> zeros(6, 0.0f);
  JudgeInput input{f32("Q", {1, 2, 3, 1}, zeros),
                   f32("K", {1, 2, 3, 1}, zeros),
                   f32("V", {1, 2, 3, 1}, {0, 1, 2, 3, 4, 5}),
                   {f32("O", {1, 2, 3, 1}, {1, 1, 1, 4, 4, 4})},
                   {}};
  const JudgeOptions bnhd{.layout = Layout::bnhd};

  CHECK(judged(input) == Judgement::proved_right);
  CHECK(judged(input, bnhd) == Judgement::proved_wrong);

  input.O = {f32("O", {1, 2, 3, 1}, {1.5, 2.5, 3.5, 1.5, 2.5, 3.5})};
  CHECK(judged(input, bnhd) == Judgement::proved_right);
  const JudgeRecord record = numerics::judge_files(input, {});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].looks_like, "right with --layout bnhd"));
  CHECK(says(record.assumed, "[b, h, n, d] (assumed"));
}

TEST_CASE("H14: V stored by columns gives [2.5, 3.5, 4.5], and [3, 3.5, 4] is a kernel that "
          "ignored its strides",
          "[numerics][quick]") {
  const std::vector<float> zeros(2, 0.0f);
  JudgeInput input{f32("Q", {1, 1}, {0}),
                   f32("K", {2, 1}, zeros),
                   f32("V", {2, 3}, {1, 4, 2, 5, 3, 6}, true),
                   {f32("O", {1, 3}, {2.5, 3.5, 4.5})},
                   {}};

  CHECK(judged(input) == Judgement::proved_right);

  input.O = {f32("O", {1, 3}, {3, 3.5, 4})};
  const JudgeRecord record = numerics::judge_files(input, {});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].looks_like, "the strides of V were ignored"));
}

TEST_CASE("H16: six query heads share two KV heads three by three, and two by two each has its own",
          "[numerics][quick]") {
  const std::vector<float> six(6, 0.0f);
  JudgeInput input{f32("Q", {6, 1, 1}, six),
                   f32("K", {2, 1, 1}, {0, 0}),
                   f32("V", {2, 1, 1}, {1, 2}),
                   {f32("O", {6, 1, 1}, {1, 1, 1, 2, 2, 2})},
                   {}};
  JudgeInput equal{f32("Q", {2, 1, 1}, {0, 0}),
                   f32("K", {2, 1, 1}, {0, 0}),
                   f32("V", {2, 1, 1}, {1, 2}),
                   {f32("O", {2, 1, 1}, {1, 2})},
                   {}};

  CHECK(judged(input) == Judgement::proved_right);
  CHECK(judged(equal) == Judgement::proved_right);

  input.O = {f32("O", {6, 1, 1}, {1, 2, 1, 2, 1, 2})};
  const JudgeRecord record = numerics::judge_files(input, {});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].looks_like, "query head h meets KV head h mod"));
  CHECK(says(record.assumed, "query heads 3 k to 3 k + 2 meet KV head k"));
}

TEST_CASE("Shapes that do not fit are refused with both shapes", "[numerics][quick]") {
  const auto zeros = [](std::size_t n) { return std::vector<float>(n, 0.0f); };
  const Array q = f32("Q", {6, 4, 2}, zeros(48)), k = f32("K", {4, 3, 2}, zeros(24)),
              v = f32("V", {4, 3, 5}, zeros(60)), o = f32("O", {6, 4, 5}, zeros(120));
  const Array k2 = f32("K", {2, 3, 2}, zeros(12)), v2 = f32("V", {2, 3, 5}, zeros(30));
  const auto complaint = [](const JudgeInput& input) -> std::string {
    try {
      numerics::judge_files(input, {});
    } catch (const reference::FileError& error) {
      return error.what();
    }
    return "none";
  };
  using Catch::Matchers::ContainsSubstring;

  CHECK(complaint({q, k2, v2, {o}, {}}) == "none");
  CHECK_THAT(complaint({q, k, v, {o}, {}}),
             ContainsSubstring("Q has 6 heads and K has 4; want a multiple"));
  CHECK_THAT(complaint({q, k2, v2, {v2}, {}}), ContainsSubstring("want the same"));
  CHECK_THAT(complaint({q, k2, f32("V", {2, 4, 5}, zeros(40)), {o}, {}}),
             ContainsSubstring("K has 3 keys and V has 4"));
  CHECK_THAT(complaint({f32("Q", {48}, zeros(48)), k2, v2, {o}, {}}), ContainsSubstring("[n, d]"));
  CHECK_THAT(complaint({q, k2, v2, {o}, f32("LSE", {4, 6}, zeros(24))}),
             ContainsSubstring("want [6, 4] for LSE"));
}

TEST_CASE("H11: without a key O is 0 and LSE -Inf, and without a row or a head there is nothing to "
          "judge, which is said",
          "[numerics][quick]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> none, six(6, 0.0f);
  JudgeInput no_key{f32("Q", {2, 3}, six),
                    f32("K", {0, 3}, none),
                    f32("V", {0, 2}, none),
                    {f32("O", {2, 2}, {0, 0, 0, 0})},
                    f32("LSE", {2}, {-inf, -inf})};
  JudgeInput old_contents = no_key;
  old_contents.O = {f32("O", {2, 2}, {0, 0, kNaN, 0})};
  const JudgeInput no_row{f32("Q", {0, 3}, none),
                          f32("K", {2, 3}, six),
                          f32("V", {2, 3}, six),
                          {f32("O", {0, 3}, none)},
                          {}};
  const JudgeInput no_head{f32("Q", {0, 2, 3}, none),
                           f32("K", {0, 2, 3}, none),
                           f32("V", {0, 2, 3}, none),
                           {f32("O", {0, 2, 3}, none)},
                           {}};

  CHECK(judged(no_key) == Judgement::proved_right);
  CHECK(judged(old_contents) == Judgement::proved_wrong);
  for (const JudgeInput& empty : {no_row, no_head})
    CHECK(numerics::judge_files(empty, {}).outputs[0].why == "there is no output element");
}

TEST_CASE("H23: an LSE to base 2 is proved wrong and named, and right with base2_LSE",
          "[numerics][quick]") {
  const std::vector<float> zeros(8, 0.0f);
  JudgeInput input{f32("Q", {1, 1}, {0}),
                   f32("K", {8, 1}, zeros),
                   f32("V", {8, 1}, zeros),
                   {f32("O", {1, 1}, {0})},
                   f32("LSE", {1}, {2.0794415f})};
  JudgeInput base2 = input;
  base2.LSE = f32("LSE", {1}, {3});

  CHECK(judged(input) == Judgement::proved_right);
  CHECK(judged(base2, {.base2_LSE = true}) == Judgement::proved_right);
  const JudgeRecord record = numerics::judge_files(base2, {});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(record.outputs[0].worst->output == "LSE");
  CHECK(says(record.outputs[0].looks_like, "; --base2-lse reads it so"));
}

TEST_CASE("H24: scores of 100 and 100 have the LSE 100.6931472, not 0.6931472",
          "[numerics][quick]") {
  JudgeInput input{f32("Q", {1, 1}, {10}),
                   f32("K", {2, 1}, {10, 10}),
                   f32("V", {2, 1}, {1, 3}),
                   {f32("O", {1, 1}, {2})},
                   f32("LSE", {1}, {100.6931472f})};
  JudgeInput without_max = input;
  without_max.LSE = f32("LSE", {1}, {0.6931472f});

  CHECK(judged(input) == Judgement::proved_right);
  CHECK(judged(without_max) == Judgement::proved_wrong);
}

TEST_CASE("H29: the scale is 1/sqrt(d) where nothing is said, and an explicit 0 is 0",
          "[numerics][quick]") {
  const float half_ln3 = static_cast<float>(std::log(3.0) / 2.0);
  JudgeInput input{f32("Q", {1, 4}, {1, 1, 1, 1}),
                   f32("K", {2, 4}, {0, 0, 0, 0, half_ln3, half_ln3, half_ln3, half_ln3}),
                   f32("V", {2, 1}, {0, 4}),
                   {f32("O", {1, 1}, {3})},
                   {}};
  JudgeInput uniform = input;
  uniform.O = {f32("O", {1, 1}, {2})};

  CHECK(judged(input) == Judgement::proved_right);
  CHECK(judged(uniform) == Judgement::proved_wrong);
  CHECK(judged(input, {.scale = 0.0f}) == Judgement::proved_wrong);
  CHECK(judged(uniform, {.scale = 0.0f}) == Judgement::proved_right);
}

TEST_CASE("H30: the error of a plain implementation in the same precision stands beside it",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=8 n_kv=300 d=16 scale=auto");

  const JudgeRecord record =
      numerics::judge_files(input_of(problem, reference::tiled_mirror(problem, 32).O), {});

  CHECK(record.outputs[0].judgement == Judgement::proved_right);
  CHECK(record.outputs[0].errors.rms_relative > 0.0);
  CHECK(record.plain.rms_relative > 0.0);
  CHECK(record.plain.elements == record.outputs[0].errors.elements);
  CHECK(record.plain.max_fraction <= 1.0);
}

TEST_CASE("H34, H35, H37: a constant, a NaN where the truth is a number and a number where it is "
          "NaN are proved wrong",
          "[numerics][quick]") {
  Problem problem = problem_of("n_q=4 n_kv=16 d=4 v=uniform seed=3");
  reference::Tensor<float> O = reference::tiled_mirror(problem, 4).O;
  REQUIRE(judged(input_of(problem, O)) != Judgement::proved_wrong);

  reference::Tensor<float> constant = O, nan = O;
  std::ranges::fill(constant.elements(), 0.75f);
  nan(0, 2, 1) = kNaN;
  const JudgeRecord of_nan = numerics::judge_files(input_of(problem, nan), {});
  problem.Q(0, 1, 2) = kNaN;

  CHECK(judged(input_of(problem_of("n_q=4 n_kv=16 d=4 v=uniform seed=3"), constant)) ==
        Judgement::proved_wrong);
  CHECK(of_nan.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(of_nan.outputs[0].elements[3] == 1);
  CHECK(says(of_nan.outputs[0].not_finite, "O holds 1 NaN or Inf, the first at [0,0,2,1]"));
  CHECK(says(of_nan.outputs[0].not_finite, "the kernel made it"));
  CHECK(judged(input_of(problem, O)) == Judgement::proved_wrong);
}

TEST_CASE("A NaN is traced to the input it can come from, and excuses no other row",
          "[numerics][quick]") {
  Problem problem = problem_of("n_q=4 n_kv=16 d=4 seed=3");
  reference::Tensor<float> O = reference::tiled_mirror(problem, 4).O;
  problem.Q(0, 1, 2) = kNaN;
  for (std::int64_t c = 0; c < 4; ++c)
    O(0, 1, c) = kNaN;

  const JudgeRecord right = numerics::judge_files(input_of(problem, O), {});
  O(0, 3, 0) += 1.0f;
  const JudgeRecord wrong = numerics::judge_files(input_of(problem, O), {});

  CHECK(right.outputs[0].judgement == Judgement::proved_right);
  CHECK(
      says(right.outputs[0].not_finite, "it can come from Q[0,0,1,2] is nan: it reaches this row"));
  CHECK(wrong.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(wrong.outputs[0].elements[3] == 1);
}

TEST_CASE("An Inf that only the narrow format of O makes is undecided and traced to it",
          "[numerics][quick]") {
  JudgeInput input{f32("Q", {1, 1}, {0}),
                   f32("K", {1, 1}, {0}),
                   f32("V", {1, 1}, {70000}),
                   {array_of("O", {1, 1}, std::vector<std::uint16_t>{0x7c00}, Dtype::f16)},
                   {}};

  const JudgeRecord record = numerics::judge_files(input, {});

  CHECK(record.outputs[0].judgement == Judgement::undecided);
  CHECK(says(record.outputs[0].not_finite, "the output's format: |v| reaches 70000"));
}

TEST_CASE("The wrong outputs of ten mutants are named with their fault", "[numerics][quick]") {
  const auto* const mutant =
      GENERATE("no_alpha_on_O", "no_alpha_on_l", "no_alpha", "stale_max", "no_division",
               "pads_count", "tail_dropped", "scale_missing", "base_two", "neighbour_value",
               "transposed_tile", "bf16_values");
  const Problem problem = problem_of("bh=2 n_q=8 n_kv=37 d=5 order=ascending scale=auto seed=2");
  const kernels::Kernel& kernel =
      kernels::find_kernel(std::string("mutant.") + mutant + ".Br4xBc2", problem.shape);
  CAPTURE(mutant);

  const JudgeRecord record = numerics::judge_files(
      input_of(problem, kernels::run(kernel, problem).O), {.scale = problem.scale});

  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  const bool named = std::ranges::any_of(numerics::all_faults(), [&](const auto& fault) {
    return fault.name == mutant && says(record.outputs[0].looks_like, fault.says);
  });
  CHECK(named);
  CHECK(record.outputs[0].worst_ten.size() ==
        static_cast<std::size_t>(std::min<std::int64_t>(10, record.outputs[0].elements[3])));
  CHECK(std::ranges::is_sorted(record.outputs[0].worst_ten, std::greater{},
                               &numerics::Judged::fraction));
}

TEST_CASE(
    "Doubles that are no fp32 numbers are counted, and a kernel that used them either way is right",
    "[numerics][quick]") {
  const std::vector<double> q{0.1, 0.7}, k{1.0 / 3, 0.2, -0.3, 1.1}, v{1e-3, 2.0 / 3};
  const auto attention = [](std::vector<double> x, std::vector<double> y, std::vector<double> z) {
    const double scale = double{static_cast<float>(1 / std::sqrt(2.0))};
    const double p0 = std::exp(scale * (x[0] * y[0] + x[1] * y[1])),
                 p1 = std::exp(scale * (x[0] * y[2] + x[1] * y[3]));
    return (p0 * z[0] + p1 * z[1]) / (p0 + p1);
  };
  const auto rounded = [](std::vector<double> x) {
    for (double& one : x)
      one = double{static_cast<float>(one)};
    return x;
  };
  JudgeInput input{
      array_of("Q", {1, 2}, q, Dtype::f64),
      array_of("K", {2, 2}, k, Dtype::f64),
      array_of("V", {2, 1}, v, Dtype::f64),
      {array_of("O", {1, 1}, std::vector{attention(q, k, v)}, Dtype::f64),
       array_of("O2", {1, 1}, std::vector{attention(rounded(q), rounded(k), rounded(v))},
                Dtype::f64)},
      {}};

  const JudgeRecord record = numerics::judge_files(input, {});

  CHECK(record.outputs[0].judgement == Judgement::proved_right);
  CHECK(record.outputs[1].judgement == Judgement::proved_right);
  CHECK(record.outputs[1].bits_differ == 1);
  CHECK(says(record.assumed, "Q: 2 entries are no fp32 numbers"));
  CHECK(says(record.assumed, "K: 4 entries are no fp32 numbers"));
}

TEST_CASE("Rows are sampled from the first to the last and said, and a NaN elsewhere is found",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=50 n_kv=16 d=4 seed=3");
  reference::Tensor<float> O = reference::tiled_mirror(problem, 4).O;
  const JudgeRecord clean = numerics::judge_files(input_of(problem, O), {.rows = 5});
  O(0, 17, 3) = kNaN;
  const JudgeRecord dirty = numerics::judge_files(input_of(problem, O), {.rows = 5});

  CHECK(clean.rows_judged == 5);
  CHECK(says(clean.assumed, "rows: 5 of 50"));
  CHECK(clean.outputs[0].judgement == Judgement::proved_right);
  CHECK(dirty.rows_judged == 6);
  CHECK(dirty.outputs[0].judgement == Judgement::proved_wrong);
}

TEST_CASE("H31: outputs of several runs are compared with the first bit by bit",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=5 n_kv=16 d=4 seed=3");
  const reference::Tensor<float> O = reference::tiled_mirror(problem, 4).O;
  reference::Tensor<float> other = O;
  other(0, 3, 2) = std::nextafter(other(0, 3, 2), 9.0f);
  JudgeInput input = input_of(problem, O);
  input.O.push_back(f32("same", O));
  input.O.push_back(f32("other", other));

  const JudgeRecord record = numerics::judge_files(input, {});

  CHECK_FALSE(record.wrong());
  CHECK(record.outputs[1].bits_differ == 0);
  CHECK(record.outputs[2].bits_differ == 1);
  CHECK(to_string(*record.outputs[2].first_difference) == "[0,0,3,2]");
}

TEST_CASE("The arithmetic is guessed from the types: bfloat16 in and out", "[numerics][quick]") {
  // Half of 1 and 1 + 2^-7: no bfloat16 number, so the output is a tie.
  const std::vector<std::uint16_t> one_and_next{0x3f80, 0x3f81}, zero{0}, zeros{0, 0}, up{0x3f82};
  JudgeInput input{array_of("Q", {1, 1}, zero, Dtype::bf16),
                   array_of("K", {2, 1}, zeros, Dtype::bf16),
                   array_of("V", {2, 1}, one_and_next, Dtype::bf16),
                   {array_of("O", {1, 1}, std::vector<std::uint16_t>{0x3f80}, Dtype::bf16)},
                   {}};

  const JudgeRecord record = numerics::judge_files(input, {});

  CHECK(record.declared->id == "bf16-inputs");
  CHECK(says(record.assumed, "guessed from the types"));
  CHECK(record.outputs[0].judgement == Judgement::proved_right);
  CHECK(record.outputs[0].errors.max_ulp == 0.5);
  CHECK(judged(input, {.declared = numerics::find_declared("fp32")}) != Judgement::proved_wrong);
}

TEST_CASE("Every code of the small formats is the number that formats.hpp says",
          "[numerics][quick]") {
  struct Pair {
    Dtype dtype;
    numerics::FormatId format;
  };
  for (const Pair& pair :
       {Pair{Dtype::f16, numerics::FormatId::fp16}, Pair{Dtype::bf16, numerics::FormatId::bf16},
        Pair{Dtype::f8_e4m3, numerics::FormatId::e4m3},
        Pair{Dtype::f8_e5m2, numerics::FormatId::e5m2}}) {
    const numerics::Format& format = numerics::format_of(pair.format);
    for (std::uint32_t code = 0; code < (1u << format.bits()); ++code) {
      const double x = reference::decode(pair.dtype, code);
      const auto y = double{numerics::decode(format, code)};
      if (!(x == y && std::signbit(x) == std::signbit(y)) && !(std::isnan(x) && std::isnan(y)))
        FAIL_CHECK(format.id << " code " << code << ": " << x << " and " << y);
    }
  }
}
