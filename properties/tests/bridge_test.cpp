// Claims about the bridge to RapidCheck: failures are failures, shrunk, and can be replayed by
// their string.
#include "properties/rapidcheck_bridge.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using fa1::properties::run_property;

namespace {

/// RC_PARAMS for one scope.
class RcParams {
public:
  explicit RcParams(const std::string& value) { setenv("RC_PARAMS", value.c_str(), 1); }
  ~RcParams() { unsetenv("RC_PARAMS"); }
  RcParams(const RcParams&) = delete;
  RcParams& operator=(const RcParams&) = delete;
};

/// Fails from 10 on; remembers the last number that failed and how many were tried.
struct FailsFromTen {
  int* last;
  int* tried;
  void operator()() const {
    const int n = *rc::gen::inRange(0, 1000);
    ++*tried;
    if (n >= 10) {
      *last = n;
      RC_FAIL("too large");
    }
  }
};

} // namespace

TEST_CASE("a property that holds reports every case", "[properties][bridge][quick]") {
  const auto report =
      run_property("holds", {37, 1}, [] { RC_ASSERT(*rc::gen::inRange(0, 10) < 10); });

  CHECK(report.held);
  CHECK(report.cases == 37);
  CHECK(report.reproduce.empty());
}

TEST_CASE("a failing property is shrunk to the smallest counterexample",
          "[properties][bridge][quick]") {
  int last = 0, tried = 0;

  const auto report = run_property("fails", {100, 1}, FailsFromTen{&last, &tried});

  CHECK_FALSE(report.held);
  CHECK(last == 10);
  CHECK_THAT(report.message, ContainsSubstring("too large"));
  CHECK_THAT(report.reproduce, StartsWith("reproduce="));
}

TEST_CASE("the reproduce string leads straight back to the counterexample",
          "[properties][bridge][quick]") {
  int last = 0, tried = 0;
  const auto report = run_property("replayed", {100, 1}, FailsFromTen{&last, &tried});
  last = tried = 0;

  const RcParams params(report.reproduce);
  const auto again = run_property("replayed", {100, 999}, FailsFromTen{&last, &tried});

  CHECK_FALSE(again.held);
  CHECK(last == 10);
  CHECK(tried == 1);
}

TEST_CASE("RC_PARAMS wins over the plan", "[properties][bridge][quick]") {
  int tried = 0;

  const RcParams params("max_success=5");
  run_property("five", {100, 1}, [&] { ++tried; });

  CHECK(tried == 5);
}

TEST_CASE("the same seed draws the same cases and another seed draws others",
          "[properties][bridge][quick]") {
  const auto cases = [](std::uint64_t seed) {
    std::vector<int> drawn;
    run_property("seeded", {20, seed}, [&] { drawn.push_back(*rc::gen::inRange(0, 1'000'000)); });
    return drawn;
  };

  CHECK(cases(3) == cases(3));
  CHECK(cases(3) != cases(4));
}

TEST_CASE("an exception in a property is a failure, never a pass", "[properties][bridge][quick]") {
  const auto report =
      run_property("throws", {10, 1}, [] { throw std::runtime_error("kernel launch refused"); });

  CHECK_FALSE(report.held);
  CHECK_THAT(report.message, ContainsSubstring("kernel launch refused"));
}
