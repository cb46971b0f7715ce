// Claims about what the truth costs: everything that is compared is timed and judged, the loops it is
// compared with are what they are called, and the accuracies shown are real. No claim about a time.
#include "reports/costs.hpp"

#include "reference/attention.hpp"
#include "reference/certified_simd.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"
#include "reports/plain_loops.hpp"
#include "reports/vector_peak.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace fa1;
using namespace fa1::reports;

namespace {

CostSettings small(const std::string& filter = "") {
  CostSettings settings;
  settings.keys = 100;
  settings.d = 8;
  settings.min_seconds = 1e-4;
  settings.repetitions = 2;
  settings.filter = filter;
  return settings;
}

const Json& all_costs() {
  static const Json costs = measure_costs(small());
  return costs;
}

const Json& subject(const std::string& id) {
  const Json& subjects = all_costs()["subjects"];
  const auto found =
      std::ranges::find_if(subjects, [&](const Json& one) { return one["subject"] == id; });
  REQUIRE(found != subjects.end());
  return *found;
}

double error_of(const std::string& id) { return number_of(subject(id)["error"]); }

std::vector<std::string> names(const Json& costs) {
  std::vector<std::string> all;
  for (const Json& one : costs["subjects"])
    all.push_back(one["subject"]);
  return all;
}

reference::Problem problem() {
  return reference::make_problem(reference::parse_recipe("bh=2 n_q=3 n_kv=70 d=5 dv=7"));
}

} // namespace

TEST_CASE("every subject is timed, and judged where it answers", "[reports][quick]") {
  for (const char* id : {"certify", "double", "double-opt", "float128", "mpfr-50", "cpp-bin-50",
                         "mpfi-40", "arb-113", "arb-128", "kernel", "mirror"}) {
    CAPTURE(id);
    const Json& one = subject(id);
    CHECK(number_of(one["ns"]) > 0.0);
    CHECK(number_of(one["median_ns"]) >= number_of(one["ns"]));
    CHECK(number_of(one["ratio"]) > 0.0);
    CHECK(number_of(one["error"]) > 0.0);
    CHECK(one["rows"].get<int>() >= 2);
    CHECK(one["unit"] == "multiply-add");
  }
  for (const char* id : {"case", "vector-operation"})
    CHECK(number_of(subject(id)["ns"]) > 0.0);
}

TEST_CASE("what encloses shows a radius, and its error is inside", "[reports][quick]") {
  for (const Json& one : all_costs()["subjects"]) {
    CAPTURE(one.dump());
    const std::string id = one["subject"];
    const bool encloses =
        id.starts_with("certify") || id.starts_with("mpfi") || id.starts_with("arb");
    CHECK(one["radius"].is_null() == !encloses);
    if (encloses)
      CHECK(number_of(one["error"]) <= number_of(one["radius"]));
  }
  CHECK(beyond_radius(all_costs()).empty());
}

TEST_CASE("the more bits a reference has, the less it errs", "[reports][quick]") {
  CHECK(error_of("mpfr-50") < error_of("float128"));
  CHECK(error_of("cpp-bin-50") < error_of("float128"));
  CHECK(error_of("arb-128") < error_of("arb-113"));
  CHECK(error_of("float128") < error_of("double"));
  CHECK(error_of("certify") < error_of("double"));
  CHECK(error_of("double") < error_of("kernel"));
}

TEST_CASE("the same sums give the same error, whatever they are compiled for", "[reports][quick]") {
  CHECK(error_of("double-opt") == error_of("double"));
  CHECK(error_of("mirror") == error_of("kernel"));
  for (const std::string& id : names(all_costs()))
    if (id.starts_with("certify"))
      CHECK(subject(id)["radius"] == subject("certify")["radius"]);
}

TEST_CASE("a goal stands where what it needs was timed", "[reports][quick]") {
  const Json some = measure_costs(small("^(kernel|mirror|arb-113)$"));
  const Json& goals = all_costs()["goals"];

  CHECK(goals.size() >= 5); // two more need a second core and fused multiply-adds
  for (const Json& goal : goals)
    CHECK(goal["reached"].get<bool>() == (number_of(goal["factor"]) >= 1.0));
  REQUIRE(some["goals"].size() == 1);
  CHECK(some["goals"][0]["goal"] == "kernel");
  CHECK(number_of(some["goals"][0]["measured"]) ==
        number_of(some["subjects"][1]["ns"]) / number_of(some["subjects"][2]["ns"]));
}

TEST_CASE("a filter keeps what it matches, and with a minus what it does not", "[reports][quick]") {
  using Names = std::vector<std::string>;

  CHECK(names(measure_costs(small("^double$|mirror"))) == Names{"double", "mirror"});
  CHECK(names(measure_costs(small("-[^r]$"))) == Names{"mirror"});
}

TEST_CASE("the plain loops are the reference and the mirror, bit for bit", "[reports][quick]") {
  const reference::Problem p = problem();
  const reference::Answer<double> exact = reference::attention<double>(p);
  const reference::State mirror = reference::tiled_mirror(p, 32);

  for (const PlainLoops& loops : {project_loops(), kernel_loops()}) {
    CAPTURE(loops.flags);
    CHECK(loops.attention(p).O == exact.O);
    if (loops.attention_avx2 != nullptr)
      CHECK(loops.attention_avx2(p).O == exact.O);
    CHECK(loops.mirror(p, 32).O == mirror.O);
  }
}

TEST_CASE("the floor is that of the unit certify runs on and of the count in CERTIFIED.md",
          "[reports][quick]") {
  const VectorPeak peak = vector_peak();

  CHECK(peak.unit == reference::simd::best_unit().name);
  CHECK(std::isfinite(peak.run(1000, 1.5, 0x1p-30)));
  CHECK(certify_operations(64, 64) == 153.0 * 8.0);
}
