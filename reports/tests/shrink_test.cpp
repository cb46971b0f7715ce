// Claims about `shrink` as a person at a shell meets it, and about the sources that it leaves.
#include "reports/commands/shrink.hpp"

#include "reports/emit.hpp"
#include "reports/records.hpp"
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using fa1::reports::Json;
using fa1::reports::tests::Answer;
using fa1::reports::tests::fa1lab;
using fa1::reports::tests::lines;
using fa1::reports::tests::pasted;
using fa1::reports::tests::Scratch;
using fa1::reports::tests::shell;
using fa1::reports::tests::text_of;

namespace {

constexpr std::size_t kMostLines = 100;

/// A mutant whose fault shows in O, and one whose fault shows in l and m alone.
struct Example {
  const char *mutant, *right, *wrong; ///< what the source holds, and the fault that is typed in
};
const Example kInO{"no_alpha_on_O", "alpha * l * o[", "l * o["};
const Example kInM{"max_not_handed_out", "lse[row] = m + logf(l)", "lse[row] = logf(l)"};

/// `shrink` of a failing problem of `mutant` to `file`.
Answer shrunk(const std::string& mutant, const std::string& file, const std::string& options) {
  return fa1lab("shrink 'bh=2 n_q=6 n_kv=12 d=4' --kernel mutant." + mutant + ".Br4xBc2 --out " +
                file + " " + options);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

} // namespace

TEST_CASE("shrink leaves a case that repro, run, trace and judge read, with a line that proves it "
          "wrong again",
          "[reports][quick]") {
  const Scratch folder;
  const std::string file = (folder / "case.safetensors").string();

  const Answer answer = shrunk("no_alpha_on_O", file, "--json");

  CAPTURE(answer.out);
  REQUIRE(answer.status == 1);
  const Json record = Json::parse(answer.out);
  CHECK(record["shape"]["n_kv"] == 3);
  CHECK(record["shape"]["d"] == 1);
  CHECK(record["looks_like"] == "no_alpha_on_O");
  CHECK(record["complete"] == true);
  const std::string replay = record["reproduce"];
  CHECK(pasted(replay).status == 1);
  const Answer repro = fa1lab("repro --json " + file);
  CHECK(repro.status == 1);
  CHECK(Json::parse(repro.out)["recipe"] == record["recipe"]);
  CHECK(Json::parse(repro.out)["kernel"] == record["kernel"]);
  CHECK(fa1lab("repro --kernel fa1.Br4xBc2 " + file).status == 0);
  CHECK(fa1lab("run " + file).status == 1);
  CHECK(fa1lab("trace --json " + file).status == 1);
  CHECK(fa1lab("judge --scale 1 " + file).status == 1);
  CHECK(folder.entries() == 1);
  const std::string first = text_of(file);
  REQUIRE(shrunk("no_alpha_on_O", file, "--json").out == answer.out);
  CHECK(text_of(file) == first);
}

TEST_CASE("a case of two heads that differ is replayed by repro and refused by what wants a recipe",
          "[reports][quick]") {
  const Scratch folder;
  const std::string file = (folder / "case.safetensors").string();

  const Answer answer = shrunk("heads_share_values", file, "--json");

  REQUIRE(answer.status == 1);
  CHECK(Json::parse(answer.out)["recipe"].is_null());
  CHECK(Json::parse(answer.out)["shape"]["batch_heads"] == 2);
  CHECK(fa1lab("repro " + file).status == 1);
  const Answer run = fa1lab("run " + file);
  CHECK(run.status == 2);
  CHECK_THAT(run.out, ContainsSubstring("want `fa1lab repro`"));
}

TEST_CASE("where nothing is wrong there is nothing to shrink, and no file", "[reports][quick]") {
  const Scratch folder;

  const Answer answer =
      fa1lab("shrink 'n_q=6 n_kv=12 d=4' --emit c --out " + (folder / "case.safetensors").string());

  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, ContainsSubstring("nothing to shrink: nothing is proved wrong"));
  CHECK(folder.empty());
}

TEST_CASE("tensors in a file are shrunk with a kernel, and refused without one",
          "[reports][quick]") {
  const Scratch folder;
  const std::string file = (folder / "case.safetensors").string(),
                    smaller = (folder / "smaller.safetensors").string(),
                    plain = (folder / "plain.safetensors").string();
  REQUIRE(shrunk("no_alpha_on_O", file, "--runs 1").status == 1); // the whole problem in a file
  // The same tensors as somebody else would have written them.
  std::ofstream(plain, std::ios::binary)
      << replaced(text_of(file), "fa1lab shrunk case", "somebody's tensors");

  const Answer without = fa1lab("shrink " + plain + " --out " + smaller);
  const Answer with =
      fa1lab("shrink " + plain + " --json --kernel mutant.no_alpha_on_O.Br4xBc2 --out " + smaller);
  const Answer other_name = fa1lab("shrink " + plain + " --q query --kernel fa1 --out " + smaller);

  CHECK(without.status == 2);
  CHECK_THAT(without.out, ContainsSubstring("want --plugin LIB.so or --kernel K"));
  REQUIRE(with.status == 1);
  CHECK(Json::parse(with.out)["shape_before"]["batch_heads"] == 2);
  CHECK(Json::parse(with.out)["shape_before"]["n_kv"] == 12);
  CHECK(Json::parse(with.out)["shape"]["n_kv"] == 3);
  CHECK(other_name.status == 2);
  CHECK_THAT(other_name.out, ContainsSubstring("has no tensor 'query'"));
}

