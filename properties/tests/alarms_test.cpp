// Claims about false alarms: none against right kernels, and the count would see one.
#include "properties/alarms.hpp"

#include <catch2/catch_test_macros.hpp>

#include <numeric>

using namespace fa1;
using numerics::Judgement;

namespace {

std::int64_t of(const std::array<std::int64_t, 4>& counts, Judgement judgement) {
  return counts[static_cast<std::size_t>(judgement)];
}

void check_no_alarm(const kernels::Kernel& kernel, int cases) {
  CAPTURE(kernel.id);

  const properties::Alarms alarms = properties::count_alarms(kernel, cases, 1);

  CAPTURE(alarms.first_wrong);
  CHECK(alarms.cases == cases);
  CHECK(std::accumulate(alarms.verdicts.begin(), alarms.verdicts.end(), alarms.declined) == cases);
  CHECK(of(alarms.verdicts, Judgement::proved_wrong) == 0);
  CHECK(of(alarms.elements, Judgement::proved_wrong) == 0);
  CHECK(of(alarms.verdicts, Judgement::proved_right) > cases / 2);
  CHECK(alarms.worst_fraction <= 1.0);
}

} // namespace

TEST_CASE("no right kernel is proved wrong", "[properties][quick]") {
  check_no_alarm(kernels::find_kernel("fa1.Br4xBc2xD8.cpu", {1, 1, 1, 8, 8}), 300);
  for (const kernels::Kernel& kernel : kernels::all_rewrites())
    check_no_alarm(kernel, 40);
}

TEST_CASE("no right kernel is proved wrong, at length", "[properties][deep]") {
  for (const char* id : {"fa1.Br1xBc1xD8.cpu", "fa1.Br4xBc2xD8.cpu", "fa1.Br8xBc4xD8.cpu-fma",
                         "fa1.Br8xBc128xD8.cpu", "fa1.Br16xBc16xD64.cpu"})
    check_no_alarm(kernels::find_kernel(id, {1, 1, 1, 8, 8}), 5000);
  for (const kernels::Kernel& kernel : kernels::all_rewrites())
    check_no_alarm(kernel, 1000);
}

TEST_CASE("a wrong kernel raises the alarm, with the recipe that does it", "[properties][quick]") {
  const properties::Alarms alarms = properties::count_alarms(
      kernels::find_kernel("mutant.no_alpha_on_O.Br4xBc2xD8", {1, 1, 1, 8, 8}), 50, 1);

  CHECK(of(alarms.verdicts, Judgement::proved_wrong) > 0);
  CHECK(of(alarms.elements, Judgement::proved_wrong) > 0);
  CHECK(!alarms.first_wrong.empty());
}
