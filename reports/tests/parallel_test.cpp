// Claims about jobs in processes of their own.
#include "reports/parallel.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using fa1::reports::in_processes;

namespace {

std::vector<std::string> names_of(std::size_t jobs) {
  return in_processes(
      jobs, [](std::size_t i) { return "job " + std::to_string(i); },
      [](std::size_t, const std::string& why) { return why; }, [](std::size_t) {});
}

} // namespace

TEST_CASE("jobs in processes of their own answer in their order", "[reports][quick]") {
  CHECK(names_of(3) == std::vector<std::string>{"job 0", "job 1", "job 2"});
}

TEST_CASE("no jobs at all are done at once", "[reports][quick]") { CHECK(names_of(0).empty()); }
