// Claims about `worst` and `claim` as a person at a shell meets them, and about the page they fill.

#include "numerics/case_file.hpp"
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"
#include "reports/topics/worst.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

using Catch::Matchers::ContainsSubstring;
using fa1::reports::Json;
using fa1::reports::tests::Answer;
using fa1::reports::tests::fa1lab;
using fa1::reports::tests::pasted;
using fa1::reports::tests::Scratch;
using fa1::reports::tests::text_of;

namespace {

const std::string kSearch =
    "worst 'n_kv=16 d=4' --kernel fa1.Br4xBc2xD4.cpu --objective bound --evaluations ";
const char* const kFile = "fa1.Br4xBc2xD4.cpu.N16.d4.bound.json";

} // namespace

TEST_CASE("what worst finds is a file that run and repro replay with its kernel, and a line that "
          "does the same",
          "[reports][quick]") {
  const Scratch folder;
  const std::string out = (folder / "hall").string();

  const Answer found = fa1lab(kSearch + "700 --json --out " + out);

  CAPTURE(found.out);
  REQUIRE(found.status == 0);
  const Json record = Json::parse(found.out);
  const std::string file = out + "/" + kFile;
  CHECK(record["file"] == file);
  const Json run = Json::parse(fa1lab("run --json " + file).out);
  CHECK(run["kernel"] == "fa1.Br4xBc2xD4.cpu");
  CHECK(run["max_fraction"].get<double>() == record["fraction"].get<double>());
  const Json repro = Json::parse(fa1lab("repro --json " + file).out);
  CHECK(repro["kernel"] == "fa1.Br4xBc2xD4.cpu");
  CHECK(repro["recipe"] == record["recipe"]);
  CHECK(record["reproduce"] == "./fa1lab repro " + file);
  CHECK(pasted(repro["reproduce"].get<std::string>() + " --json").out ==
        fa1lab("repro --json " + file).out);
  CHECK(fa1lab("run --json --kernel fa1.Br1xBc1 " + file).out.find("fa1.Br1xBc1xD4.cpu") !=
        std::string::npos);
}

TEST_CASE("a second search goes on from the file and replaces it by worse alone",
          "[reports][quick]") {
  const Scratch folder;
  const auto file = folder / kFile;
  const std::string out = " --out " + (folder / "").string();
  REQUIRE(fa1lab(kSearch + "700" + out).status == 0);
  const std::string first = text_of(file);

  const Answer nothing_new = fa1lab(kSearch + "1 --seed 2" + out);
  const std::string same = text_of(file);
  const Answer more = fa1lab(kSearch + "1500 --seed 2" + out);
  const std::string second = text_of(file);

  CHECK(nothing_new.status == 0);
  CHECK(same == first);
  CHECK(more.status == 0);
  const auto before = fa1::numerics::case_from_text(first, "first");
  const auto after = fa1::numerics::case_from_text(second, "second");
  CHECK(after.peak.fraction > before.peak.fraction);
  REQUIRE(after.found.size() == 2);
  CHECK_THAT(after.found[1].command, ContainsSubstring("--seed 2 --evaluations"));
}

TEST_CASE("a file that is no case, or of another shape, is refused and stays as it is",
          "[reports][quick]") {
  const Scratch folder;
  const auto file = folder / kFile;
  const std::string out = " --out " + (folder / "").string();
  std::ofstream(file) << "{\"what\": \"notes\"}\n";

  const Answer no_case = fa1lab(kSearch + "50" + out);
  const Answer replayed = fa1lab("repro " + file.string());
  const std::string hall = fa1::numerics::hall_of_fame_files().front().string();
  const Answer other_shape = fa1lab(kSearch + "50 --from " + hall);

  CHECK(no_case.status == 2);
  CHECK_THAT(no_case.out, ContainsSubstring("want a case as `fa1lab worst"));
  CHECK(replayed.status == 2);
  CHECK_THAT(replayed.out, ContainsSubstring("want a case as `fa1lab worst"));
  CHECK(other_shape.status == 2);
  CHECK_THAT(other_shape.out, ContainsSubstring("want a case of the recipe's shape"));
  CHECK(text_of(file) == "{\"what\": \"notes\"}\n");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a wrong kernel is proved wrong by worst and by claim, with a line that proves it again",
          "[reports][quick]") {
  const Answer worst = fa1lab("worst 'n_kv=16 d=4' --kernel mutant.no_alpha_on_O.Br4xBc2 "
                              "--objective bound --evaluations 100 --json");
  const Answer claim = fa1lab("claim 'error <= bound for n_kv<=16 d<=4 "
                              "kernel=mutant.no_alpha_on_O' --evaluations 200 --json");

  CHECK(worst.status == 1);
  CHECK(claim.status == 1);
  CHECK(pasted(Json::parse(worst.out)["reproduce"]).status == 1);
  CHECK(pasted(Json::parse(claim.out)["reproduce"]).status == 1);
}

TEST_CASE("a claim is answered in words: refuted, or no counterexample in so many cases",
          "[reports][quick]") {
  const std::string rest = "*u*sum_p_v for n_kv<=16 d<=4 kernel=fa1.Br4xBc2' --evaluations 100";

  const Answer refuted = fa1lab("claim 'error <= 0.25" + rest);
  const Answer not_refuted = fa1lab("claim 'error <= 1000" + rest);

  CHECK(refuted.status == 1);
  CHECK_THAT(refuted.out, ContainsSubstring("refuted within") && ContainsSubstring("reproduce ./"));
  CHECK(not_refuted.status == 0);
  CHECK_THAT(not_refuted.out, ContainsSubstring("no counterexample in 100 cases") &&
                                  ContainsSubstring("reproduce ./"));
}

TEST_CASE("the page of the worst case orders typical, drawn, found and bound", "[reports][deep]") {
  const Json page = fa1::reports::measure_worst({fa1::reports::Level::quick, 1});
  const Json again = fa1::reports::measure_worst({fa1::reports::Level::quick, 1});

  CHECK(page == again);
  REQUIRE(page["tables"].size() == 3);
  REQUIRE(page["tables"][0]["records"].size() == 12);
  for (const Json& record : page["tables"][0]["records"]) {
    CAPTURE(record.dump());
    CHECK(record["typical"].get<double>() > 0.0);
    CHECK(record["typical"].get<double>() < record["drawn"].get<double>());
    CHECK(record["found"].get<double>() <= record["bound"].get<double>());
    CHECK(record["fraction"].get<double>() <= 1.0);
  }
  CHECK(page["tables"][2]["records"].size() == fa1::numerics::hall_of_fame_files().size());
  for (const Json& series : page["plots"][0]["series"])
    CHECK(series["points"].size() == 3);
  CHECK(page["held"] == true);
  CHECK(page["sentences"].size() == 4);
  CHECK(page["reproduce"].size() == 24);
}
