// Claims about claims: how they are read, how one run is weighed, and how they are refuted.
#include "numerics/claim.hpp"

#include "numerics/ulp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace fa1::numerics;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using fa1::reference::parse_recipe;
using fa1::reference::to_string;

namespace {

Budget evaluations(std::int64_t count) {
  Budget budget;
  budget.evaluations = count;
  return budget;
}

double value_of(const std::string& expression) {
  const ClaimTerms terms{3.0, 5.0, 7.0, 11.0, 64.0, 13.0, 0.5, 17.0};
  return parse_claim("error <= " + expression).allowed(terms);
}

std::vector<std::string> tried(const Claim& claim, std::string_view key) {
  for (const Axis& axis : claim.axes)
    if (axis.key == key)
      return axis.values;
  return {};
}

/// Errors 3, -1 against a truth of 4, -4 with radius 0.5; sum p|v| 3 and 4; bound 8 and 6.
JudgedRun run_of_two() {
  JudgedRun run;
  run.state = fa1::reference::start_state({1, 1, 1, 1, 2});
  run.truth.O = fa1::reference::Tensor<fa1::reference::Enclosed>(1, 1, 2);
  run.bounds.O = run.bounds.weighted = fa1::reference::Tensor<double>(1, 1, 2);
  run.truth.O(0, 0, 0) = {4.0, 0.0, 0.5};
  run.truth.O(0, 0, 1) = {-4.0, 0.0, 0.5};
  run.state.O(0, 0, 0) = 7.0f;
  run.state.O(0, 0, 1) = -5.0f;
  run.bounds.weighted(0, 0, 0) = 3.0;
  run.bounds.weighted(0, 0, 1) = 4.0;
  run.bounds.O(0, 0, 0) = 8.0;
  run.bounds.O(0, 0, 1) = 6.0;
  return run;
}

ClaimCase weighed(const std::string& claim, const JudgedRun& run) {
  return weigh(parse_claim(claim), run, parse_recipe("n_kv=1 d=1 dv=2"),
               fa1::kernels::find_kernel("fa1", {1, 1, 1, 1, 2}));
}

} // namespace

TEST_CASE("an expression has the usual precedence and knows its names", "[numerics][quick]") {
  CHECK(value_of("2+3*4^2/8-1") == 7.0);
  CHECK(value_of("-2^2") == -4.0);
  CHECK(value_of("2^-1") == 0.5);
  CHECK(value_of("2^3^2") == 512.0);
  CHECK(value_of("2*(3+4)") == 14.0);
  CHECK(value_of("8/4/2") == 1.0);
  CHECK(value_of("8-4-2") == 2.0);
  CHECK(value_of("1.5e1") == 15.0);
  CHECK(value_of("sqrt(n_kv) + log2(n_kv)") == 14.0);
  CHECK(value_of("u") == kU);
  CHECK(value_of("sum_p_v") == 3.0);
  CHECK(value_of("bound") == 5.0);
  CHECK(value_of("o") == 7.0);
  CHECK(value_of("n_q") == 11.0);
  CHECK(value_of("d") == 13.0);
  CHECK(value_of("sigma") == 0.5);
  CHECK(value_of("Bc") == 17.0);
}

TEST_CASE("a claim that does not parse is shown at the place where it goes wrong",
          "[numerics][quick]") {
  struct Example {
    const char *claim, *says;
  };
  const auto example = GENERATE(values<Example>({
      {"", "column 1, '<here>': want error, rms or bias"},
      {"errors <= u", "column 1, '<here>errors <= u'"},
      {"error < u", "column 7, 'error <here>< u': want <="},
      {"error <= ", "column 10, 'error <= <here>': want a number"},
      {"error <= 3**u", "column 12, 'error <= 3*<here>*u'"},
      {"error <= 3*w", "column 12, 'error <= 3*<here>w'"},
      {"error <= (3*u", "'error <= (3*u<here>': want ')'"},
      {"error <= sqrt u", "'error <= sqrt <here>u': want '('"},
      {"error <= inf", "'error <= <here>inf'"},
      {"error <= u n_kv<=3", "'error <= u <here>n_kv<=3': want an operator, 'for'"},
      {"error <= u for", "'error <= u for<here>': want a condition"},
      {"error <= u for rows=3", "'error <= u for <here>rows=3': want a condition on one of n_kv"},
      {"error <= u for n_kv", "'error <= u for n_kv<here>': want <=, >=, = or in a..b"},
      {"error <= u for n_kv<=3.5", "n_kv<=<here>3.5': want a whole number from 1 to"},
      {"error <= u for n_kv<=0", "n_kv<=<here>0'"},
      {"error <= u for d<=257", "d<=<here>257': want a whole number from 1 to 256"},
      {"error <= u for sigma in 1,2", "sigma in 1<here>,2': want '..'"},
      {"error <= u for sigma>=4 sigma<=2", "want a range of sigma that is not empty"},
      {"error <= u for dist=norm", "dist=<here>norm': want a value that a recipe takes"},
      {"error <= u for dist<=normal", "dist<here><=normal': want ="},
      {"error <= u for v=normal v=ints", "want v once"},
      {"error <= u for kernel=fa", "kernel=<here>fa': want a kernel"},
  }));

  CHECK_THROWS_MATCHES(parse_claim(example.claim), ClaimError,
                       MessageMatches(ContainsSubstring(example.says)));
}

