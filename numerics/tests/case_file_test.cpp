// Claims about the files that a search leaves.
#include "numerics/case_file.hpp"
#include "numerics/fuzz/readers.hpp"
#include "reference/tests/damaged.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace fa1::numerics;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace fs = std::filesystem;

namespace {

FoundCase example() {
  FoundCase found;
  found.recipe = fa1::reference::parse_recipe(
      "n_q=2 n_kv=5 d=3 seed=7 sigma=0.1 put=Q:1,2:-0;K:4,0:0x1.fffffep-3;V:0,1:1e-40");
  found.kernel = "fa1.Br4xBc2xD4.cpu";
  found.objective = Objective::bound;
  found.peak = {1.23456789, 0.25, 4.93827156};
  found.found = {{"./fa1lab worst 'n_kv=5'", 1, 1000}, {"again", 2, 30}};
  return found;
}

/// `text` of the example with one piece replaced.
std::string broken(const std::string& piece, const std::string& by) {
  std::string text = to_text(example());
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), by);
}

} // namespace

TEST_CASE("a case file reads as it was written, each changed entry bit for bit",
          "[numerics][quick]") {
  const FoundCase found = example();

  const FoundCase read = case_from_text(to_text(found), "here");

  CHECK(read.recipe == found.recipe);
  CHECK(read.kernel == found.kernel);
  CHECK(read.objective == found.objective);
  CHECK(read.peak.error == 1.23457);
  CHECK(read.peak.fraction == 0.25);
  CHECK(read.found.size() == 2);
  CHECK(read.found[1].evaluations == 30);
  CHECK(to_text(read) == to_text(found));
  CHECK(case_file_name(read) == "fa1.Br4xBc2xD4.cpu.N5.d3.bound.json");
}

TEST_CASE("what is no case file is refused by its name and what is wrong", "[numerics][quick]") {
  struct Example {
    const char *piece, *by, *says;
  };
  const auto example = GENERATE(values<Example>({
      {"{", "", "parse error"},
      {"worst case", "error", "worst case"},
      {"\"kernel\"", "\"kernels\"", "kernel"},
      {"\"objective\": \"bound\"", "\"objective\": \"speed\"", "want error or bound"},
      {"0x1.fffffep-3", "0x1.ffffffp-3z", "put=K:4,0"},
      {"\"row\":4", "\"row\":5", "a row below 5"},
      {"sigma=0.1", "sigma=much", "sigma=much"},
      {"\"error\": 1.23457", "\"error\": true", "must be number"},
      {"\"row\":4", "\"row\":4e43", "row: want a whole number from 0 to 9223372036854775807"},
      {"\"row\":4", "\"row\":-4", "row: want a whole number"},
      {"\"evaluations\":30", "\"evaluations\":9223372036854775808", "evaluations: want a whole"},
  }));

  CHECK_THROWS_MATCHES(case_from_text(broken(example.piece, example.by), "file 'x'"), CaseFileError,
                       MessageMatches(ContainsSubstring("file 'x': want a case") &&
                                      ContainsSubstring(example.says)));
}

TEST_CASE("a folder that cannot be written is refused, and a case replaces a file whole",
          "[numerics][quick]") {
  const fs::path folder =
      fs::temp_directory_path() / ("fa1lab_case_file_test_" + std::to_string(getpid()));
  require_writable(folder);
  const fs::path file = folder / case_file_name(example());
  std::ofstream(file) << "something longer than nothing";

  write_case(file, example());

  CHECK(to_text(read_case(file)) == to_text(example()));
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
  CHECK_THROWS_AS(require_writable(file), CaseFileError);
  CHECK_THROWS_AS(require_writable("/proc/fa1lab"), CaseFileError);
  CHECK_THROWS_AS(write_case("/proc/fa1lab.json", example()), CaseFileError);
  CHECK_THROWS_AS(read_case(folder / "none.json"), CaseFileError);
  fs::remove_all(folder);
}

TEST_CASE(
    "The fuzzer's case files, each cut anywhere and with any byte changed, are read or refused "
    "by one line",
    "[numerics][quick]") {
  const int seeds =
      fa1::reference::read_damaged_seeds(fs::path(FA1_FUZZ_CORPUS) / "case",
                                         [](std::span<const std::byte> bytes) { read_all(bytes); });

  CHECK(seeds >= 3);
}
