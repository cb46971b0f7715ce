// Claims about what the page on growth says: the orders of theory come out of the measured numbers.
#include "reports/topics/growth.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string_view>

using fa1::reports::Json;
using fa1::reports::Level;
using fa1::reports::measure_growth;
using fa1::reports::number_of;

namespace {

const Json& records_of(const Json& page, std::string_view table) {
  const auto found =
      std::ranges::find_if(page["tables"], [&](const Json& t) { return t["id"] == table; });
  REQUIRE(found != page["tables"].end());
  return (*found)["records"];
}

/// The record whose `key` is `value`.
const Json& record_of(const Json& records, const char* key, std::string_view value) {
  const auto found = std::ranges::find_if(records, [&](const Json& r) { return r[key] == value; });
  REQUIRE(found != records.end());
  return *found;
}

} // namespace

TEST_CASE("the page on growth: the error follows the tiles after the heavy keys, is least near "
          "N^(2/3), and precision faults get no grade",
          "[reports][deep]") {
  const Json page = measure_growth({Level::quick, 1});

  const Json& slopes = records_of(page, "slopes");
  const Json& first = record_of(slopes, "what", "keys N, heavy keys first");
  const Json& last = record_of(slopes, "what", "keys N, heavy keys last");
  const Json& narrow = record_of(slopes, "what", "tile Bc, far below the best");
  const Json& wide = record_of(slopes, "what", "tile Bc, far above the best");
  CHECK(number_of(first["low"]) > number_of(last["high"]));
  CHECK(number_of(narrow["high"]) < 0.0);
  CHECK(number_of(wide["low"]) > 0.0);
  for (const Json& tiles : records_of(page, "tiles")) {
    // The U is flat around its bottom: a factor of two in Bc, the step of the measured widths.
    CHECK(number_of(tiles["least_at"]) <= 2.0 * number_of(tiles["predicted"]));
    CHECK(number_of(tiles["least_at"]) >= 0.5 * number_of(tiles["predicted"]));
  }
  const Json& graded = records_of(page, "grades");
  for (const Json& record : graded)
    if (!record["mutant"].get<bool>())
      CHECK(record["grade"] == "A");
  CHECK(record_of(graded, "kernel", "mutant.tf32_inputs.Br1xBc1xD8.cpu")["grade"] == "-");
  for (const Json& fault : records_of(page, "faults"))
    CHECK(number_of(fault["after"]) < number_of(fault["before"]));
  CHECK(page["held"] == true);
}