TEST_CASE("conditions say which values are tried, both ends among them", "[numerics][quick]") {
  const Claim claim =
      parse_claim("rms<=u for n_kv in 5..20 and d=6 sigma<=2 gap>=3 v=ints,positive "
                  "kernel=fa1.Br4xBc2,fa2.Br3xBc5xD4.cpu");

  CHECK(claim.quantity == Quantity::rms);
  CHECK(tried(claim, "n_kv") == std::vector<std::string>{"5", "6", "8", "12", "16", "20"});
  CHECK(tried(claim, "d") == std::vector<std::string>{"6"});
  CHECK(tried(claim, "n_q") == std::vector<std::string>{"1", "2", "3", "4", "6", "8"});
  CHECK(tried(claim, "sigma").size() == 17);
  CHECK(tried(claim, "sigma").back() == "2");
  CHECK(tried(claim, "gap").front() == "3");
  CHECK(tried(claim, "v") == std::vector<std::string>{"ints", "positive"});
  CHECK(tried(claim, "dv").empty());
  CHECK(tried(claim, "kernel") ==
        std::vector<std::string>{"fa1.Br4xBc2.cpu", "fa1.Br4xBc2.cpu-fma", "fa2.Br3xBc5xD4.cpu"});
  CHECK(claim.instances.at("fa2.Br3xBc5xD4.cpu").size() == 1);
  CHECK(
      std::ranges::is_sorted(claim.instances.at("fa1.Br4xBc2.cpu"), {}, &fa1::kernels::Kernel::D));
}

TEST_CASE("error is weighed element by element, rms and bias over all, each less the radius",
          "[numerics][quick]") {
  const JudgedRun run = run_of_two();

  const ClaimCase error = weighed("error <= sum_p_v", run);
  const ClaimCase rms = weighed("rms <= bound", run);
  const ClaimCase bias = weighed("bias <= o", run);

  CHECK(error.quantity == 2.5);
  CHECK(error.allowed == 3.0);
  CHECK(rms.quantity == std::sqrt(5.0) - 0.5); // sqrt((9 + 1) / 2)
  CHECK(rms.allowed == std::sqrt(50.0));       // sqrt((64 + 36) / 2)
  CHECK(bias.quantity == 0.5);                 // |3 - 1| / 2 - 1/2
  CHECK(bias.allowed == 4.0);
  CHECK(weighed("error <= o/2", run).ratio == 1.25);
  CHECK(weighed("error <= 0", run).ratio == std::numeric_limits<double>::infinity());
}

TEST_CASE("a NaN in the output refutes any claim, and an expression that is none is an error",
          "[numerics][quick]") {
  JudgedRun run = run_of_two();
  CHECK_THROWS_MATCHES(weighed("error <= log2(0-o)", run), ClaimError,
                       MessageMatches(ContainsSubstring("no number for 'n_q=1 n_kv=1 dv=2'")));

  run.state.O(0, 0, 1) = std::numeric_limits<float>::quiet_NaN();

  for (const char* quantity : {"error", "rms", "bias"})
    CHECK(weighed(quantity + std::string(" <= 1e300"), run).ratio ==
          std::numeric_limits<double>::infinity());
}

TEST_CASE("a false claim is refuted by a small problem that refutes it again, for any number of "
          "threads",
          "[numerics][quick]") {
  const Claim claim = parse_claim("error <= 0.25*u*sum_p_v for n_kv<=64 d<=4 kernel=fa1.Br4xBc2");

  const ClaimAnswer one = test_claim(claim, 1, evaluations(400), 1);
  const ClaimAnswer three = test_claim(claim, 1, evaluations(400), 3);

  REQUIRE(one.refuted);
  CHECK(one.closest.ratio > 1.0);
  CHECK(one.evaluations < 400);
  CHECK(one.recipe.n_kv <= 3);
  CHECK(one.recipe.n_q == 1);
  CHECK(to_string(one.recipe) == to_string(three.recipe));
  CHECK(one.kernel == three.kernel);
  const JudgedRun again =
      judged_run(make_problem(parse_recipe(to_string(one.recipe))), *one.kernel);
  CHECK(weigh(claim, again, one.recipe, *one.kernel).ratio == one.closest.ratio);
}

TEST_CASE("what is proved is not refuted, and the closest problem is told", "[numerics][quick]") {
  const Claim claim = parse_claim("error <= bound for n_kv<=32 d<=4 kernel=fa1.Br4xBc2");

  const ClaimAnswer answer = test_claim(claim, 1, evaluations(300), 2);

  CHECK_FALSE(answer.refuted);
  CHECK(answer.evaluations == 300);
  CHECK(answer.counted > 200);
  CHECK(answer.closest.ratio > 0.0);
  CHECK(answer.closest.ratio <= 1.0);
  REQUIRE(answer.kernel != nullptr);
}

TEST_CASE("the bound is refuted for a wrong kernel", "[numerics][quick]") {
  const Claim claim = parse_claim("error <= bound for n_kv<=32 d<=4 kernel=mutant.no_alpha_on_O");

  const ClaimAnswer answer = test_claim(claim, 1, evaluations(300), 2);

  CHECK(answer.refuted);
}
