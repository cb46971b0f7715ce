// Claims about the error of configurations: the split into inputs and arithmetic, the units, and
// the orders that the formats force.
#include "numerics/precision.hpp"

#include "numerics/bounds.hpp"
#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <cmath>

using namespace fa1;
using numerics::measure_precision;
using numerics::parse_configuration;
using numerics::PrecisionRecord;
using reference::Problem;

namespace {

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

PrecisionRecord measure(const std::string& recipe, const std::string& configuration,
                        std::int64_t Bc = 32) {
  const numerics::Configuration chosen = parse_configuration(configuration);
  return measure_precision(problem_of(recipe), std::span(&chosen, 1), Bc).at(0);
}

} // namespace

TEST_CASE("fp32's error is the one that a sweep measures on the kernel", "[numerics][quick]") {
  const Problem problem = problem_of("n_q=8 n_kv=300 d=16 v=positive");
  kernels::Arithmetic arithmetic;
  arithmetic.Bc = 32;
  const auto summary =
      numerics::summarize(reference::tiled_mirror(problem, 32), reference::certify(problem),
                          numerics::online_softmax(problem, arithmetic));

  const PrecisionRecord record = measure("n_q=8 n_kv=300 d=16 v=positive", "fp32");

  // The bound's sum p|v| is evaluated in double, enlarged by kEvaluationSlack at most.
  const double slack = numerics::kEvaluationSlack - 1.0;
  const auto close = [&](double a, double b) { return std::fabs(a - b) <= slack * std::fabs(b); };
  REQUIRE(summary.rms_relative > 0.0);
  CHECK(close(record.total.max, summary.max_relative));
  CHECK(close(record.total.rms, summary.rms_relative));
  CHECK(close(record.total.mean, summary.mean_relative));
  CHECK(record.elements == summary.elements);
}

TEST_CASE("inputs that a format holds cost nothing, and the arithmetic is then the whole error",
          "[numerics][quick]") {
  const PrecisionRecord record = measure("n_q=8 n_kv=100 d=8 dist=ints v=ints", "fa2-bf16");

  CHECK(record.inputs.max_absolute == 0.0);
  CHECK(record.arithmetic.rms == record.total.rms);
  CHECK(record.arithmetic.max > 0.0);
}

TEST_CASE("rounding the inputs alone leaves fp32's arithmetic and loses the format's digits",
          "[numerics][quick]") {
  const PrecisionRecord record = measure("n_q=8 n_kv=100 d=8", "inputs=bf16");
  const PrecisionRecord fp32 = measure("n_q=8 n_kv=100 d=8", "fp32");

  CHECK(fp32.inputs.max_absolute == 0.0);
  // u of bf16 is 2^16 u: the inputs' error has to lie between, far from fp32's.
  CHECK(record.inputs.rms > std::sqrt(0x1p16) * fp32.arithmetic.rms);
  CHECK(record.arithmetic.rms < std::sqrt(0x1p16) * fp32.arithmetic.rms);
  // The triangle inequality in the root mean square, with one rounding of double.
  CHECK(record.total.rms <=
        (record.inputs.rms + record.arithmetic.rms) * numerics::kEvaluationSlack);
}

TEST_CASE("an output rounded once is off by half an ulp of its format and no more",
          "[numerics][quick]") {
  const std::string format = GENERATE("bf16", "fp16", "tf32");
  CAPTURE(format);
  const numerics::Format& rounded = *numerics::find_format(format);

  // One key: O = V exactly, before it is rounded; |error| <= u |v|, and sum p|v| = |v|.
  const PrecisionRecord record = measure("n_q=1 n_kv=1 d=64 v=positive", "output=" + format);

  CHECK(record.total.max <= rounded.u() / numerics::kU);
  CHECK(record.total.max > rounded.u() / numerics::kU / 2.0);
  CHECK(record.inputs.max == 0.0);
}

TEST_CASE("coarser formats make larger errors, stage by stage", "[numerics][quick]") {
  const std::string recipe = "n_q=16 n_kv=400 d=16";
  for (std::size_t i = 0; i < numerics::kStages; ++i) {
    const std::string stage(numerics::name_of(static_cast<numerics::Stage>(i)));
    CAPTURE(stage);
    const double tf32 = measure(recipe, stage + "=tf32").total.rms;
    const double bf16 = measure(recipe, stage + "=bf16").total.rms;
    const double e5m2 = measure(recipe, stage + "=e5m2").total.rms;

    CHECK(measure(recipe, "fp32").total.rms < tf32);
    CHECK(tf32 < bf16);
    CHECK(bf16 < e5m2);
  }
}

TEST_CASE("what overflows fp16 is counted and not hidden", "[numerics][quick]") {
  const PrecisionRecord record = measure("scores=70000,0,1 V=1,2,3", "scores=fp16");

  CHECK(record.not_finite == 1);
  CHECK(std::isnan(record.total.max));
  CHECK(std::isnan(record.total.rms));
}

TEST_CASE("records do not depend on threads, nor on what else is measured", "[numerics][quick]") {
  const Problem problem = problem_of("n_q=4 n_kv=130 d=24 dist=outliers");
  const auto all = numerics::all_configurations();
  std::atomic<std::size_t> calls{0};

  const auto together = measure_precision(problem, all, 32, 2, [&] { ++calls; });

  REQUIRE(together.size() == all.size());
  CHECK(calls == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].id);
    const auto alone = measure_precision(problem, all.subspan(i, 1), 32).at(0);
    CHECK(together[i].configuration.id == all[i].id);
    CHECK(together[i].total.rms == alone.total.rms);
    CHECK(together[i].arithmetic.max == alone.arithmetic.max);
    CHECK(together[i].inputs.mean == alone.inputs.mean);
  }
}

TEST_CASE("no queries and no keys are measured and make no error", "[numerics][quick]") {
  const std::string recipe = GENERATE("n_q=0 n_kv=2 d=3", "n_q=2 n_kv=0 d=3");
  CAPTURE(recipe);

  for (const numerics::Configuration& configuration : numerics::all_configurations()) {
    CAPTURE(configuration.id);
    CHECK(measure(recipe, configuration.id).total.max == 0.0);
  }
}
