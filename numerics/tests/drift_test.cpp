// Claims about the drift of equal values: foretold bit for bit where A is carried, in the mean where O is.
#include "numerics/drift.hpp"

#include "kernels/kernel.hpp"
#include "numerics/edge_cases.hpp"
#include "numerics/ratchet.hpp"
#include "numerics/ulp.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace fa1;
using numerics::sum_of_equals;

namespace {

reference::Problem equals(float v, std::int64_t keys) {
  return reference::make_problem(
      reference::parse_recipe(fmt::format("scores=0*{} V={}*", keys, v)));
}

float one_by_one(float v, std::int64_t count) {
  float sum = 0.0f;
  for (std::int64_t i = 0; i < count; ++i)
    sum += v;
  return sum;
}

} // namespace

TEST_CASE("a sum of equal numbers is foretold bit for bit", "[numerics][quick]") {
  std::mt19937_64 bits(1);
  for (int i = 0; i < 2000; ++i) {
    // Few digits make ties, many make none.
    const unsigned digits = static_cast<unsigned>(bits() % 24);
    const auto fraction = static_cast<float>(bits() >> (64 - digits - 1)) *
                          std::ldexp(0.5f, -static_cast<int>(digits));
    const float v = std::ldexp(1.0f + fraction, static_cast<int>(bits() % 9) - 4);
    const auto count = static_cast<std::int64_t>(bits() % 3000);
    CAPTURE(v, count);

    CHECK(sum_of_equals(v, count) == one_by_one(v, count));
  }
  // Where it stops growing.
  CHECK(sum_of_equals(1.0f, std::int64_t{1} << 40) == 0x1p24f);
  CHECK(sum_of_equals(3.0f, std::int64_t{1} << 40) == 0x1p26f);
}

TEST_CASE("the drift of a carried sum is foretold bit for bit", "[numerics][quick]") {
  const float v = GENERATE(0.1f, 1.0f / 3.0f, 1.7f);
  constexpr std::int64_t kKeys = 1 << 15;
  const reference::Problem problem = equals(v, kKeys);
  const auto& kernel = kernels::find_kernel("fa1_deferred.Br4xBc2", problem.shape);

  const float O = kernels::run(kernel, problem).O(0, 0, 0);

  CHECK(double{O} / double{v} - 1.0 == numerics::deferred_drift(v, 2, kKeys / 2));
  CHECK(std::fabs(double{O} / double{v} - 1.0) > 100.0 * numerics::kU); // there is one
}

TEST_CASE("the drift of a carried O is foretold in the mean", "[numerics][quick]") {
  numerics::RatchetRow measured{
      "drift.normalised", 0.0, 0.0, 0,
      "|measured - foretold| drift in u a tile; the mirror; 2^12 and 2^16 "
      "tiles of 1 and 32; mt19937_64 seed 1"};
  std::vector<double> off;
  std::mt19937_64 bits(1);
  double largest = 0.0;
  for (const std::int64_t Bc : {1, 32})
    for (const std::int64_t tiles : {1 << 12, 1 << 16})
      for (int i = 0; i < 12; ++i) {
        const float v = 1.0f + static_cast<float>(bits() >> 41) * 0x1p-23f;
        if (Bc * tiles > 1 << 20)
          continue;
        const float O = tiled_mirror(equals(v, Bc * tiles), Bc).O(0, 0, 0);
        const double drift = double{O} / double{v} - 1.0;
        const double unit = numerics::kU * static_cast<double>(tiles);

        off.push_back(std::fabs(drift - numerics::normalised_drift(v, Bc, tiles)) / unit);
        largest = std::max(largest, std::fabs(drift) / unit);
      }
  std::ranges::sort(off);
  measured.worst = off.back();
  measured.median = off[off.size() / 2];
  measured.cases = static_cast<std::int64_t>(off.size());
  note_measured(measured);

  const numerics::RatchetRow allowed = numerics::ratchet("drift.normalised");
  INFO(to_csv(measured));
  CHECK(measured.worst <= allowed.worst);
  CHECK(measured.median <= allowed.median);
  REQUIRE(largest > 3.0 * allowed.worst); // what is foretold is larger than how far off it may be
}

TEST_CASE("the documented drift of the edge case drift-constant is the one foretold",
          "[numerics][quick]") {
  const std::int64_t Bc = GENERATE(1, 32);
  constexpr std::int64_t kKeys = 1 << 20;
  const std::int64_t tiles = kKeys / Bc;
  const numerics::RatchetRow allowed = numerics::ratchet("drift.normalised");

  const double drift =
      double{tiled_mirror(equals(0.1f, kKeys), Bc).O(0, 0, 0)} / double{0.1f} - 1.0;

  CHECK(std::fabs(drift - numerics::normalised_drift(0.1f, Bc, tiles)) <=
        allowed.worst * numerics::kU * static_cast<double>(tiles));
  CHECK(drift > 0.1 * numerics::kU * static_cast<double>(tiles)); // 0.0096 for tiles of one key
}
