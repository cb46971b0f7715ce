// Claims about the records of a trace and the page drawn from them: the numbers are the kernel's floats,
// the page holds those very records and nothing from elsewhere, and its size is known beforehand.
#include "reports/trace_records.hpp"

#include "numerics/ulp.hpp"
#include "reports/command.hpp"
#include "reports/writers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>
#include <string>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using numerics::same_bits;
using reports::Json;

namespace {

struct Traced {
  reference::Recipe recipe;
  reference::Problem problem;
  const kernels::Kernel& kernel;
  numerics::Steps steps;
  Json records;

  Traced(std::string_view text, std::string_view id)
      : recipe(reference::parse_recipe(text)), problem(reference::make_problem(recipe)),
        kernel(kernels::find_kernel(id, problem.shape)), steps(numerics::steps_of(problem, kernel)),
        records(reports::trace_records(recipe, nullptr, problem, kernel, steps)) {}
};

float float_of(const Json& json) { return static_cast<float>(reports::number_of(json)); }

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t times = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1))
    ++times;
  return times;
}

} // namespace

TEST_CASE("the numbers of the records read back as the floats of the run",
          "[reports][trace][quick]") {
  const auto* const recipe =
      GENERATE("bh=2 n_q=5 n_kv=7 d=3 dv=2 seed=3", "n_q=2 n_kv=4 d=2 v=subnormal",
               "n_q=1 n_kv=4 scale=1 Q=1* K=-inf*2,0*2 V=-0*");
  CAPTURE(recipe);

  const Traced traced(recipe, "fa1.Br4xBc2");

  std::size_t compared = 0;
  for (const Json& record : traced.records) {
    if (record["what"] != "step" || (record["phase"] != "output" && record["phase"] != "scores"))
      continue;
    for (std::size_t r = 0; r < record["rows"][1].get<std::size_t>(); ++r) {
      const numerics::RowOfTile& row =
          traced.steps.row(record["batch_head"], record["tile"],
                           record["rows"][0].get<std::int64_t>() + static_cast<std::int64_t>(r));
      const bool output = record["phase"] == "output";
      const std::vector<float>& want = output ? row.carries.O : row.s;
      const Json parsed = Json::parse(record[output ? "O" : "S"][r].dump());
      REQUIRE(parsed.size() == want.size());
      for (std::size_t c = 0; c < want.size(); ++c, ++compared)
        CHECK(same_bits(float_of(parsed[c]), want[c]));
    }
  }
  CHECK(compared > 0);
}

TEST_CASE("every step is one record, and the last one has moved all of the closed form",
          "[reports][trace][quick]") {
  const Traced traced("n_q=5 n_kv=7 d=3", "fa1.Br4xBc2");

  const Json& head = traced.records.front();
  const Json& last = traced.records.back();
  CHECK(head["what"] == "trace");
  CHECK(head["steps"] == traced.steps.steps.size());
  CHECK(traced.records.size() == 1 + 3 + traced.steps.steps.size());
  CHECK(last["phase"] == "store");
  CHECK(last["step"].get<std::size_t>() + 1 == traced.steps.steps.size());
  CHECK(last["so_far"] == head["traffic"]["total"]);
}

TEST_CASE("the records of every variant end with all of its traffic and with the kernel's O",
          "[reports][trace][quick]") {
  const auto* const id =
      GENERATE("fa1.Br4xBc2", "fa1_element.Br16xBc1", "fa1_paper.Br4xBc2", "fa1_deferred.Br4xBc2",
               "fa1_tuned.Br32xBc4", "fa2.Br4xBc2", "standard.Br4xBc2", "online_softmax.Br4xBc2",
               "split_kv.Br4xBc2", "lazy_rescale.Br4xBc2");
  CAPTURE(id);
  const Traced traced("bh=2 n_q=5 n_kv=7 d=4 dv=3 seed=5", id);

  const reference::State whole = kernels::run(traced.kernel, traced.problem);

  const Json& head = traced.records.front();
  CHECK(traced.records.back()["so_far"] == head["traffic"]["total"]);
  CHECK(head["traffic"]["formula"] == traced.kernel.traffic);
  CHECK(head["differs"].is_null());
  reference::Tensor<float> O(2, 5, 3);
  for (const Json& record : traced.records)
    if (record["what"] == "step" && record["phase"] != "start" && record.contains("O"))
      for (std::size_t r = 0; r < record["O"].size(); ++r)
        for (std::size_t c = 0; c < record["O"][r].size(); ++c)
          O(record["batch_head"],
            record["rows"][0].get<std::int64_t>() + static_cast<std::int64_t>(r),
            static_cast<std::int64_t>(c)) = float_of(record["O"][r][c]);
  CHECK(std::ranges::equal(O.elements(), whole.O.elements(), same_bits));
}

