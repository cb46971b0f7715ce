// Claims about the map of an output's errors: a wrong element is where it is, whatever it is reduced to.
#include "numerics/error_map.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace fa1;
using namespace fa1::numerics;

namespace {

MappedSample mapped(const std::string& recipe, std::int64_t most_rows, std::int64_t most_columns) {
  return sample(reference::parse_recipe(recipe), kernels::find_kernel("fa1.Br4xBc2xD8.cpu", {}), 1,
                reference::TruthSource::cpu, most_rows, most_columns);
}

} // namespace

TEST_CASE("A cell of the error map is the gravest of its elements", "[numerics][quick]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  ErrorMap map(5, 3, 2, 2); // blocks of 3 rows and 2 columns

  map.add(0, 0, cell_of(1.0, 1.5, -7.0));
  map.add(2, 1, cell_of(1.0, 1.5, 9.0));
  map.add(1, 1, cell_of(1.0, 1.0, 0.0));
  map.add(0, 2, cell_of(1.0, 1.0, 0.0));
  map.add(3, 0, cell_of(kInfinity, 1.0, kNone));
  map.add(4, 1, cell_of(1.0, 1.5, 1e30));
  map.add(4, 2, cell_of(kNone, 1.0, kNone));
  map.add(3, 2, cell_of(kNone, kNone, 0.0));

  REQUIRE(map.rows() == 2);
  REQUIRE(map.columns() == 2);
  CHECK(map.block_rows() == 3);
  CHECK(map.block_columns() == 2);
  CHECK(map(0, 0).kind == CellKind::number);
  CHECK(map(0, 0).error == 9.0);
  CHECK(map(0, 1).kind == CellKind::exact);
  CHECK(map(1, 0).kind == CellKind::infinite);
  CHECK(map(1, 1).kind == CellKind::nan);
  CHECK(cell_of(2.0, kNone, kNone).kind == CellKind::number_for_nan);
  CHECK(cell_of(kInfinity, kInfinity, kNone).kind == CellKind::exact);
  CHECK(ErrorMap(1, 1, 1, 1)(0, 0).kind == CellKind::unjudged);
}

TEST_CASE("The error map of a whole output holds what its record says", "[numerics][quick]") {
  const MappedSample whole = mapped("bh=2 n_q=7 n_kv=33 d=8 dv=5", 1000, 1000);

  REQUIRE(whole.map.rows() == 14);
  REQUIRE(whole.map.columns() == 5);
  CHECK(!whole.in_ulp);
  double largest = 0.0;
  for (std::int64_t r = 0; r < 14; ++r)
    for (std::int64_t c = 0; c < 5; ++c) {
      CHECK(whole.map(r, c).error == whole.sample.errors[static_cast<std::size_t>(r * 5 + c)]);
      largest = std::max(largest, whole.map(r, c).error);
    }
  CHECK(largest > 0.0);
  CHECK(largest == whole.sample.record.error.max_relative);
  const MappedSample reduced = mapped("bh=2 n_q=7 n_kv=33 d=8 dv=5", 3, 1);
  REQUIRE(reduced.map.rows() == 3);
  REQUIRE(reduced.map.columns() == 1);
  CHECK(std::max({reduced.map(0, 0).error, reduced.map(1, 0).error, reduced.map(2, 0).error}) ==
        largest);
}

TEST_CASE("A wrong element of O is where the error map says", "[numerics][quick]") {
  kernels::Kernel wrong = kernels::find_kernel("fa1.Br4xBc2xD8.cpu", {});
  wrong.run = [run = wrong.run](const kernels::Arguments& arguments,
                                const kernels::Launch& launch) {
    run(arguments, launch);
    arguments.O[2 * arguments.shape.dv + 1] += 1.0f;
  };

  const MappedSample run = sample(reference::parse_recipe("n_q=4 n_kv=9 d=8 dv=3"), wrong, 1,
                                  reference::TruthSource::cpu, 9, 9);

  CHECK(run.sample.record.verdict.judgement == Judgement::proved_wrong);
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < 3; ++c) {
      CAPTURE(r, c);
      CHECK((run.map(r, c).error > 1e4) == (r == 2 && c == 1));
    }
}

TEST_CASE("Where no bound holds the error map counts ulps and shows NaN", "[numerics][quick]") {
  const MappedSample run = mapped("n_q=3 n_kv=5 d=8 dv=2 put=V:1,0:nan", 9, 9);

  CHECK(run.in_ulp);
  for (std::int64_t r = 0; r < 3; ++r) {
    CHECK(run.map(r, 0).kind == CellKind::exact); // NaN, as it must be
    CHECK(run.map(r, 1).error < 100.0);
  }
}
