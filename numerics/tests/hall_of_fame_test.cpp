// The worst problems that a search has found, kept in numerics/hall_of_fame. They are replayed before all other tests: what
// was bad once is where a changed kernel goes wrong first.
#include "numerics/case_file.hpp"
#include "numerics/search.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

using Catch::Matchers::WithinRel;
using namespace fa1::numerics;

TEST_CASE("a hall of fame replays: its errors, to the digits that are kept, inside the bound",
          "[numerics][quick]") {
  const std::vector<std::filesystem::path> files = hall_of_fame_files();
  REQUIRE(files.size() >= 4);
  SearchLimits none; // what found them may have had limits of its own
  none.largest_score = std::numeric_limits<double>::max();

  for (const std::filesystem::path& file : files) {
    CAPTURE(file.string());
    const FoundCase found = read_case(file);
    const auto& kernel = fa1::kernels::find_kernel(found.kernel, shape_of(found.recipe));
    REQUIRE(kernel.id == found.kernel);
    const auto peak = peak_of(found.recipe, kernel, found.objective, none);

    REQUIRE(peak);
    const Peak now = rounded(*peak);
    // The bound's c is that of this machine's libm (exponentials.def): 1 where the files were made, more where nobody
    // swept it; the bound then grows by no larger a part.
    const double other_libm = kernel.arithmetic.exp_error - 1.0;
    CHECK(now.of(found.objective) <= found.peak.of(found.objective)); // not worse than it was
    CHECK(now.error == found.peak.error);
    CHECK_THAT(now.bound, WithinRel(found.peak.bound, other_libm));
    CHECK_THAT(now.fraction, WithinRel(found.peak.fraction, other_libm));
    CHECK(now.fraction <= 1.0);
    CHECK(now.error > 0.0);
    CHECK(file.filename() == case_file_name(found));
    CHECK(!found.found.empty());
  }
}
