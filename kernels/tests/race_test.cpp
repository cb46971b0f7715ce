// Claims about synchronisation. ThreadSanitizer (preset racecheck) watches the kernel's own text;
// forward against reverse order (law `schedule`) needs no sanitizer.
#include "kernels/kernel.hpp"
#include "kernels/tests/race_reports.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace fa1;
using fa1::tests::RaceReports;

namespace {

/// The places of the races that ThreadSanitizer sees in one run, four threads a block.
std::vector<std::string> races_of(const kernels::Kernel& kernel, simt::Schedule schedule) {
  const auto problem = reference::make_problem(reference::parse_recipe("n_q=9 n_kv=11 d=8 seed=2"));
  const RaceReports reports;
  kernels::run(kernel, problem, {schedule, 4, 1});
  return reports.places();
}

} // namespace

TEST_CASE("no instance of fa1 has a data race", "[kernels][race][quick]") {
  if (!RaceReports::kAvailable)
    SKIP("needs the racecheck preset (ThreadSanitizer)");

  for (const kernels::Kernel& kernel : kernels::all_kernels())
    if (kernel.backend == kernels::Backend::cpu && kernel.D >= 8 && kernel.D <= 16) {
      CAPTURE(kernel.id);
      CHECK(races_of(kernel, simt::Schedule::forward()).empty());
      CHECK(races_of(kernel, simt::Schedule::shuffled(3)).empty());
    }
}

TEST_CASE("a missing barrier is a data race in the kernel's text, whichever of the two it is",
          "[kernels][race][mutants][quick]") {
  if (!RaceReports::kAvailable)
    SKIP("needs the racecheck preset (ThreadSanitizer)");

  for (const char* mutant :
       {"mutant.no_first_barrier.Br4xBc2xD8.cpu", "mutant.no_second_barrier.Br4xBc2xD8.cpu"}) {
    CAPTURE(mutant);
    const auto races = races_of(kernels::find_kernel(mutant, {}), simt::Schedule::forward());
    CHECK(!races.empty());
    CHECK(std::ranges::all_of(
        races, [](const std::string& place) { return place.find(".cuh:") != std::string::npos; }));
  }
}
