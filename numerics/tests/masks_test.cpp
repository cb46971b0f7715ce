// Claims about masks in judging: the right output under each is proved right and under every other proved wrong, what
// kernels make of masks is named, and the public catalogue's cases about masks, each with its right value. Right
// outputs come from a plain loop in long double that knows a mask as a question: does row i see key j?
#include "numerics/masks.hpp"

#include "numerics/judge.hpp"
#include "numerics/tests/arrays_in_memory.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace fa1;
using numerics::Corner;
using numerics::EmptyRow;
using numerics::JudgeInput;
using numerics::Judgement;
using numerics::JudgeRecord;
using numerics::MaskOptions;
using reference::Array;
using reference::Dtype;
using reference::Problem;
using tests::array_of;
using tests::f32;
using tests::says;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Does row i of batch b see key j?
using Sees = std::function<bool(std::int64_t b, std::int64_t i, std::int64_t j)>;

struct Right {
  reference::Tensor<float> O;
  std::vector<float> LSE;
};

/// Rounded once, to fp32. A row without a key: O = 0, LSE = -inf.
Right plain(const Problem& problem, const Sees& sees) {
  const reference::Shape& shape = problem.shape;
  Right right{reference::Tensor<float>(shape.batch_heads, shape.n_q, shape.dv), {}};
  for (std::int64_t b = 0; b < shape.batch_heads; ++b)
    for (std::int64_t i = 0; i < shape.n_q; ++i) {
      long double l = 0;
      std::vector<long double> o(static_cast<std::size_t>(shape.dv));
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        if (!sees(b, i, j))
          continue;
        long double s = 0;
        for (std::int64_t c = 0; c < shape.d; ++c)
          s += static_cast<long double>(problem.Q(b, i, c)) * problem.K(b, j, c);
        const long double p = std::exp(problem.scale * s);
        l += p;
        for (std::int64_t c = 0; c < shape.dv; ++c)
          o[static_cast<std::size_t>(c)] += p * problem.V(b, j, c);
      }
      for (std::int64_t c = 0; c < shape.dv; ++c)
        right.O(b, i, c) = l > 0 ? static_cast<float>(o[static_cast<std::size_t>(c)] / l) : 0.0f;
      right.LSE.push_back(static_cast<float>(std::log(l)));
    }
  return right;
}

/// Batches of one head.
Array of_batches(const char* name, const reference::Tensor<float>& values) {
  return f32(name, {values.batch_heads(), 1, values.rows(), values.columns()},
             {values.elements().begin(), values.elements().end()});
}

JudgeInput input_of(const Problem& problem, const Right& right) {
  return {of_batches("Q", problem.Q),
          of_batches("K", problem.K),
          of_batches("V", problem.V),
          {of_batches("O", right.O)},
          f32("LSE", {problem.shape.batch_heads, 1, problem.shape.n_q}, right.LSE)};
}

Array truth_values(std::vector<std::int64_t> shape, const std::vector<std::uint8_t>& values) {
  return array_of("mask", std::move(shape), values, Dtype::boolean);
}

constexpr std::int64_t kBatches = 2, kRows = 5, kKeys = 7;

Problem ragged() {
  return reference::make_problem(
      reference::parse_recipe("bh=2 n_q=5 n_kv=7 d=3 dv=2 scale=auto seed=11"));
}

/// A pattern without symmetries in which rows 1 and 3 of batch 0 are empty.
bool pattern(std::int64_t b, std::int64_t i, std::int64_t j) {
  return (3 * b + 2 * i + j * j) % 4 < 2;
}

/// Of [batches, 1, rows, keys].
template <class Number> std::vector<Number> pattern_as(Number permitted, Number forbidden) {
  std::vector<Number> values;
  for (std::int64_t b = 0; b < kBatches; ++b)
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kKeys; ++j)
        values.push_back(pattern(b, i, j) ? permitted : forbidden);
  return values;
}

