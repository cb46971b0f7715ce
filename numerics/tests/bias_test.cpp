// Claims about the bias meter: its interval, and which kernels it calls biased.
#include "numerics/bias.hpp"

#include "kernels/kernel.hpp"
#include "numerics/emulation.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fa1;
using numerics::BiasRow;
using numerics::BiasSubject;

namespace {

constexpr const char* kRecipe = "n_q=16 n_kv=128 d=4";
constexpr std::int64_t kSeeds = 12;

BiasSubject kernel_subject(const std::string& id) {
  const kernels::Kernel& kernel =
      kernels::find_kernel(id, reference::shape_of(reference::parse_recipe(kRecipe)));
  return {id, [&kernel](const reference::Problem& problem) { return run(kernel, problem); },
          kernel.gives_l_and_m};
}

const BiasRow& row(const std::vector<BiasRow>& rows, const std::string& subject,
                   const std::string& quantity, const std::string& V) {
  const auto found = std::ranges::find_if(rows, [&](const BiasRow& r) {
    return r.subject == subject && r.quantity == quantity && r.V == V;
  });
  REQUIRE(found != rows.end());
  return *found;
}

} // namespace

TEST_CASE("the interval is Student's", "[numerics][quick]") {
  // t(0.975) of 1, 4 and 30 degrees of freedom, from the tables of any textbook: 12.706, 2.776, 2.042.
  struct Example {
    std::int64_t n;
    double t;
  };
  const auto example = GENERATE(values<Example>({{2, 12.706}, {5, 2.776}, {31, 2.042}}));

  const auto interval =
      numerics::student_interval(7.0, std::sqrt(static_cast<double>(example.n)), example.n, 0.05);

  CHECK(std::fabs(interval.high - 7.0 - example.t) <= 0.0005); // the table's last digit
  CHECK(std::fabs((interval.low + interval.high) / 2.0 - 7.0) <=
        8.0 * std::numeric_limits<double>::epsilon() * interval.high);
}

TEST_CASE("an exponential and a sum that lean to one side are called biased, FA1 is not",
          "[numerics][quick]") {
  const std::vector<BiasSubject> subjects{kernel_subject("fa1.Br4xBc2"),
                                          kernel_subject("mutant.biased_exp.Br4xBc2"),
                                          kernel_subject("mutant.truncated_sum.Br4xBc2")};

  const auto rows = numerics::measure_bias(subjects, kRecipe, 1, kSeeds);

  REQUIRE(rows.size() == 3 * 6);
  for (const BiasRow& r : rows) {
    CAPTURE(r.subject, r.quantity, r.V, r.mean, r.in_family.low, r.in_family.high);
    REQUIRE(r.seeds == kSeeds);
    if (r.subject == "fa1.Br4xBc2")
      CHECK_FALSE(r.biased());
    if (r.subject == "fa1.Br4xBc2" && r.V == "1") // law value-constant: exact, so 0 and not 1e-26
      CHECK((r.mean == 0.0 && r.deviation == 0.0));
  }
  // Weights below 1 are 8 u too large; l, a sum of them and of one weight of 1, by 8 u (1 - 1 / l).
  const BiasRow& l = row(rows, "mutant.biased_exp.Br4xBc2", "l", "");
  CHECK(l.biased());
  CHECK(l.confidence.low > 0.0);
  CHECK(l.mean < 8.0 + l.confidence.high - l.mean);
  // l rounded down makes l smaller, and O larger in size.
  CHECK(row(rows, "mutant.truncated_sum.Br4xBc2", "l", "").in_family.high < 0.0);
  CHECK(row(rows, "mutant.truncated_sum.Br4xBc2", "O", "one sign").in_family.low > 0.0);
  CHECK(row(rows, "mutant.truncated_sum.Br4xBc2", "O", "0.1").in_family.low > 0.0);
  CHECK(row(rows, "mutant.truncated_sum.Br4xBc2", "|O|", "mean zero").in_family.low > 0.0);
}

TEST_CASE("sums in bfloat16 lose what lies below their last digit, and are called biased",
          "[numerics][quick]") {
  const auto configuration = numerics::parse_configuration("accumulator=bf16");
  const std::vector<BiasSubject> subjects{{"emulated", [&](const reference::Problem& problem) {
                                             return numerics::emulate(problem, configuration, 128);
                                           }}};

  const auto rows = numerics::measure_bias(subjects, kRecipe, 1, kSeeds);

  CHECK(row(rows, "emulated", "l", "").in_family.high < 0.0);
}

TEST_CASE("a kernel that turns its sign with V has a bias that only |O| sees",
          "[numerics][quick]") {
  const std::vector<BiasSubject> subjects{
      {"outwards", [](const reference::Problem& problem) {
         reference::State state = run(kernels::find_kernel("fa1.Br4xBc2", problem.shape), problem);
         for (float& o : state.O.elements())
           o *= 1.0f + 0x1p-12f;
         return state;
       }}};

  const auto rows = numerics::measure_bias(subjects, kRecipe, 1, kSeeds);

  CHECK(row(rows, "outwards", "|O|", "mean zero").in_family.low > 0.0);
  CHECK_FALSE(row(rows, "outwards", "O", "mean zero").biased());
  CHECK(row(rows, "outwards", "O", "one sign").in_family.low > 0.0);
}

TEST_CASE("the bias does not depend on threads", "[numerics][quick]") {
  const std::vector<BiasSubject> subjects{kernel_subject("fa1.Br4xBc2")};

  const auto one = numerics::measure_bias(subjects, "n_q=4 n_kv=32 d=4", 1, 3, 1);
  const auto three = numerics::measure_bias(subjects, "n_q=4 n_kv=32 d=4", 1, 3, 3);

  REQUIRE(one.size() == three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].mean == three[i].mean);
    CHECK(one[i].confidence.low == three[i].confidence.low);
  }
}
