#include "numerics/ratchet.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

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
    if (!line.empty() && !line.starts_with("key,") && !line.starts_with('#')) {
      const RatchetRow row = ratchet(line.substr(0, line.find(',')));
      CHECK(row.cases > 0);
      CHECK(row.worst >= row.median);
      ++rows;
    }

  CHECK(rows > 0);
}

TEST_CASE("the project's own file is sealed, and a row changed by hand is seen",
          "[numerics][quick]") {
  std::ifstream in(ratchet_file(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string edited = text;
  const std::size_t digit = edited.find("0.") + 2;
  edited[digit] = edited[digit] == '9' ? '8' : '9';
  const CsvFile file("");
  std::ofstream(file.path()) << edited;

  CHECK(is_sealed(text));
  CHECK_THROWS_MATCHES(ratchet_rows(file.path()), std::runtime_error,
                       MessageMatches(ContainsSubstring("was changed by hand")));
}

TEST_CASE("a row that admits more, rests on less or is of something else loosens",
          "[numerics][quick]") {
  const RatchetRow row{"k", 0.3, 0.01, 100, "how"};

  CHECK(move_of(row, row) == RatchetMove::same);
  CHECK(move_of(row, {"k", 0.2, 0.01, 100, "how"}) == RatchetMove::tightens);
  CHECK(move_of(row, {"k", 0.3, 0.01, 200, "how"}) == RatchetMove::tightens);
  CHECK(move_of(row, {"k", 0.31, 0.01, 100, "how"}) == RatchetMove::loosens);
  CHECK(move_of(row, {"k", 0.2, 0.02, 100, "how"}) == RatchetMove::loosens);
  CHECK(move_of(row, {"k", 0.3, 0.01, 99, "how"}) == RatchetMove::loosens);
  CHECK(move_of(row, {"k", 0.2, 0.01, 100, "else"}) == RatchetMove::loosens);
  CHECK(move_of(row, {"k", std::nan(""), 0.01, 100, "how"}) == RatchetMove::loosens);
}

TEST_CASE("a changed row stands where it stood, below the reason", "[numerics][quick]") {
  const std::string text = "key,worst,median,cases,how\na,1,1,1,x\n# why b\nb,1,1,1,x\n";

  const std::string changed = with_row(text, {"a", 0.5, 0.25, 2, "y, z"}, "a reason");

  CHECK_THAT(changed, Catch::Matchers::StartsWith(
                          "key,worst,median,cases,how\n# a: a reason\na,0.5,0.25,2,y, z\n"
                          "# why b\nb,1,1,1,x\n# seal "));
  CHECK(is_sealed(changed));
  CHECK(is_sealed(with_row(changed, {"c", 1, 1, 1, "new"}, "")));
}