TEST_CASE("a case of a plug-in asks for the plug-in, and is wrong with it", "[reports][quick]") {
  const Scratch folder;
  const std::string file = (folder / "case.safetensors").string();
  const std::string plugin = " --plugin " FA1_PLUGINS "no_alpha_on_O.so";

  const Answer answer = fa1lab("shrink 'n_q=6 n_kv=12 d=4' --json --out " + file + plugin);

  REQUIRE(answer.status == 1);
  CHECK(Json::parse(answer.out)["shape"]["n_kv"] == 6); // a tile of 5 keys, and one more
  const Answer without = fa1lab("repro " + file);
  CHECK(without.status == 2);
  CHECK_THAT(without.out, ContainsSubstring("want" + plugin));
  CHECK(fa1lab("repro " + file + plugin).status == 1);
}

TEST_CASE("shrink --help has an example", "[reports][quick]") {
  const Answer answer = fa1lab("shrink --help");

  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, ContainsSubstring("Example") && ContainsSubstring("fa1lab shrink '"));
}

TEST_CASE("what shrink does not understand is refused in one line", "[reports][quick]") {
  struct Bad {
    const char *words, *says;
  };
  const auto bad = GENERATE(values<Bad>({
      {"'n_kv=3 d=2' --emit fortran", "'fortran' is unknown; want one of c, cuda, python"},
      {"'n_kv=3 d=2' --runs 0", "--runs 0: want a whole number from 1"},
      {"'n_kv=3 d=2' --out /proc/none/case.safetensors", "/proc/none"},
      {"a.npy b.npy", "2 files; want Q K V"},
      {"no-such-file", "no-such-file"},
  }));

  const Answer answer = fa1lab(std::string("shrink ") + bad.words);

  CHECK(answer.status == 2);
  CHECK(lines(answer.out) == 1);
  CHECK_THAT(answer.out, ContainsSubstring(bad.says));
}

TEST_CASE("the C source passes as it stands and fails with the mutant's fault typed in",
          "[reports][quick]") {
  const auto example = GENERATE(kInO, kInM);
  const Scratch folder;
  const std::string source = (folder / "case.c").string(), fault = (folder / "fault.c").string();

  REQUIRE(shrunk(example.mutant, (folder / "case.safetensors").string(), "--emit c").status == 1);

  const std::string text = text_of(source);
  CAPTURE(text);
  CHECK(lines(text) < kMostLines);
  std::ofstream(fault) << replaced(text, example.right, example.wrong);
  const auto built = [&](const std::string& file) {
    const std::string program = file + ".out";
    return shell("cc -std=c99 -Wall -Wextra -Werror " + file + " -lm -o " + program + " && " +
                 program);
  };
  const Answer right = built(source), wrong = built(fault);
  CHECK(right.out == "PASS\n");
  CHECK(right.status == 0);
  CHECK_THAT(wrong.out, EndsWith("FAIL\n"));
  CHECK(wrong.status == 1);
}

TEST_CASE("the Python source passes as it stands and fails with the mutant's fault typed in",
          "[reports][quick]") {
  const Scratch folder;
  const std::string source = (folder / "case.py").string(), fault = (folder / "fault.py").string();

  REQUIRE(shrunk("no_alpha_on_O", (folder / "case.safetensors").string(), "--emit python").status ==
          1);

  const std::string text = text_of(source);
  CAPTURE(text);
  CHECK(lines(text) < kMostLines);
  std::ofstream(fault) << replaced(text, "(alpha * l * x", "(l * x");
  const Answer right = shell(FA1_PYTHON " " + source), wrong = shell(FA1_PYTHON " " + fault);
  CHECK(right.out == "PASS\n");
  CHECK(right.status == 0);
  CHECK_THAT(wrong.out, EndsWith("FAIL\n"));
  CHECK(wrong.status == 1);
}

TEST_CASE("the CUDA source compiles and, where there is a device, passes", "[reports][deep]") {
  const Scratch folder;
  const std::string source = (folder / "case.cu").string();
  const auto example = GENERATE(kInO, kInM);

  REQUIRE(shrunk(example.mutant, (folder / "case.safetensors").string(), "--emit cuda").status ==
          1);

  CHECK(lines(text_of(source)) < kMostLines);
  const std::string nvcc = shell("command -v nvcc || ls /usr/local/cuda/bin/nvcc").out;
  if (shell(nvcc.substr(0, nvcc.find('\n')) + " --version").status != 0)
    SKIP("no nvcc on PATH or in /usr/local/cuda/bin");
  const std::string program = source + ".out";
  const Answer build =
      shell(nvcc.substr(0, nvcc.find('\n')) + " -Werror all-warnings " + source + " -o " + program);
  CAPTURE(build.out);
  REQUIRE(build.status == 0);
  const Answer answer = shell(program);
  CHECK(answer.out == (answer.status == 3 ? "no CUDA device\n" : "PASS\n"));
  CHECK((answer.status == 0 || answer.status == 3));
}