JudgeRecord record_of(const JudgeInput& input, const Problem& problem, const MaskOptions& mask) {
  return numerics::judge_files(input, {.scale = problem.scale, .mask = mask, .threads = 2});
}

/// Q = K = 0 and these values, one column: scores 0.
JudgeInput zero_scores(std::int64_t n_q, const std::vector<float>& V, const std::vector<float>& O) {
  const auto n_kv = static_cast<std::int64_t>(V.size());
  return {f32("Q", {n_q, 1}, std::vector<float>(static_cast<std::size_t>(n_q))),
          f32("K", {n_kv, 1}, std::vector<float>(V.size())),
          f32("V", {n_kv, 1}, V),
          {f32("O", {n_q, 1}, O)},
          {}};
}

Judgement judged(const JudgeInput& input, const MaskOptions& mask) {
  return numerics::judge_files(input, {.mask = mask}).outputs.at(0).judgement;
}

} // namespace

TEST_CASE("Under each mask the output of the plain loop is proved right, and no other mask's is",
          "[numerics][quick]") {
  struct Kind {
    std::string name;
    MaskOptions options;
    Sees sees;
  };
  const std::vector<std::int64_t> lengths{4, 6};
  const auto length = [&](std::int64_t b) { return lengths[static_cast<std::size_t>(b)]; };
  const std::vector<Kind> kinds{
      {"none", {}, [](auto, auto, auto) { return true; }},
      {"causal, top left",
       {.corner = Corner::top_left, .right = 0},
       [](auto, auto i, auto j) { return j <= i; }},
      {"causal, bottom right",
       {.right = 0},
       [](auto, auto i, auto j) { return j <= i + kKeys - kRows; }},
      {"window",
       {.corner = Corner::top_left, .left = 1, .right = 2},
       [](auto, auto i, auto j) { return j >= i - 1 && j <= i + 2; }},
      {"lengths", {.lengths = lengths}, [&](auto b, auto, auto j) { return j < length(b); }},
      {"lengths and causal, bottom right, with an empty row",
       {.right = 0, .lengths = lengths},
       [&](auto b, auto i, auto j) { return j < length(b) && j <= i + length(b) - kRows; }},
      {"truth values",
       {.array = truth_values({kBatches, 1, kRows, kKeys}, pattern_as<std::uint8_t>(1, 0))},
       pattern},
      {"of every batch",
       {.array = truth_values({kKeys}, {1, 0, 1, 1, 0, 0, 1})},
       [](auto, auto, auto j) { return j == 0 || j == 2 || j == 3 || j == 6; }}};
  const Problem problem = ragged();

  for (const Kind& of_output : kinds)
    for (const Kind& asked : kinds) {
      CAPTURE(of_output.name, asked.name);
      const JudgeRecord record =
          record_of(input_of(problem, plain(problem, of_output.sees)), problem, asked.options);
      const auto& output = record.outputs.at(0);
      if (of_output.name == asked.name) {
        CHECK(output.judgement == Judgement::proved_right);
        CHECK(output.elements[0] == kBatches * kRows * (2 + 1)); // O and LSE
      } else {
        CHECK(output.judgement == Judgement::proved_wrong);
      }
    }
}

