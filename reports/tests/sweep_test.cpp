// Claims about sweeps as files: killed, they go on; in parts, they join to the same bytes; and nothing
// that does not belong together is put together. Claims about comparing two results and about the ratchet.
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

using fa1::reports::tests::Answer;
using fa1::reports::tests::fa1lab;
using fa1::reports::tests::lines;
using fa1::reports::tests::Scratch;
using fa1::reports::tests::shell;
using fa1::reports::tests::text_of;

namespace {

/// Ten points of two seeds each.
constexpr const char* kSweep =
    "sweep --vary n_kv=3,40 --vary sigma=1..5+1 --vary seed=1,2 'n_q=2 d=4' ";

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

Answer sweep_into(const fs::path& file, const std::string& words = "") {
  return fa1lab(kSweep + words + " --out " + quoted(file));
}

void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    result.push_back(line + "\n");
  return result;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    text += part;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

/// One line on standard error, status 2, and the file as it was.
void check_refused(const Answer& answer, const std::string& says, const fs::path& file,
                   const std::string& before) {
  CAPTURE(answer.out);
  CHECK(answer.status == 2);
  CHECK_THAT(answer.out, StartsWith("fa1lab: "));
  CHECK_THAT(answer.out, ContainsSubstring(says));
  CHECK(lines(answer.out) == 1);
  CHECK(text_of(file) == before);
}

} // namespace

TEST_CASE("a sweep's file says which sweep it is, and holds one record a point over its seeds",
          "[reports][quick]") {
  const Scratch scratch;

  const Answer answer = sweep_into(scratch / "a");
  const auto found = lines_of(text_of(scratch / "a"));

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  REQUIRE(found.size() == 1 + 10);
  const auto title = nlohmann::json::parse(found[0]);
  CHECK(title["what"] == "sweep");
  CHECK(title["points"] == 10);
  CHECK(title["runs"] == 2);
  for (std::size_t k = 1; k < found.size(); ++k) {
    const auto record = nlohmann::json::parse(found[k]);
    CHECK(record["what"] == "point");
    CHECK(record["point"] == k);
    CHECK(record["runs"] == 2);
    CHECK(record["elements"] == 2 * 2 * 4);
    for (const char* key :
         {"max_error", "rms_error", "mean_error", "max_error_ulp", "max_fraction",
          "max_over_expected", "max_over_softmax_bound", "bound", "expected", "softmax_bound"})
      CHECK(record[key].is_number());
    for (const char* part : {"0.5", "0.9", "0.99", "0.999"})
      CHECK(record["quantiles"][part].is_number());
    CHECK(record["quantiles"]["0.999"] == record["max_error"]);
  }
}

TEST_CASE("kernels are varied like any other key", "[reports][quick]") {
  const Answer answer =
      fa1lab("sweep --json --vary kernel=fa1.Br4xBc2,mutant.no_alpha_on_O.Br4xBc2 "
             "--vary n_kv=1,70 'n_q=3 d=5 order=ascending'");

  const auto found = lines_of(answer.out);
  REQUIRE(found.size() == 4);
  CHECK(answer.status == 1);
  CHECK(nlohmann::json::parse(found[1])["kernel"] == "fa1.Br4xBc2xD8.cpu");
  CHECK(nlohmann::json::parse(found[1])["verdict"] == "proved right");
  CHECK(nlohmann::json::parse(found[3])["kernel"] == "mutant.no_alpha_on_O.Br4xBc2xD8.cpu");
  CHECK(nlohmann::json::parse(found[3])["verdict"] == "proved wrong");
}

TEST_CASE("records do not depend on how many threads make them", "[reports][quick]") {
  const Scratch scratch;

  const Answer one = sweep_into(scratch / "one", "--threads 1");
  const Answer five = sweep_into(scratch / "five", "--threads 5");

  CHECK(one.status == 0);
  CHECK(five.status == 0);
  CHECK(text_of(scratch / "one") == text_of(scratch / "five"));
}

