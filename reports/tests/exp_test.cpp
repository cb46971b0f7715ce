// Claims about `fa1lab exp`: what it prints and records, and that more error than the table of errors states is found.
#include "kernels/exponentials.hpp"
#include "kernels/launch.hpp"
#include "reports/exponential_records.hpp"
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

using namespace fa1;
using reports::tests::Answer;
using reports::tests::fa1lab;
using reports::tests::lines;
using reports::tests::Scratch;
using reports::tests::text_of;

TEST_CASE("a sweep of the host's expf says its error and that it is what is stated",
          "[reports][quick]") {
  const Answer answer = fa1lab("exp --function expf --from -2 --to -1 --every 97");

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, StartsWith("function  expf of " + kernels::host_libm() +
                                    ": e^x\n"
                                    "asked     86481 arguments from -0x1p+1 to -0x1p+0, every 97"));
  CHECK_THAT(answer.out, ContainsSubstring("\nfalls     none: monotonic\n"));
  CHECK_THAT(answer.out, ContainsSubstring("signaling_nan: nan:0x"));
  CHECK_THAT(answer.out, ContainsSubstring(": held\n"));
}

TEST_CASE("records of exponentials are the same on any number of threads, and in a file",
          "[reports][quick]") {
  const Scratch scratch;
  const std::string file = (scratch / "exp.jsonl").string();
  const std::string words = "exp --every 65521 --json --threads ";

  const Answer one = fa1lab(words + "1 --out " + file), three = fa1lab(words + "3");

  CAPTURE(one.out, three.out);
  CHECK(one.status == 0);
  CHECK(text_of(file) == one.out);
  REQUIRE(lines(one.out) == 2); // expf and exp2f
  REQUIRE(lines(three.out) == 2);
  std::size_t from = 0, from_three = 0;
  for (int line = 0; line < 2; ++line) {
    const auto take = [](const std::string& text, std::size_t& at) {
      const std::size_t end = text.find('\n', at);
      auto record = nlohmann::json::parse(text.substr(at, end - at));
      at = end + 1;
      CHECK(record.erase("seconds") == 1);
      return record;
    };
    const auto record = take(one.out, from);
    CHECK(record == take(three.out, from_three));
    CHECK(record["arguments"] == 65552);
    CHECK(record["answers"]["-inf"] == "0x0p+0");
    CHECK(record["stated"]["held"] == true);
  }
}

TEST_CASE("more error than the table of errors states is no longer held", "[reports][quick]") {
  const numerics::ArgumentRange around{numerics::index_of(-1.0f) - 1000,
                                       numerics::index_of(-1.0f) + 1000, 1};
  const auto run_of = [&](const numerics::Exponential& exponential) {
    return reports::ExponentialRun{&exponential, "cpu", around, exponential.sweep(around, 1, {}),
                                   0.0};
  };
  const auto right = numerics::exponential_of("expf", kernels::host_libm(), numerics::Base::e,
                                              [](float x) { return std::exp(x); });
  // off by two ulp at one argument
  const auto wrong =
      numerics::exponential_of("expf", kernels::host_libm(), numerics::Base::e, [](float x) {
        return std::exp(x) + (x == -1.0f ? 0x1p-24f : 0.0f);
      });
  const auto nan =
      numerics::exponential_of("expf", kernels::host_libm(), numerics::Base::e,
                               [](float x) { return x == -1.0f ? std::nanf("") : std::exp(x); });

  CHECK(reports::row_holds(run_of(right)));
  CHECK_FALSE(reports::row_holds(run_of(wrong)));
  CHECK_FALSE(reports::row_holds(run_of(nan)));
}

TEST_CASE("exponentials of a GPU that is not there are status 3", "[reports][quick]") {
  if (kernels::cuda_obstacle().empty())
    SKIP("there is a device");

  const Answer answer = fa1lab("exp --on gpu");

  CAPTURE(answer.out);
  CHECK(answer.status == 3);
  CHECK_THAT(answer.out,
             StartsWith("fa1lab: exp: --on gpu needs CUDA: " + kernels::cuda_obstacle()));
  CHECK(lines(answer.out) == 1);
}