TEST_CASE("One mask may be written in many types, and with true as forbidden",
          "[numerics][quick]") {
  const Problem problem = ragged();
  const JudgeInput input = input_of(problem, plain(problem, pattern));
  const std::vector<std::int64_t> shape{kBatches, 1, kRows, kKeys};
  const std::vector<Array> arrays{
      array_of("bool", shape, pattern_as<std::uint8_t>(1, 0), Dtype::boolean),
      array_of("u8", shape, pattern_as<std::uint8_t>(255, 0), Dtype::u8),
      array_of("i8", shape, pattern_as<std::int8_t>(-1, 0), Dtype::i8),
      array_of("i32", shape, pattern_as<std::int32_t>(256, 0), Dtype::i32),
      array_of("i64", shape, pattern_as<std::int64_t>(1, 0), Dtype::i64),
      f32("f32", shape, pattern_as<float>(0.0f, -kInf)),
      array_of("bf16", shape, pattern_as<std::uint16_t>(0, 0xff80), Dtype::bf16)};

  for (const Array& array : arrays) {
    CAPTURE(array.name);
    CHECK(record_of(input, problem, {.array = array}).outputs[0].judgement ==
          Judgement::proved_right);
  }
  CHECK(record_of(
            input, problem,
            {.array = truth_values(shape, pattern_as<std::uint8_t>(0, 1)), .true_is_masked = true})
            .outputs[0]
            .judgement == Judgement::proved_right);
  const JudgeRecord record = record_of(input, problem, {.array = arrays[0]});
  CHECK(record.empty_rows == 2);
  CHECK(says(record.assumed, "2 of these rows have no permitted key: O = 0, LSE = -inf"));
  CHECK(says(record.assumed, "mask: bool of type bool, true is permitted"));
}

TEST_CASE("What kernels make of a mask is named", "[numerics][quick]") {
  struct Fault {
    MaskOptions asked;
    Sees sees;
    std::string says;
  };
  const std::vector<std::int64_t> lengths{4, 6};
  const auto length = [&](std::int64_t b) { return lengths[static_cast<std::size_t>(b)]; };
  const MaskOptions causal{.corner = Corner::top_left, .right = 0};
  const MaskOptions window{.corner = Corner::top_left, .left = 2, .right = 1};
  const MaskOptions array{
      .array = truth_values({kBatches, 1, kRows, kKeys}, pattern_as<std::uint8_t>(1, 0))};
  const auto all = [](auto, auto, auto) { return true; };
  const std::vector<Fault> faults{
      {causal, all, "the mask is ignored: every key is counted"},
      {causal, [](auto, auto i, auto j) { return j <= i + kKeys - kRows; },
       "the causal mask is aligned at the bottom right"},
      {{.right = 0},
       [](auto, auto i, auto j) { return j <= i; },
       "the causal mask is aligned at the top left"},
      {causal, [](auto, auto i, auto j) { return j < i; }, "the diagonal is forbidden"},
      {causal, [](auto, auto i, auto j) { return j <= i + 1; }, "the key after its diagonal, too"},
      {window, [](auto, auto i, auto j) { return j >= i - 1 && j <= i + 1; },
       "one key too narrow on the left"},
      {window, [](auto, auto i, auto j) { return j >= i - 3 && j <= i + 1; },
       "one key too wide on the left"},
      {window, [](auto, auto i, auto j) { return j >= i - 2 && j <= i; },
       "one key too narrow on the right"},
      {window, [](auto, auto i, auto j) { return j >= i - 2 && j <= i + 2; },
       "one key too wide on the right"},
      {window, [](auto, auto i, auto j) { return j >= i - 2; },
       "the right limit of the window is ignored"},
      {window, [](auto, auto i, auto j) { return j <= i + 1; },
       "the left limit of the window is ignored"},
      {{.lengths = lengths}, all, "padding keys are counted"},
      {{.lengths = lengths},
       [&](auto b, auto, auto j) { return j < length(b) - 1; },
       "the last one of each length is missing"},
      {{.lengths = lengths},
       [&](auto b, auto, auto j) { return j <= length(b); },
       "the first padding key of each length"},
      {{.lengths = lengths},
       [&](auto, auto, auto j) { return j < length(0); },
       "the key length of the first batch is used for all"},
      {array, [](auto b, auto i, auto j) { return !pattern(b, i, j); },
       "it is right with --mask-true-is-masked"},
      {array, [](auto, auto i, auto j) { return pattern(0, i, j); },
       "the mask array of the first batch is used for all"},
      {{.corner = Corner::top_left, .right = 0, .lengths = lengths},
       [](auto, auto i, auto j) { return j <= i; },
       "the key lengths are ignored"},
      {{.corner = Corner::top_left, .right = 0, .lengths = lengths},
       [&](auto b, auto, auto j) { return j < length(b); },
       "the causal mask is ignored"}};
  const Problem problem = ragged();

  for (const Fault& fault : faults) {
    const auto output =
        record_of(input_of(problem, plain(problem, fault.sees)), problem, fault.asked)
            .outputs.at(0);
    CAPTURE(fault.says, output.looks_like);
    CHECK(output.judgement == Judgement::proved_wrong);
    CHECK(says(output.looks_like, fault.says));
    CHECK(output.looks_like.size() <= 2);
  }
}