TEST_CASE("a sweep that is killed at any moment goes on where it was, and nothing is counted twice",
          "[reports][deep]") {
  const Scratch scratch;
  const std::string words = "sweep --vary n_kv=300..310+1 --vary sigma=1..8+1 --vary seed=1,2 "
                            "'n_q=8 d=16' --out ";
  const Answer whole = fa1lab(words + quoted(scratch / "whole"));
  const std::size_t all = lines(text_of(scratch / "whole"));
  std::mt19937 random(20210807);
  std::uniform_real_distribution<double> seconds(0.0, 0.3);

  int killed_within = 0;
  for (int round = 0; round < 4; ++round) {
    const fs::path file = scratch / fmt::format("killed{}", round).c_str();
    int starts = 0;
    for (Answer answer; answer.status != 0; ++starts) {
      REQUIRE(starts < 1000);
      const std::size_t before = lines(text_of(file));
      answer = shell(fmt::format("timeout -s KILL {:.3f} " FA1_PROGRAM " {}{}",
                                 seconds(random) + 0.005 * starts, words, quoted(file)));
      const std::size_t now = lines(text_of(file));
      killed_within += now > 1 && now < all ? 1 : 0;
      CAPTURE(answer.out);
      CHECK(now >= before);
      CHECK((answer.status == 0 || answer.status == 137 || answer.status == -1));
    }
    CHECK(text_of(file) == text_of(scratch / "whole"));
  }

  CHECK(whole.status == 0);
  CHECK(all == 1 + 88);
  CHECK(killed_within > 0); // else nothing was tested
}

TEST_CASE("a file that ends within a line loses that line and is completed", "[reports][quick]") {
  const Scratch scratch;
  sweep_into(scratch / "whole");
  const std::string whole = text_of(scratch / "whole");
  const std::size_t title = whole.find('\n') + 1, second = whole.find('\n', title) + 1;
  const std::size_t kept =
      GENERATE_COPY(std::size_t{0}, std::size_t{1}, title - 1, title, title + 1, second - 1, second,
                    whole.size() - 1, whole.size());
  CAPTURE(kept, whole.size());
  put(scratch / "cut", whole.substr(0, kept));

  const Answer answer = sweep_into(scratch / "cut");

  CHECK(answer.status == 0);
  CHECK(text_of(scratch / "cut") == whole);
  CHECK(lines(answer.out) == 1 + 10 + 2); // header, all points, unit, file
}

TEST_CASE("what a finished sweep proved wrong is still wrong when it is started again",
          "[reports][quick]") {
  const Scratch scratch;
  const std::string words = "sweep --vary n_kv=1,70 'n_q=3 d=5 order=ascending' --kernel "
                            "mutant.no_alpha_on_O.Br4xBc2 --out " +
                            quoted(scratch / "a");

  const Answer first = fa1lab(words);
  const auto written = fs::last_write_time(scratch / "a");
  const Answer again = fa1lab(words);

  CHECK(first.status == 1);
  CHECK(again.status == 1);
  CHECK(again.out == first.out);
  CHECK(fs::last_write_time(scratch / "a") == written);
}

TEST_CASE("a file that this sweep cannot go on with is refused with its line, and left as it is",
          "[reports][quick]") {
  const Scratch scratch;
  const fs::path file = scratch / "a";
  sweep_into(file);
  const auto good = lines_of(text_of(file));
  auto bad = good;
  std::string says, words;
  SECTION("a corrupt line in the middle") {
    bad[4] = bad[4].substr(0, 50) + "\n";
    says = "a:5: is no record (a JSON object on one line); found '{\"what\":\"point\"";
  }
  SECTION("no text at all in the middle") {
    bad[4] = std::string(40, '\0') + "\n";
    says = "a:5: is no record";
  }
  SECTION("a record that is no point") {
    bad[4] = "{\"what\":\"law\"}\n";
    says = "a:5: is no record of a point of this sweep";
  }
  SECTION("a record twice") {
    bad.insert(bad.begin() + 3, bad[2]);
    says = "a:4: holds point 2 where point 3 (n_kv=3 sigma=3) is due";
  }
  SECTION("a record missing") {
    bad.erase(bad.begin() + 3);
    says = "a:4: holds point 4 where point 3 (n_kv=3 sigma=3) is due";
  }
  SECTION("a record too many") {
    bad.push_back(bad.back());
    says = "a:12: comes after the last point";
  }
  SECTION("a record of another recipe") {
    bad[2] = replaced(bad[2], "n_kv=3", "n_kv=4");
    says = "a:3: does not hold the recipe of point 2 (n_kv=3 sigma=2)";
  }
  SECTION("another revision of the program") {
    bad[0] = replaced(bad[0], "\"revision\":\"", "\"revision\":\"older-");
    says = "a:1: is of another version: revision is \"older-";
  }
  SECTION("another format of the records") {
    bad[0] = replaced(bad[0], "\"format\":1", "\"format\":0");
    says = "a:1: is of another version: format is 0";
  }
  SECTION("another sweep") {
    words = "--kernel fa1.Br1xBc1";
    says = "a:1: is of another sweep: kernel is \"fa1\", and \"fa1.Br1xBc1\" of this one";
  }
  SECTION("another part of the sweep") {
    words = "--shard 1/2";
    says = "a:1: is of another part of the sweep: shard is null, and \"1/2\" of this one";
  }
  SECTION("another file") {
    bad = {"Dear diary,\n", "today\n"};
    says = "a:1: is no record (a JSON object on one line); found 'Dear diary,'";
  }
  SECTION("another file of one line without its end") {
    bad = {"Dear diary"};
    says = "is no file of a sweep";
  }
  put(file, joined(bad));

  const Answer answer = sweep_into(file, words);

  check_refused(answer, says, file, joined(bad));
}

