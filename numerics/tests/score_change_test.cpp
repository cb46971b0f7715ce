// Claims about scores that a soft cap and a bias change: the truth against a loop with 50 digits, right and wrong outputs
// of fp32 kernels, and the public catalogue's cases, each with its right value.
#include "numerics/score_change.hpp"

#include "numerics/judge.hpp"
#include "numerics/tests/arrays_in_memory.hpp"
#include "reference/recipe.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace fa1;
using numerics::JudgeInput;
using numerics::Judgement;
using numerics::JudgeRecord;
using numerics::MaskOptions;
using numerics::ScoreChange;
using reference::Dtype;
using reference::Problem;
using tests::array_of;
using tests::f32;
using tests::says;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using Wide = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<60>,
                                           boost::multiprecision::et_off>;

/// What a kernel may do in another order.
enum class Order : std::uint8_t { cap_then_bias, bias_then_cap, bias_scaled };

template <class Number>
std::vector<Number> attention(const Problem& problem, const ScoreChange& change, std::int64_t row,
                              Order order = Order::cap_then_bias) {
  using std::exp;
  using std::tanh;
  std::vector<Number> o(static_cast<std::size_t>(problem.shape.dv));
  Number l = 0;
  for (std::int64_t j = 0; j < problem.shape.n_kv; ++j) {
    Number s = 0;
    for (std::int64_t i = 0; i < problem.shape.d; ++i)
      s += Number(problem.Q(0, row, i)) * Number(problem.K(0, j, i));
    s *= Number(problem.scale);
    const Number b = change.bias.size() > 0 ? Number(change.bias(0, row, j)) : Number(0);
    const auto capped = [&](const Number& x) {
      const auto C = Number(change.softcap);
      return change.softcap > 0.0 ? Number(C * tanh(Number(x / C))) : x;
    };
    if (order == Order::cap_then_bias)
      s = capped(s) + b;
    else if (order == Order::bias_then_cap)
      s = capped(s + b);
    else
      s = capped(s) + Number(problem.scale) * b;
    const Number p = exp(s);
    l += p;
    for (std::size_t c = 0; c < o.size(); ++c)
      o[c] += p * Number(problem.V(0, j, static_cast<std::int64_t>(c)));
  }
  for (Number& x : o)
    x /= l;
  return o;
}

Problem small() {
  return reference::make_problem(
      reference::parse_recipe("n_q=4 n_kv=9 d=5 dv=3 scale=auto sigma=3 seed=5"));
}

reference::Tensor<double> some_bias(const Problem& problem) {
  reference::Tensor<double> bias(1, problem.shape.n_q, problem.shape.n_kv);
  for (std::int64_t r = 0; r < problem.shape.n_q; ++r)
    for (std::int64_t j = 0; j < problem.shape.n_kv; ++j)
      bias(0, r, j) = double{static_cast<float>(0.7 * std::sin(static_cast<double>(3 * r + j)))};
  return bias;
}

JudgeInput input_of(const Problem& problem, const ScoreChange& change, Order order) {
  reference::Tensor<float> O(1, problem.shape.n_q, problem.shape.dv);
  for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
    const auto o = attention<float>(problem, change, r, order);
    std::ranges::copy(o, O.row(0, r).begin());
  }
  return {f32("Q", problem.Q), f32("K", problem.K), f32("V", problem.V), {f32("O", O)}, {}};
}

MaskOptions options_of(const ScoreChange& change) {
  MaskOptions options{.softcap = change.softcap};
  if (change.bias.size() > 0)
    options.bias =
        array_of("bias", {change.bias.rows(), change.bias.columns()},
                 std::vector<double>(change.bias.elements().begin(), change.bias.elements().end()),
                 Dtype::f64);
  return options;
}

JudgeRecord record_of(const Problem& problem, const ScoreChange& of_output,
                      const ScoreChange& asked, Order order = Order::cap_then_bias) {
  return numerics::judge_files(input_of(problem, of_output, order),
                               {.scale = problem.scale, .mask = options_of(asked)});
}

Judgement judged(const JudgeInput& input, float scale, const MaskOptions& mask) {
  return numerics::judge_files(input, {.scale = scale, .mask = mask}).outputs.at(0).judgement;
}

} // namespace

