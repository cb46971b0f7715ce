// Claims about the records of other machines that the page on builds and GPUs shows.
#include "reports/command.hpp"
#include "reports/tests/scratch.hpp"
#include "reports/topics/gpu.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using namespace fa1::reports;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

} // namespace

TEST_CASE("records of a machine are told apart by what they are about", "[reports][quick]") {
  const tests::Scratch scratch;
  const fs::path published = scratch / "published";
  write(published / "a" / "machine.json", R"({"device": "a GPU"})");
  write(published / "a" / "builds.jsonl", R"({"what": "build", "build": "cuda"})");
  write(published / "a" / "laws.jsonl",
        "{\"what\": \"laws of a build\", \"law\": \"m-exact\"}\n{\"what\": \"laws of a build\"}\n");
  write(published / "a" / "truth.jsonl", R"({"n_kv": 4096})");
  write(published / "a" / "notes.md", "no record");
  write(published / "no_machine" / "builds.jsonl", "no record either");

  const Json machines = records_of_machines(published);

  REQUIRE(machines.size() == 1);
  CHECK(machines[0]["machine"] == "a");
  CHECK(machines[0]["facts"]["device"] == "a GPU");
  CHECK(machines[0]["builds"].size() == 1);
  CHECK(machines[0]["laws"].size() == 2);
  CHECK(machines[0]["others"]["truth"][0]["n_kv"] == 4096);
}

TEST_CASE("a record that is no JSON object is named with its file and line", "[reports][quick]") {
  const tests::Scratch scratch;
  const fs::path published = scratch / "published";
  write(published / "a" / "machine.json", "{}");
  write(published / "a" / "builds.jsonl", "{\"what\": \"build\"}\n[1, 2]\n");

  CHECK_THROWS_MATCHES(records_of_machines(published), EnvironmentError,
                       MessageMatches(ContainsSubstring("builds.jsonl, line 2")));
}

TEST_CASE("a row of a table has neither objects nor lists", "[reports][quick]") {
  const Json row = flat(Json::parse(
      R"({"function": "expf", "max_ulp": {"error": 1.5, "at": "-0x1p+3"}, "histogram": [1, 2]})"));

  CHECK(row ==
        Json::parse(R"({"function": "expf", "max_ulp.error": 1.5, "max_ulp.at": "-0x1p+3"})"));
}

TEST_CASE("where nothing was published there are no machines", "[reports][quick]") {
  const tests::Scratch scratch;
  CHECK(records_of_machines(scratch / "nowhere").empty());
}