TEST_CASE("A fault that is none of the mask's is named under a mask, too", "[numerics][quick]") {
  const Problem problem = ragged();
  Problem unscaled = problem;
  unscaled.scale = 1.0f;
  const Sees causal = [](auto, auto i, auto j) { return j <= i + kKeys - kRows; };

  const auto output =
      record_of(input_of(problem, plain(unscaled, causal)), problem, {.right = 0}).outputs.at(0);

  CHECK(output.judgement == Judgement::proved_wrong);
  CHECK(says(output.looks_like, "scores are not scaled"));
}

TEST_CASE("Row by row as in one problem: a mask that permits everything changes no number",
          "[numerics][quick]") {
  const Problem problem = ragged();
  const JudgeInput input = input_of(problem, plain(problem, [](auto, auto, auto) { return true; }));

  const JudgeRecord none = record_of(input, problem, {});
  const JudgeRecord all =
      record_of(input, problem, {.array = truth_values({1, kKeys}, {1, 1, 1, 1, 1, 1, 1})});
  const JudgeRecord one_thread =
      numerics::judge_files(input, {.scale = problem.scale, .mask = {.right = 0}, .threads = 1});
  const JudgeRecord four_threads =
      numerics::judge_files(input, {.scale = problem.scale, .mask = {.right = 0}, .threads = 4});

  CHECK(none.outputs[0].errors.max_fraction == all.outputs[0].errors.max_fraction);
  CHECK(none.outputs[0].errors.rms_relative == all.outputs[0].errors.rms_relative);
  CHECK(one_thread.outputs[0].errors.rms_relative == four_threads.outputs[0].errors.rms_relative);
  CHECK(one_thread.rows.entropy.median == four_threads.rows.entropy.median);
}

TEST_CASE("The bound grows with the keys that are visited, though a mask forbids them",
          "[numerics][quick]") {
  const Problem one = reference::make_problem(reference::parse_recipe("n_q=1 n_kv=1 d=2 dv=1"));
  numerics::LowPrecision low = numerics::roundings_of(*numerics::find_declared("fp32"), one);

  const numerics::Bounds alone = numerics::low_precision_bound(one, low);
  low.keys_visited = 1000;
  const numerics::Bounds visited = numerics::low_precision_bound(one, low);

  // O = v: every tile of one key may round alpha l, alpha l O and the quotient.
  const double v = std::fabs(double{one.V(0, 0, 0)});
  CHECK(alone.O(0, 0, 0) < 100 * 0x1p-24 * v);
  CHECK(visited.O(0, 0, 0) > 3000 * 0x1p-24 * v);
}

TEST_CASE("H02: keys far below 0 behind a masked tile: 5, not the 0 of a running maximum that "
          "stayed at 0",
          "[numerics][quick]") {
  JudgeInput input{f32("Q", {1, 1}, {-100}),
                   f32("K", {4, 1}, {1, 1, 2, 3}),
                   f32("V", {4, 1}, {9, 9, 5, 7}),
                   {f32("O", {1, 1}, {5})},
                   f32("LSE", {1}, {-200})};
  const MaskOptions mask{.array = truth_values({1, 4}, {0, 0, 1, 1})};

  CHECK(judged(input, mask) == Judgement::proved_right);
  for (const float wrong : {0.0f, kNaN, 9.0f}) {
    input.O = {f32("O", {1, 1}, {wrong})};
    CHECK(judged(input, mask) == Judgement::proved_wrong);
  }
}