TEST_CASE("The truth of changed scores holds the value of a loop with 60 digits, and is narrow",
          "[numerics][quick]") {
  const Problem problem = small();
  const bool capped = GENERATE(true, false), biased = GENERATE(true, false);
  ScoreChange change;
  change.softcap = capped ? 2.5 : 0.0;
  if (biased)
    change.bias = some_bias(problem);
  CAPTURE(capped, biased);

  const reference::Truth truth = certify(problem, change, numerics::EmptyRow::zero);

  for (std::int64_t r = 0; r < problem.shape.n_q; ++r) {
    const auto o = attention<Wide>(problem, change, r);
    for (std::int64_t c = 0; c < problem.shape.dv; ++c) {
      const reference::Enclosed& e = truth.O(0, r, c);
      const Wide off = abs(Wide(Wide(e.hi) + Wide(e.lo) - o[static_cast<std::size_t>(c)]));
      CHECK(off <= Wide(e.radius));
      CHECK(e.radius < 0x1p-75);
    }
  }
}

TEST_CASE(
    "A plain fp32 loop is proved right under the change that was asked, and wrong under others",
    "[numerics][quick]") {
  const Problem problem = small();
  const ScoreChange none{}, cap{.softcap = 2.5}, bias{.bias = some_bias(problem)},
      both{.softcap = 2.5, .bias = some_bias(problem)};
  const std::vector<const ScoreChange*> changes{&none, &cap, &bias, &both};

  for (const ScoreChange* of_output : changes)
    for (const ScoreChange* asked : changes) {
      const JudgeRecord record = record_of(problem, *of_output, *asked);
      CAPTURE(of_output->softcap, of_output->bias.size(), asked->softcap, asked->bias.size(),
              record.outputs[0].errors.max_fraction);
      CHECK(record.outputs[0].judgement ==
            (of_output == asked ? Judgement::proved_right : Judgement::proved_wrong));
    }
}

TEST_CASE("What kernels make of a bias and a soft cap is named", "[numerics][quick]") {
  const Problem problem = small();
  const ScoreChange none{}, cap{.softcap = 2.5}, bias{.bias = some_bias(problem)},
      both{.softcap = 2.5, .bias = some_bias(problem)};
  struct Fault {
    ScoreChange of_output, asked;
    Order order;
    std::string says;
  };
  const std::vector<Fault> faults{
      {none, bias, Order::cap_then_bias, "the bias is ignored"},
      {none, cap, Order::cap_then_bias, "the soft cap is ignored"},
      {bias, both, Order::cap_then_bias, "the soft cap is ignored"},
      {cap, both, Order::cap_then_bias, "the bias is ignored"},
      {bias, bias, Order::bias_scaled, "the bias is scaled with the scores"},
      {both, both, Order::bias_then_cap, "the bias is added before the soft cap"}};

  for (const Fault& fault : faults) {
    const JudgeRecord record = record_of(problem, fault.of_output, fault.asked, fault.order);
    CAPTURE(fault.says, record.outputs[0].looks_like);
    CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
    CHECK(says(record.outputs[0].looks_like, fault.says));
    CHECK(record.outputs[0].looks_like.size() == 1);
  }
}

TEST_CASE("H19: a bias is not scaled: 3, and 2.5358984 is scale (q.k + b)", "[numerics][quick]") {
  JudgeInput input{f32("Q", {1, 4}, {0, 0, 0, 0}),
                   f32("K", {2, 4}, std::vector<float>(8)),
                   f32("V", {2, 1}, {0, 4}),
                   {f32("O", {1, 1}, {3})},
                   {}};
  const MaskOptions mask{.bias = f32("bias", {1, 2}, {0, static_cast<float>(std::log(3.0))})};

  CHECK(judged(input, 0.5f, mask) == Judgement::proved_right);
  input.O = {f32("O", {1, 1}, {2.5358984f})};
  const JudgeRecord record = numerics::judge_files(input, {.scale = 0.5f, .mask = mask});
  CHECK(record.outputs[0].judgement == Judgement::proved_wrong);
  CHECK(says(record.outputs[0].looks_like, "the bias is scaled with the scores"));
}

TEST_CASE("H28: a soft cap of 2 on scores 400 and 0 gives 3.2384058, and NaN is wrong",
          "[numerics][quick]") {
  const float sign = GENERATE(1.0f, -1.0f);
  JudgeInput input{f32("Q", {1, 1}, {sign * 20}),
                   f32("K", {2, 1}, {sign * 20, 0}),
                   f32("V", {2, 1}, {3, 5}),
                   {f32("O", {1, 1}, {3.2384058f})},
                   {}};
  const MaskOptions mask{.softcap = 2.0};

  CHECK(judged(input, 1.0f, mask) == Judgement::proved_right);
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), 3.0f, 3.2385f}) {
    input.O = {f32("O", {1, 1}, {wrong})};
    CHECK(judged(input, 1.0f, mask) == Judgement::proved_wrong);
  }
}