TEST_CASE("two processes do not write one file", "[reports][quick]") {
  const Scratch scratch;
  put(scratch / "a", "");

  const Answer answer = shell("flock " + quoted(scratch / "a") + " " FA1_PROGRAM " " + kSweep +
                              "--out " + quoted(scratch / "a"));

  check_refused(answer, "another process is writing it", scratch / "a", "");
}

TEST_CASE("parts joined are the whole, byte for byte", "[reports][quick]") {
  const Scratch scratch;
  const int parts = GENERATE(1, 3, 11); // with 11 parts of 10 points one is empty
  CAPTURE(parts);
  sweep_into(scratch / "whole");
  std::string files;
  for (int part = parts; part >= 1; --part) { // in any order
    const fs::path file = scratch / std::to_string(part).c_str();
    CHECK(sweep_into(file, fmt::format("--shard {}/{}", part, parts)).status == 0);
    files += " " + quoted(file);
  }

  const Answer answer = fa1lab("merge" + files + " --out " + quoted(scratch / "joined"));

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, StartsWith("10 points in "));
  CHECK(text_of(scratch / "joined") == text_of(scratch / "whole"));
}

TEST_CASE("parts that do not make one whole are not joined, and the point is named",
          "[reports][quick]") {
  const Scratch scratch;
  const fs::path a = scratch / "a", b = scratch / "b", out = scratch / "out";
  sweep_into(a, "--shard 1/2");
  sweep_into(b, "--shard 2/2");
  put(out, "what was there before");
  std::string files = quoted(a) + " " + quoted(b), says;
  SECTION("a part missing") {
    files = quoted(a);
    says = "point 2 (n_kv=3 sigma=2) is in none of the 1 files (parts \"1/2\")";
  }
  SECTION("a part unfinished") {
    const std::string text = text_of(b);
    put(b, text.substr(0, text.size() - 9));
    says = "point 10 (n_kv=40 sigma=5) is in none of the 2 files";
  }
  SECTION("a part twice") {
    files += " " + quoted(a);
    says = "point 1 (n_kv=3 sigma=1) is both in '" + a.string() + "' and in '" + a.string() + "'";
  }
  SECTION("parts of two divisions") {
    sweep_into(scratch / "c", "--shard 3/3");
    files += " " + quoted(scratch / "c");
    says = "point 3 (n_kv=3 sigma=3) is both in";
  }
  SECTION("parts of two versions") {
    put(b, replaced(text_of(b), "\"libc\":\"", "\"libc\":\"other "));
    says = "b:1: is of another version: libc is \"other glibc";
  }
  SECTION("parts of two sweeps") {
    put(b, replaced(text_of(b), "\"recipe\":\"n_q=2", "\"recipe\":\"n_q=3"));
    says = "b:1: is of another sweep: recipe is \"n_q=3 d=4\"";
  }
  SECTION("a corrupt line") {
    put(b, replaced(text_of(b), "{\"what\":\"point\",\"point\":4", "[]"));
    says = "b:3: is no record";
  }

  const Answer answer = fa1lab("merge " + files + " --out " + quoted(out));

  check_refused(answer, says, out, "what was there before");
  for (const auto& entry : fs::directory_iterator(out.parent_path()))
    CHECK_THAT(entry.path().filename().string(), !StartsWith("."));
}