TEST_CASE("H03: a window of two keys over six: [0, 0.5, 1.5, 2.5, 3.5, 4.5], and NaN is wrong",
          "[numerics][quick]") {
  const std::vector<float> V{0, 1, 2, 3, 4, 5}, right{0, 0.5f, 1.5f, 2.5f, 3.5f, 4.5f};
  const MaskOptions mask{.left = 1, .right = 0};
  std::vector<float> wrong = right;
  std::fill(wrong.begin() + 3, wrong.end(), kNaN);

  CHECK(judged(zero_scores(6, V, right), mask) == Judgement::proved_right);
  const JudgeRecord record = numerics::judge_files(zero_scores(6, V, wrong), {.mask = mask});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(record.outputs[0].elements[3] == 3);
}

TEST_CASE("H04, H24: a padding row is 0 with LSE -inf by convention, or NaN by --empty-row nan",
          "[numerics][quick]") {
  const MaskOptions zero{.array = truth_values({2, 2}, {1, 1, 0, 0})};
  MaskOptions nan = zero;
  nan.empty_row = EmptyRow::nan;
  JudgeInput of_zero = zero_scores(2, {3, 5}, {4, 0}), of_nan = zero_scores(2, {3, 5}, {4, kNaN});
  const float ln2 = static_cast<float>(std::log(2.0));
  JudgeInput with_LSE = of_zero, infinite_LSE = of_zero;
  with_LSE.LSE = f32("LSE", {2}, {ln2, -kInf});
  infinite_LSE.LSE = f32("LSE", {2}, {ln2, kInf});

  CHECK(judged(of_zero, zero) == Judgement::proved_right);
  CHECK(judged(of_nan, nan) == Judgement::proved_right);
  CHECK(judged(with_LSE, zero) == Judgement::proved_right);
  CHECK(judged(with_LSE, nan) == Judgement::proved_wrong);
  CHECK(judged(infinite_LSE, zero) == Judgement::proved_wrong);
  const JudgeRecord record = numerics::judge_files(of_nan, {.mask = zero});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(record.outputs[0].elements[3] == 1);
  CHECK(says(record.outputs[0].looks_like, "it is right with --empty-row nan"));
  CHECK(says(record.outputs[0].not_finite, "its row has no permitted key"));
  CHECK(says(numerics::judge_files(of_zero, {.mask = nan}).outputs[0].looks_like,
             "it is right with --empty-row zero"));
}

TEST_CASE("Convention 2, H06: a finite number in the place of -inf shows where no key is permitted",
          "[numerics][quick]") {
  JudgeInput input{f32("Q", {1, 1}, {1}),
                   f32("K", {3, 1}, {1, 2, 3}),
                   f32("V", {3, 1}, {0, 3, 9}),
                   {f32("O", {1, 1}, {4})}, // the mean
                   {}};
  const MaskOptions mask{.array = truth_values({1, 3}, {0, 0, 0})};
  const double e = std::exp(1.0);
  JudgeInput attention = input;
  attention.O = {f32("O", {1, 1}, {static_cast<float>((3 * e + 9 * e * e) / (1 + e + e * e))})};

  const auto of_mean = numerics::judge_files(input, {.mask = mask}).outputs.at(0);
  const auto of_attention = numerics::judge_files(attention, {.mask = mask}).outputs.at(0);

  CHECK(of_mean.judgement == Judgement::proved_wrong);
  CHECK(says(of_mean.looks_like, "the row is the mean of V"));
  CHECK(of_attention.judgement == Judgement::proved_wrong);
  CHECK(says(of_attention.looks_like, "the row attends to every key"));
}

