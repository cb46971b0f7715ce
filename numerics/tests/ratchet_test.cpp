#include "numerics/ratchet.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace fa1::numerics;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// A ratchet file of its own for each process (ctest runs several at once), gone with the object.
class CsvFile {
public:
  explicit CsvFile(const char* lines)
      : path_(std::filesystem::temp_directory_path() /
              ("fa1lab_ratchet_test_" + std::to_string(getpid()) + ".csv")) {
    std::ofstream(path_) << "key,worst,median,cases,how\n" << lines;
  }
  ~CsvFile() { std::filesystem::remove(path_); }
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

RatchetRow row_of(const char* key, const char* lines) {
  const CsvFile file(lines);
  return ratchet(key, file.path());
}

} // namespace

TEST_CASE("a row of the ratchet file is found by its key", "[numerics][quick]") {
  const RatchetRow row = row_of("b", "a,1,0.5,10,first\nb,0.25,0.01,200,second, with a comma\n");

  CHECK(row.worst == 0.25);
  CHECK(row.median == 0.01);
  CHECK(row.cases == 200);
  CHECK(row.how == "second, with a comma");
}

TEST_CASE("a row prints as it reads, rounded up to two digits", "[numerics][quick]") {
  CHECK(to_csv({"k", 0.301, 0.0101, 7, "how"}) == "k,0.31,0.011,7,how");
}

TEST_CASE("a missing key, a broken line and a missing file are named", "[numerics][quick]") {
  CHECK_THROWS_MATCHES(row_of("z", "a,1,1,1,x\n"), std::runtime_error,
                       MessageMatches(ContainsSubstring("no row 'z'")));
  CHECK_THROWS_MATCHES(
      row_of("a", "a,one,1,1,x\n"), std::runtime_error,
      MessageMatches(ContainsSubstring(":2: worst, median and cases must be numbers")));
  CHECK_THROWS_MATCHES(ratchet("a", "/nonexistent/ratchet.csv"), std::runtime_error,
                       MessageMatches(ContainsSubstring("cannot read /nonexistent/ratchet.csv")));
}

TEST_CASE("every row of the project's own file can be read", "[numerics][quick]") {
  std::ifstream in(ratchet_file());
  REQUIRE(in);
  int rows = 0;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && !line.starts_with("key,")) {
      const RatchetRow row = ratchet(line.substr(0, line.find(',')));
      CHECK(row.cases > 0);
      CHECK(row.worst >= row.median);
      ++rows;
    }

  CHECK(rows > 0);
}
