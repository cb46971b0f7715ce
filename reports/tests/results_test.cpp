// Claims about files of results that somebody else wrote.
#include "reference/tests/damaged.hpp"
#include "reports/command.hpp"
#include "reports/fuzz/readers.hpp"
#include "reports/results.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

using namespace fa1::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE(
    "The fuzzer's results, each cut anywhere and with any byte changed, are read or refused by "
    "one line",
    "[results][quick]") {
  const int seeds =
      fa1::reference::read_damaged_seeds(std::filesystem::path(FA1_FUZZ_CORPUS) / "results",
                                         [](std::span<const std::byte> bytes) { read_all(bytes); });

  CHECK(seeds >= 5);
}

TEST_CASE("Results of odd types and of any depth are refused by their file", "[results][quick]") {
  const std::string deep = R"({"what":"fa1lab report","a":)" + std::string(1000000, '[') +
                           std::string(1000000, ']') + "}";
  for (const std::string& text : {std::string(R"({"what":5})"), std::string("[1]"), deep,
                                  std::string("key,worst,median,cases,how\na,much,0,1,x\n")}) {
    CAPTURE(text.substr(0, 40));
    CHECK_THROWS_MATCHES(things_in(text, "there"), UsageError,
                         MessageMatches(ContainsSubstring("there")));
  }
  const Things things = things_in(R"({"what":"edge-case","id":7,"as_catalogued":"yes"})", "there");
  CHECK(things.at({"edge-case", "7"}).answer == "not as catalogued");
}