TEST_CASE("H06: a bias of -inf forbids; -FLT_MAX beside others weighs nothing; -FLT_MAX everywhere "
          "leaves scores without a digit",
          "[numerics][quick]") {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  JudgeInput input{f32("Q", {1, 1}, {1}),
                   f32("K", {3, 1}, {1, 2, 3}),
                   f32("V", {3, 1}, {0, 3, 9}),
                   {f32("O", {1, 1}, {0})},
                   {}};
  const auto bias = [](const std::vector<float>& values) {
    return MaskOptions{.bias = f32("bias", {1, 3}, values)};
  };

  CHECK(judged(input, 1.0f, bias({-kInf, -kInf, -kInf})) == Judgement::proved_right);
  input.O = {f32("O", {1, 1}, {4})};
  CHECK(judged(input, 1.0f, bias({-kInf, -kInf, -kInf})) == Judgement::proved_wrong);
  CHECK(judged(input, 1.0f, bias({kLowest, kLowest, kLowest})) == Judgement::undecided);
  input.O = {f32("O", {1, 1}, {3})};
  CHECK(judged(input, 1.0f, bias({-kInf, 0, -kInf})) == Judgement::proved_right);
  CHECK(judged(input, 1.0f, bias({kLowest, 0, -1e4f})) == Judgement::proved_right);
  input.O = {f32("O", {1, 1}, {3.00001f})};
  CHECK(judged(input, 1.0f, bias({kLowest, 0, -1e4f})) == Judgement::proved_wrong);
}

TEST_CASE("A hardware tanh is right only where it is declared", "[numerics][quick]") {
  // One score of 1 under a cap of 2, tanh too large by 2^-11.5 of it; the other key has score 0.
  const double s = 2 * std::tanh(0.5) * (1 + 0x1p-11 / std::sqrt(2.0));
  JudgeInput input{f32("Q", {1, 1}, {1}),
                   f32("K", {2, 1}, {1, 0}),
                   f32("V", {2, 1}, {0, 1}),
                   {f32("O", {1, 1}, {static_cast<float>(1 / (1 + std::exp(s)))})},
                   {}};

  CHECK(judged(input, 1.0f, {.softcap = 2.0}) == Judgement::proved_wrong);
  CHECK(judged(input, 1.0f, {.softcap = 2.0, .tanh_approx = true}) == Judgement::proved_right);
}

TEST_CASE("A kernel that starts its dot products from the bias is inside the bound",
          "[numerics][quick]") {
  // Each of 64 products is lost beside a bias of 1024, of which it is 0.49 ulp: both scores become 1024.
  const float product = 0.49f * 0x1p-13f;
  std::vector<float> K(128);
  std::fill(K.begin(), K.begin() + 64, product);
  JudgeInput input{f32("Q", {1, 64}, std::vector<float>(64, 1.0f)),
                   f32("K", {2, 64}, K),
                   f32("V", {2, 1}, {0, 1}),
                   {f32("O", {1, 1}, {0.5f})},
                   {}};
  REQUIRE(1024.0f + product == 1024.0f);

  const auto output = numerics::judge_files(
                          input, {.scale = 1.0f, .mask = {.bias = f32("bias", {2}, {1024, 1024})}})
                          .outputs.at(0);

  CHECK(output.judgement != Judgement::proved_wrong);
  CHECK(output.judgement != Judgement::undecided);
  CHECK(output.errors.max_fraction > 0.25);
}

TEST_CASE("A bias that holds NaN, +inf or whole numbers is refused", "[numerics][quick]") {
  using Catch::Matchers::ContainsSubstring;
  const Problem problem = small();
  const JudgeInput input = input_of(problem, {}, Order::cap_then_bias);
  const auto complaint = [&](const reference::Array& bias) -> std::string {
    try {
      judged(input, problem.scale, {.bias = bias});
    } catch (const reference::FileError& error) {
      return error.what();
    }
    return "none";
  };
  std::vector<float> values(9);

  CHECK(complaint(f32("bias", {9}, values)) == "none");
  for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
    values[4] = bad;
    CHECK_THAT(complaint(f32("bias", {9}, values)), ContainsSubstring("want numbers of fp32"));
  }
  CHECK_THAT(complaint(array_of("bias", {9}, std::vector<std::int8_t>(9), Dtype::i8)),
             ContainsSubstring("want a bias of a floating type"));
}