TEST_CASE("GNU parallel makes the sweep that one process makes", "[reports][quick]") {
  if (shell("parallel --version").out.rfind("GNU parallel", 0) != 0)
    SKIP("GNU parallel is not installed: apt-get install parallel");
  const Scratch scratch;
  sweep_into(scratch / "whole");

  const Answer answer =
      shell("FA1LAB=" FA1_PROGRAM " PARALLEL_JOBS=2 reports/cluster/parallel.sh 2 " +
            quoted(scratch / "joined") + (kSweep + std::strlen("sweep")));

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK(text_of(scratch / "joined") == text_of(scratch / "whole"));
  CHECK_THAT(text_of(scratch / "joined.part2"), ContainsSubstring("\"shard\":\"2/2\""));
}

TEST_CASE("a part that fails under GNU parallel is an error", "[reports][quick]") {
  if (shell("parallel --version").out.rfind("GNU parallel", 0) != 0)
    SKIP("GNU parallel is not installed: apt-get install parallel");
  const Scratch scratch;
  put(scratch / "joined.part2", "Dear diary,\n");

  const Answer answer =
      shell("FA1LAB=" FA1_PROGRAM " PARALLEL_JOBS=2 reports/cluster/parallel.sh 2 " +
            quoted(scratch / "joined") + (kSweep + std::strlen("sweep")));

  CAPTURE(answer.out);
  CHECK(answer.status == 2);
  CHECK_THAT(answer.out, ContainsSubstring("joined.part2:1: is no record"));
  CHECK(!fs::exists(scratch / "joined"));
}

// ---------------------------------------------------------------------------------------------------
// Comparison
// ---------------------------------------------------------------------------------------------------

TEST_CASE("a result compared with itself is the same", "[reports][quick]") {
  const Scratch scratch;
  sweep_into(scratch / "a");

  const Answer answer = fa1lab("compare " + quoted(scratch / "a") + " " + quoted(scratch / "a"));

  CHECK(answer.status == 0);
  CHECK(answer.out == "0 worse, 0 better, 0 new, 0 lost, 10 the same\n");
}

TEST_CASE("what got worse is told, and a law, a ratchet row, an edge case or a proof fails",
          "[reports][quick]") {
  const Scratch scratch;
  const std::string law = R"({"what":"law","law":"m-exact","kernel":"k","answer":"held","cases":9,)"
                          R"("seed":1,"worst_fraction":0.5})";
  const std::string error = R"({"what":"point","recipe":"n_q=1","kernel":"k","verdict":)"
                            R"("proved right","max_error":2,"rms_error":1,"max_fraction":0.5})";
  const std::string edge = R"({"what":"edge-case","id":"e","as_catalogued":true})";
  const std::string ratchet = "key,worst,median,cases,how\na,0.5,0.1,10,x";
  struct Example {
    std::string before, after, says;
    int status;
  };
  const auto example = GENERATE_COPY(values<Example>({
      {law, replaced(law, "held", "violated"), "worse  law       m-exact on k: held -> violated",
       1},
      {law, replaced(law, "held", "not-applicable"), "worse  law", 1},
      {law, replaced(law, "0.5", "0.6"), "m-exact on k: worst_fraction 0.5 -> 0.6", 1},
      {law, replaced(law, "0.5", "\"NaN\""), "worse  law", 1},
      {replaced(law, "0.5", "\"NaN\""), law, "better law", 0},
      {law, replaced(replaced(law, "0.5", "0.6"), "9", "99"), "1 the same", 0}, // other cases
      {law, replaced(law, "0.5", "0.4"), "better law", 0},
      {law, replaced(law, "m-exact", "other"), "1 new, 1 lost", 0},
      {error, replaced(error, "1,", "1.5,"), "worse  error     'n_q=1' on k: rms_error 1 -> 1.5",
       0},
      {error, replaced(error, "proved right", "suspicious"), "proved right -> suspicious", 0},
      {error, replaced(error, "proved right", "proved wrong"), "proved right -> proved wrong", 1},
      {replaced(error, "proved right", "proved wrong"), error, "better error", 0},
      {edge, replaced(edge, "true", "false"), "worse  edge-case e: as catalogued -> not", 1},
      {ratchet, replaced(ratchet, "0.5", "0.6"), "worse  ratchet   a: worst 0.5 -> 0.6", 1},
      {ratchet, replaced(ratchet, "0.1", "0.05"), "better ratchet   a: median", 0},
      {R"({"what":"fa1lab report","seed":1,"laws":[{"id":"i","cases":9,"kernels":[)" +
           replaced(law, "\"what\":\"law\",", "") + "]}],\"edge_cases\":[" + edge + "]}",
       R"({"what":"fa1lab report","seed":1,"laws":[{"id":"i","cases":9,"kernels":[)" +
           replaced(replaced(law, "\"what\":\"law\",", ""), "held", "violated") +
           "]}],\"edge_cases\":[" + edge + "]}",
       "worse  law       m-exact on k: held -> violated\n1 worse, 0 better, 0 new, 0 lost, 1 the "
       "same",
       1},
  }));
  put(scratch / "old", example.before + "\n");
  put(scratch / "new", example.after + "\n");

  const std::string words = "compare " + quoted(scratch / "old") + " " + quoted(scratch / "new");
  const Answer answer = fa1lab(words);
  const Answer json = fa1lab(words + " --json");

  CAPTURE(example.before, example.after, answer.out);
  CHECK(answer.status == example.status);
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  CHECK(json.status == example.status);
  CHECK(lines(json.out) == lines(answer.out) - 1);
  CHECK((json.out.find("\"fails\":true") != std::string::npos) == (example.status == 1));
}

