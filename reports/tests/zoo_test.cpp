// The zoo: no wrong kernel survives, no right one is found wrong.
#include "kernels/originals.hpp"
#include "reports/zoo_runs.hpp"

#include <catch2/catch_test_macros.hpp>

#include <iostream>
#include <map>
#include <set>
#include <sstream>

using namespace fa1;
using reports::Zoo;
using reports::ZooRow;

namespace {

constexpr int kCases = 30; // on each tile, for each law: what `fa1lab check --zoo` asks

Zoo only(const std::set<std::string>& names) {
  Zoo zoo = reports::whole_zoo();
  const auto other = [&](const ZooRow& row) { return !names.contains(row.specimen.name()); };
  std::erase_if(zoo.wrong, other);
  std::erase_if(zoo.right, other);
  return zoo;
}

void strangers_are_caught(std::string_view outputs, double part) {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer's own report ends a process that writes past a buffer");
#endif
  const Zoo zoo =
      reports::visit(reports::whole_zoo(outputs), kCases, 1, reports::Until::first_kill);

  if (!zoo.no_false_alarm() || !(zoo.part_caught() >= part))
    reports::print(std::cout, zoo);
  CHECK(zoo.part_caught() >= part);
  CHECK(zoo.no_false_alarm());
}

} // namespace

TEST_CASE("the zoo holds at least 60 wrong kernels of every group and 12 right ones",
          "[reports][zoo][quick]") {
  const Zoo zoo = reports::whole_zoo();

  std::set<std::string> groups;
  for (const ZooRow& row : zoo.wrong)
    groups.insert(row.specimen.kernel().fault);
  CHECK(groups == std::set<std::string>{"recurrence", "start", "tail", "index", "barrier",
                                        "precision", "special", "memory", "scale", "promise",
                                        "family"});
  CHECK(zoo.wrong.size() >= 60);
  CHECK(zoo.right.size() >= 12);
}

TEST_CASE("every variant of the family has two wrong kernels or more", "[reports][zoo][quick]") {
  std::map<std::string_view, int> wrong;
  for (const kernels::Kernel& kernel : kernels::all_kernels())
    wrong[kernel.variant] = 0;
  const Zoo zoo = reports::whole_zoo();

  for (const ZooRow& row : zoo.wrong)
    ++wrong[kernels::original_of(row.specimen.variant)];

  REQUIRE_FALSE(wrong.empty());
  for (const auto& [variant, count] : wrong) {
    CAPTURE(variant);
    CHECK(count >= 2);
  }
}

TEST_CASE("a wrong kernel is caught, one that crashes too, and a right one is not",
          "[reports][zoo][quick]") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer's own report ends a process that writes past a buffer");
#endif
  const Zoo zoo = reports::visit(only({"no_alpha_on_O", "one_row_written", "two_passes"}), 4, 1);

  REQUIRE(zoo.wrong.size() == 2);
  REQUIRE(zoo.right.size() == 1);
  CHECK(zoo.wrong[0].killed_by_its_law());
  CHECK(zoo.wrong[1].killed_by_its_law());
  CHECK(zoo.right[0].kills() == 0);
  CHECK(zoo.as_expected());
}

TEST_CASE("a wrong kernel among the right ones would be told", "[reports][zoo][quick]") {
  Zoo zoo = only({"no_division"});
  zoo.right = std::move(zoo.wrong);
  zoo.wrong.clear();

  zoo = reports::visit(std::move(zoo), 4, 1);
  std::ostringstream out;
  reports::print(out, zoo);

  CHECK_FALSE(zoo.as_expected());
  CHECK(out.str().find("right and found wrong by truth no_division") != std::string::npos);
}

TEST_CASE("what changes m alone does not show in O", "[reports][zoo][quick]") {
  const Zoo zoo = only({"max_not_stored", "no_division", "LSE_without_m", "weights_not_divided"});
  const std::set<std::string> in_O{"no_division", "weights_not_divided"};
  REQUIRE(zoo.wrong.size() == 4);

  for (const ZooRow& row : zoo.wrong) {
    CAPTURE(row.specimen.variant);
    CHECK(properties::changes_O(row.specimen, 50, 1) == in_O.contains(row.specimen.name()));
  }
}

TEST_CASE("every wrong kernel is caught by the law that its row names, and no right one is",
          "[reports][zoo][long]") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer's own report ends a process that writes past a buffer");
#endif
  const Zoo zoo = reports::visit(reports::whole_zoo(), kCases, 1);

  if (!zoo.as_expected())
    reports::print(std::cout, zoo);
  CHECK(zoo.as_expected());
  for (const ZooRow& row : zoo.wrong) {
    CAPTURE(row.specimen.variant);
    if (row.specimen.kernel().survives.empty())
      CHECK(row.killed_by_its_law());
  }
}

TEST_CASE("of strangers that give all outputs nearly every fault is caught",
          "[reports][zoo][long]") {
  strangers_are_caught("olm", reports::kPartOfStrangers);
}

TEST_CASE("of strangers that give O alone nearly every fault is caught", "[reports][zoo][long]") {
  strangers_are_caught("o", reports::kPartFromOAlone);
}