TEST_CASE("each number says whether it is the kernel's own or the mirror's",
          "[reports][trace][quick]") {
  const Traced traced("n_q=2 n_kv=3 d=2", "fa1.Br4xBc2");

  for (const Json& record : traced.records)
    for (const char* name : {"S", "m_tile", "p", "sum_p", "pv", "alpha", "m", "l", "O"}) {
      if (record["what"] != "step" || record["phase"] == "start" || !record.contains(name))
        continue;
      CAPTURE(name, record.dump());
      const bool carry = std::set<std::string_view>{"alpha", "m", "l", "O"}.contains(name);
      const Json& named = record["from"][carry ? "kernel" : "mirror"];
      CHECK(std::find(named.begin(), named.end(), name) != named.end());
    }
}

TEST_CASE("the page holds the records that --json prints, and asks for nothing from elsewhere",
          "[reports][trace][quick]") {
  const Traced traced("n_q=3 n_kv=5 d=2", "fa1.Br4xBc2");

  const std::string page = reports::trace_page(traced.records);

  CHECK_THAT(page, ContainsSubstring("\n" + reports::json_lines(traced.records) + "</script>"));
  const std::string svg = "\"http://www.w3.org/2000/svg\""; // a name, not an address
  CHECK(count(page, "http") == count(page, svg));
  for (const char* elsewhere : {" src=", "@import", "url(", "fetch(", "XMLHttpRequest", "{{"}) {
    CAPTURE(elsewhere);
    CHECK(count(page, elsewhere) == 0);
  }
}

TEST_CASE("what stands in a record cannot end the element that holds it",
          "[reports][trace][quick]") {
  Traced traced("n_q=1 n_kv=1", "fa1.Br4xBc2");
  const std::string ordinary = reports::trace_page(traced.records);
  traced.records.front()["says"] = "</script><script>alert(1)</script>";

  const std::string page = reports::trace_page(traced.records);

  CHECK(count(page, "<script") == count(ordinary, "<script"));
  CHECK(count(page, "</script") == count(ordinary, "</script"));
}

TEST_CASE("a page of 64 keys and 64 queries of 16 columns is below 1 MiB, as was foreseen",
          "[reports][trace][quick]") {
  const auto* const id =
      GENERATE("fa1", "fa1.Br16xBc16", "fa1.Br8xBc4", "fa1.Br8xBc128", "fa2.Br16xBc16",
               "standard.Br16xBc16", "online_softmax.Br16xBc16", "split_kv.Br16xBc16");
  CAPTURE(id);
  const bool family = std::string_view(id).substr(0, 3) != "fa1"; // has no D = 16
  const Traced traced(family ? "n_q=64 n_kv=64 d=8" : "n_q=64 n_kv=64 d=16", id);

  const auto bytes = static_cast<std::int64_t>(reports::trace_page(traced.records).size());

  CHECK(bytes < reports::kMostPageBytes);
  CHECK(bytes <= reports::page_bytes(traced.problem.shape, traced.kernel));
  CHECK_NOTHROW(reports::require_page_fits(traced.problem.shape, traced.kernel));
}

TEST_CASE("a page that is too large is refused with a size that fits", "[reports][trace][quick]") {
  const reference::Shape shape{1, 64, 64, 16, 16};
  const kernels::Kernel& kernel = kernels::find_kernel("fa1.Br4xBc2", shape);

  std::string message;
  try {
    reports::require_page_fits(shape, kernel);
  } catch (const reports::UsageError& error) {
    message = error.what();
  }

  const std::string fits = "; n_kv up to ";
  CAPTURE(message);
  REQUIRE(message.find(fits) != std::string::npos);
  const std::int64_t keys = std::stoll(message.substr(message.find(fits) + fits.size()));
  CHECK_NOTHROW(reports::require_page_fits({1, 64, keys, 16, 16}, kernel));
  CHECK_THROWS_AS(reports::require_page_fits({1, 64, keys + 1, 16, 16}, kernel),
                  reports::UsageError);
}