TEST_CASE("H11, H17: more rows than keys, bottom right: the first rows are empty, and poison in "
          "them is wrong",
          "[numerics][quick]") {
  const MaskOptions mask{.right = 0};
  JudgeInput right = zero_scores(5, {1, 2}, {0, 0, 0, 1, 1.5f});
  right.LSE = f32("LSE", {5}, {-kInf, -kInf, -kInf, 0, static_cast<float>(std::log(2.0))});

  CHECK(judged(right, mask) == Judgement::proved_right);
  CHECK(judged(zero_scores(5, {1, 2}, {kNaN, kNaN, kNaN, 1, 1.5f}), mask) ==
        Judgement::proved_wrong);
  CHECK(judged(zero_scores(2, {}, {0, 0}), {}) == Judgement::proved_right);
}

TEST_CASE("H18: with a causal mask [1, 1.5, 2, 2.5]; 2.5 everywhere ignored it",
          "[numerics][quick]") {
  const MaskOptions mask{.right = 0};

  CHECK(judged(zero_scores(4, {1, 2, 3, 4}, {1, 1.5f, 2, 2.5f}), mask) == Judgement::proved_right);
  const JudgeRecord record =
      numerics::judge_files(zero_scores(4, {1, 2, 3, 4}, {2.5f, 2.5f, 2.5f, 2.5f}), {.mask = mask});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].looks_like, "the mask is ignored"));
}

TEST_CASE("H20: NaN in a forbidden key is no part of the row, and a NaN output is traced to it",
          "[numerics][quick]") {
  JudgeInput input = zero_scores(2, {7, kNaN}, {7, 7});
  input.K = f32("K", {2, 1}, {0, kNaN});
  const MaskOptions mask{.lengths = {1}};

  CHECK(judged(input, mask) == Judgement::proved_right);
  CHECK(judged(input, {}) == Judgement::proved_wrong);
  input.O = {f32("O", {2, 1}, {kNaN, kNaN})};
  CHECK(judged(input, {}) == Judgement::proved_right);
  const JudgeRecord record = numerics::judge_files(input, {.mask = mask});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].not_finite,
             "K[0,0,1,0] is nan: the mask forbids that key, but NaN or Inf + -inf is NaN"));
}

TEST_CASE("Masks that do not fit are refused with what would be right", "[numerics][quick]") {
  using Catch::Matchers::ContainsSubstring;
  const JudgeInput input = zero_scores(2, {3, 5, 7}, {5, 5});
  const auto complaint = [&](const MaskOptions& mask) -> std::string {
    try {
      judged(input, mask);
    } catch (const reference::FileError& error) {
      return error.what();
    }
    return "none";
  };
  const Array floats = f32("mask", {1, 3}, {0, -kInf, 1});

  CHECK(complaint({.array = truth_values({1, 1, 2, 3}, {1, 1, 1, 1, 1, 1})}) == "none");
  CHECK_THAT(complaint({.array = truth_values({3, 2}, {1, 1, 1, 1, 1, 1})}),
             ContainsSubstring("mask: has shape [3, 2]; want [1, 1, 2, 3]"));
  CHECK_THAT(complaint({.array = floats}),
             ContainsSubstring("holds 1; want 0 or -inf in a mask of type f32"));
  CHECK_THAT(complaint({.array = floats, .true_is_masked = true}),
             ContainsSubstring("0 permits and -inf forbids"));
  CHECK_THAT(complaint({.lengths = {1, 2}}), ContainsSubstring("2 key lengths; want 1"));
  CHECK_THAT(complaint({.lengths = {4}}), ContainsSubstring("from 0 to n_kv = 3"));
  CHECK_THROWS_AS(numerics::lengths_of(floats), reference::FileError);
  CHECK(numerics::lengths_of(array_of("n", {2}, std::vector<std::int32_t>{3, 1}, Dtype::i32)) ==
        std::vector<std::int64_t>{3, 1});
  JudgeInput whole = input;
  whole.V = array_of("V", {3, 1}, std::vector<std::int32_t>{3, 5, 7}, Dtype::i32);
  CHECK_THROWS_AS(judged(whole, {}), reference::FileError);
}