TEST_CASE("checks and sweeps of a right and a wrong kernel can be compared", "[reports][quick]") {
  const Scratch scratch;
  const auto check_into = [&](const char* file, const std::string& kernel) {
    const std::string text =
        fa1lab("check --invariant o-rescale --cases 20 --json --kernel " + kernel).out;
    put(scratch / file, replaced(text, kernel, "the kernel"));
  };
  check_into("right", "fa1.Br4xBc2xD8.cpu");
  check_into("wrong", "mutant.no_alpha_on_O.Br4xBc2xD8.cpu");

  const Answer answer =
      fa1lab("compare " + quoted(scratch / "right") + " " + quoted(scratch / "wrong"));

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  CHECK_THAT(answer.out, StartsWith("worse  law       o-rescale on the kernel: held -> violated"));
}

TEST_CASE("a corrupt result is refused with its line", "[reports][quick]") {
  const Scratch scratch;
  put(scratch / "a", "{\"what\":\"edge-case\",\"id\":\"e\"}\n{\"what\":\n");

  const Answer answer = fa1lab("compare " + quoted(scratch / "a") + " " + quoted(scratch / "a"));

  check_refused(answer, "a:2: is no record", scratch / "a", text_of(scratch / "a"));
}

// ---------------------------------------------------------------------------------------------------
// The ratchet
// ---------------------------------------------------------------------------------------------------

TEST_CASE("a ratchet row is tightened freely, and loosened with a reason that the file keeps",
          "[reports][quick]") {
  const Scratch scratch;
  const fs::path file = scratch / "ratchet.csv";
  const std::string begin = "key,worst,median,cases,how\n", words = " --file " + quoted(file);
  put(file, begin + "a,0.5,0.1,10,x\n");

  const Answer tightened = fa1lab("ratchet --update a,0.4,0.1,10,x" + words);
  const std::string tight = text_of(file);
  const Answer refused = fa1lab("ratchet --update a,0.41,0.1,10,x" + words);
  const Answer loosened =
      fa1lab("ratchet --update a,0.41,0.1,10,x --reason 'the mirror rounds l now'" + words);
  const std::string loose = text_of(file);
  const Answer listed = fa1lab("ratchet" + words);
  put(file, replaced(loose, "a,0.41", "a,0.91"));
  const Answer by_hand = fa1lab("ratchet" + words);

  CAPTURE(tightened.out, refused.out, loosened.out);
  CHECK(tightened.status == 0);
  CHECK(tightened.out == "tightened a,0.4,0.1,10,x\n");
  CHECK_THAT(tight, StartsWith(begin + "a,0.4,0.1,10,x\n# seal "));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.out, ContainsSubstring("would loosen 'a,0.4,0.1,10,x'; want --reason TEXT"));
  CHECK(loosened.status == 0);
  CHECK_THAT(loose, StartsWith(begin + "# a: loosened from 0.4,0.1,10: the mirror rounds l now\n"
                                       "a,0.41,0.1,10,x\n# seal "));
  CHECK(listed.out == loose);
  CHECK(by_hand.status == 2);
  CHECK_THAT(by_hand.out, ContainsSubstring("was changed by hand"));
}

TEST_CASE("a refused ratchet row leaves the file as it is", "[reports][quick]") {
  const Scratch scratch;
  const fs::path file = scratch / "ratchet.csv";
  const std::string before = "key,worst,median,cases,how\na,0.5,0.1,10,x\n";
  put(file, before);

  const Answer answer =
      fa1lab("ratchet --update a,0.4,0.1,10,x a,0.9,0.1,10,x --file " + quoted(file));

  check_refused(answer, "would loosen", file, before);
}
