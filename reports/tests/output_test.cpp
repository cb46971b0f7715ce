// Claims about writing: nobody ever sees a file or a folder that is half done, nothing of somebody else's is replaced, and
// whatever cannot be written says so.

#include "reports/command.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/plot.hpp"
#include "reports/tests/scratch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace fa1::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace fs = std::filesystem;

using fa1::reports::tests::Scratch;
using fa1::reports::tests::text_of;

namespace {

void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

} // namespace

TEST_CASE("a file is written whole and nothing else is left", "[reports][quick]") {
  const Scratch scratch;
  put(scratch / "table.csv", "old");

  write_file(scratch / "table.csv", "new");

  CHECK(text_of(scratch / "table.csv") == "new");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("a full disk is told and leaves no file", "[reports][quick]") {
  const Scratch scratch;

  CHECK_THROWS_MATCHES(write_file("/dev/full", "text"), UsageError,
                       MessageMatches(ContainsSubstring("No space left")));
  CHECK_THROWS_MATCHES(
      write_file(scratch / "none" / "table.csv", "text"), UsageError,
      MessageMatches(ContainsSubstring("table.csv") && ContainsSubstring("No such file")));
  CHECK_THROWS_AS(require_writable(scratch / "none" / "table.csv"), UsageError);
  CHECK(scratch.entries() == 0);
}

TEST_CASE("a link to a file stays a link", "[reports][quick]") {
  const Scratch scratch;
  put(scratch / "real", "old");
  fs::create_symlink("real", scratch / "link");

  write_file(scratch / "link", "new");

  CHECK(fs::is_symlink(scratch / "link"));
  CHECK(text_of(scratch / "real") == "new");
}

TEST_CASE("a folder is replaced as a whole, old files included", "[reports][quick]") {
  const Scratch scratch;
  fs::create_directories(scratch / "out" / "plots");
  put(scratch / "out" / "index.html", "old");
  put(scratch / "out" / "plots" / "a.svg", "old");

  {
    NewFolder folder(scratch / "out", {"index.html", "plots/a.svg"});
    folder.write("index.html", "new");
    CHECK(text_of(scratch / "out" / "index.html") == "old"); // until it is published
    folder.publish();
  }

  CHECK(text_of(scratch / "out" / "index.html") == "new");
  CHECK_FALSE(fs::exists(scratch / "out" / "plots"));
  CHECK(scratch.entries() == 1);
}

TEST_CASE("a folder that is never published leaves everything as it was", "[reports][quick]") {
  const Scratch scratch;
  fs::create_directory(scratch / "out");
  put(scratch / "out" / "index.html", "old");

  {
    NewFolder folder(scratch / "out", {"index.html"});
    folder.write("index.html", "half");
  }

  CHECK(text_of(scratch / "out" / "index.html") == "old");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("a killed run leaves the report before it, and the next run clears what it left",
          "[reports][quick]") {
  const Scratch scratch;
  fs::create_directory(scratch / "out");
  put(scratch / "out" / "index.html", "old");
  const pid_t killed = fork();
  if (killed == 0) {
    NewFolder folder(scratch / "out", {"index.html"});
    folder.write("index.html", "half");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(killed, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  CHECK(text_of(scratch / "out" / "index.html") == "old");
  CHECK(scratch.entries() == 2); // the half one, beside

  { NewFolder next(scratch / "out", {"index.html"}); }

  CHECK(scratch.entries() == 1);
}

TEST_CASE("a folder with somebody's file in it is not replaced", "[reports][quick]") {
  const Scratch scratch;
  fs::create_directory(scratch / "home");
  put(scratch / "home" / "thesis.tex", "years of work");
  put(scratch / "file", "");

  CHECK_THROWS_MATCHES(NewFolder(scratch / "home", {"index.html"}), UsageError,
                       MessageMatches(ContainsSubstring("thesis.tex")));
  CHECK_THROWS_MATCHES(NewFolder(scratch / "file", {"index.html"}), UsageError,
                       MessageMatches(ContainsSubstring("want a folder")));
  CHECK_THROWS_AS(NewFolder("/proc/none/out", {"index.html"}), UsageError);
  CHECK(text_of(scratch / "home" / "thesis.tex") == "years of work");
}

TEST_CASE("jobs in processes give their texts in order, and a crash is a result",
          "[reports][quick]") {
  const auto job = [](std::size_t i) -> std::string {
    if (i == 3)
      raise(SIGKILL);
    return std::string(100'000 * i, 'x'); // more than a pipe holds
  };
  const auto lost = [](std::size_t i, const std::string& why) {
    return std::to_string(i) + ": " + why;
  };
  std::size_t done = 0;

  const auto texts = in_processes(8, job, lost, [&](std::size_t) { ++done; });

  REQUIRE(texts.size() == 8);
  CHECK(texts[2].size() == 200'000);
  CHECK(texts[3] == "3: the process died: Killed");
  CHECK(texts[7].size() == 700'000);
  CHECK(done == 8);
}

TEST_CASE("an exception in a job ends all of them and is told", "[reports][quick]") {
  const auto job = [](std::size_t i) -> std::string {
    if (i == 1)
      throw std::runtime_error("no such thing");
    return {};
  };
  const auto lost = [](std::size_t, const std::string& why) { return why; };

  CHECK_THROWS_MATCHES(in_processes(100, job, lost, [](std::size_t) {}), std::runtime_error,
                       MessageMatches(ContainsSubstring("no such thing")));
}

TEST_CASE("jobs in threads all run, and the first exception comes out", "[reports][quick]") {
  std::vector<int> done(100);

  in_parallel(done.size(), [&](std::size_t i) { ++done[i]; });

  CHECK(done == std::vector<int>(100, 1));
  CHECK_THROWS_AS(in_parallel(10,
                              [](std::size_t i) {
                                if (i == 5)
                                  throw UsageError("five");
                              }),
                  UsageError);
}
