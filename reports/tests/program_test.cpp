// Claims about the program as a person at a shell meets it: what it prints, and the status it ends with. Each test starts
// the program itself.
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

using fa1::reports::tests::Answer;
using fa1::reports::tests::fa1lab;
using fa1::reports::tests::lines;
using fa1::reports::tests::Scratch;
using fa1::reports::tests::shell;
using fa1::reports::tests::text_of;

namespace {

constexpr int kSkipped = 4; ///< the status that CMakeLists.txt tells ctest to count as skipped

/// A page without what the truth cost, which is the one thing that differs from run to run.
std::string without_costs(std::string page) {
  const std::string end = "</section>";
  const std::size_t from = page.rfind("<section>", page.find("<h2 id=\"costs\">"));
  const std::size_t to = page.find(end, from);
  REQUIRE(from < to);
  REQUIRE(to != std::string::npos);
  return page.erase(from, to + end.size() - from);
}

/// Files held against a schema of reports/schema/; SKIP where this machine has nothing that does it.
Answer validated(const std::string& schema, const std::string& files) {
  Answer answer = shell("(" FA1_PYTHON " -B reports/schema/validate.py reports/schema/" + schema +
                        ".schema.json " + files + ")");
  constexpr int kNoPython = 127;
  if (answer.status == kSkipped || answer.status == kNoPython)
    SKIP("no python3 with python3-jsonschema: " << answer.out);
  return answer;
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

} // namespace

TEST_CASE("bad input is one line that says what would be right, and status 2", "[reports][quick]") {
  struct Example {
    const char* words;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"", "want a command: one of report repro run check sweep merge compare ratchet precision "
           "papers list bench trace judge budget bias worst claim"},
      {"frobnicate",
       "command 'frobnicate' is unknown; want one of report repro run check sweep "
       "merge compare ratchet precision papers list bench trace judge budget bias worst claim"},
      {"--frobnicate", "command '--frobnicate' is unknown; want one of"},
      {"run", "run: RECIPE is required"},
      {"run n_q=1 n_q=2", "run: "},
      {"run nowhere.json", "nor is it a file, nor a recipe"},
      {"run --frobnicate n_q=1", "--frobnicate"},
      {"run 'keys=3'", "unknown key 'keys'"},
      {"run 'n_kv=many'", "n_kv=many"},
      {"run 'n_kv=-1'", "n_kv=-1"},
      {"repro 'n_kv=1000000000 d=256'", "take the keys in chunks"},
      {"run 'scale=nan'", "scale=nan: want a finite"},
      {"run 'd=257'", "d=257"},
      {"run n_q=1 --truth tea-leaves",
       "--truth 'tea-leaves' is unknown; want one of auto, cpu, gpu"},
      {"run 'n_q=1' --kernel fa3", "kernel 'fa3' is unknown"},
      {"run 'd=256' --kernel fa1.Br32xBc32", "d=256"},
      {"list", "LIST is required"},
      {"list everything",
       "list 'everything' is unknown; want one of kernels invariants cases inputs formats"},
      {"check --cases none", "--cases none: want a whole number from 1 to"},
      {"check --cases 0", "--cases 0: want"},
      {"check --seed -1", "--seed"},
      {"check --kernel none", "kernel 'none' is unknown"},
      {"check --invariant none", "none"},
      {"sweep n_q=1", "--vary is required"},
      {"sweep --vary keys=1,2 n_q=1", "a recipe has no key 'keys'"},
      {"sweep --vary n_kv=9..1 n_q=1", "backwards"},
      {"sweep --vary n_kv= n_q=1", "a value is missing"},
      {"sweep --vary n_kv=1..8:1 n_q=1", "2 or more"},
      {"sweep --vary seed=1..1000000000+1 n_q=1", "1000000000 values; want at most 1000000"},
      {"sweep --vary seed=1..10001+1 n_q=1", "are 10001 runs; want at most 10000, or --yes"},
      {"sweep --vary d=1..100+1 --vary n_kv=1..1000+1 --vary seed=1..10000+1 n_q=1",
       "100000 points of 10000 seeds each are 1000000000 runs; want at most 10000, or --yes"},
      {"sweep --vary n_kv=1..9+0 n_q=1", "a positive step"},
      {"sweep --vary sigma=9..1+1 n_q=1", "backwards"},
      {"sweep --vary kernel=fa1,none n_q=1", "kernel 'none' is unknown"},
      {"sweep --vary kernel=fa1 n_q=1 --kernel fa1", "want neither --kernel nor --plugin"},
      {"sweep --vary n_kv=1,2 n_q=1 --shard 3/2", "there is no part 3 of 2; want 1/2 to 2/2"},
      {"sweep --vary n_kv=1,2 n_q=1 --shard 0/2", "there is no part 0 of 2"},
      {"sweep --vary n_kv=1,2 n_q=1 --shard 2", "--shard 2: want i/n"},
      {"sweep --vary n_kv=1,2 n_q=1 --shard 1/2 --out x.csv", "a part is no CSV file"},
      {"sweep --vary n_kv=1,2 n_q=1 --threads 0", "--threads 0: want"},
      {"sweep --vary n_kv=1,2 n_q=1 --out /none/there.jsonl",
       "cannot write '/none/there.jsonl': No such file"},
      {"merge", "FILES is required"},
      {"merge /none/there --out /none/out", "'/none/there': cannot be read"},
      {"compare /none/there /none/there", "'/none/there': cannot be read"},
      {"compare /dev/null /dev/null", "'/dev/null': holds no law"},
      {"ratchet --reason because", "are for --update"},
      {"ratchet --update one,two", "want key,worst,median,cases,how"},
      {"ratchet --file /none/there", "cannot read /none/there"},
      {"sweep --vary n_kv=1,2 n_q=1 --out /none/there.csv",
       "cannot write '/none/there.csv': No such file"},
      {"sweep --vary d=1,300 n_q=1", "d=300"},
      {"report --quick --full", "--full"},
      {"report --out /proc/none/out", "cannot write"},
      {"report --out /proc", "/proc"},
      {"report --seed x", "--seed x: want"},
      {"judge", "judge: FILES is required"},
      {"judge a b c", "3 files; want Q K V O, or Q K V and --o FILE, or one file"},
      {"judge /none/there", "/none/there: cannot be opened: No such file"},
      {"check --kernel all.cpu-fast", "build 'cpu-fast' is unknown; want one of cpu, cpu-"},
      {"builds --variant fa9", "variant 'fa9' is unknown; want one of `fa1lab list variants`"},
      {"judge /dev/null", "/dev/null: is a device; want a regular file"},
      {"judge README.md", "want a safetensors, npy or npz file"},
      {"judge README.md --layout hnd", "--layout 'hnd' is unknown; want one of bhnd, bnhd"},
      {"judge README.md --arithmetic fp4", "--arithmetic 'fp4' is unknown; want one of fp32, tf32"},
      {"judge README.md --scale nan", "--scale nan: want a finite fp32 number"},
      {"judge README.md --rows 0", "--rows 0: want a whole number from 1 to"},
      {"judge README.md --base2-lse", "there is no LSE; want --lse too"},
      {"judge README.md --causal left", "--causal 'left' is unknown; want one of top-left, bottom"},
      {"judge README.md --window 3", "--window 3: want LEFT,RIGHT"},
      {"judge README.md --empty-row 1", "--empty-row '1' is unknown; want one of zero, nan"},
      {"judge README.md --softcap 0", "--softcap 0: want a finite fp32 number above 0"},
      {"judge README.md --tanh-approx", "there is no soft cap; want --softcap too"},
      {"judge README.md --mask-true-is-masked", "there is no mask; want --mask too"},
      {"judge a b c d --key-lengths 3,x", "3,x: cannot be opened"},
      {"judge a b c d --q q", "'q' names an array in one file"},
      {"precision", "precision: RECIPE is required"},
      {"precision n_q=1 --config fa4",
       "--config: configuration 'fa4' is unknown; want STAGE=FORMAT,... or one of fp32 tf32"},
      {"precision n_q=1 --config p=fp12", "'p=fp12': want STAGE=FORMAT, the format one of fp32"},
      {"precision n_q=1 --config q=bf16", "stage 'q' is unknown; want one of all inputs"},
      {"precision n_q=1 --tile 0", "--tile 0: want a whole number from 1 to"},
      {"precision 'n_kv=many'", "n_kv=many"},
      {"papers --frobnicate", "--frobnicate"},
      {"budget", "budget: RECIPE is required"},
      {"budget n_q=1 --Bc 0", "--Bc 0: want a whole number from 1 to"},
      {"budget n_q=1 --rounded p=bf16", "stage 'p' is unknown; want one of dot scale"},
      {"budget n_q=1 --rounded pv", "--rounded 'pv': want STAGE=FORMAT"},
      {"budget n_q=1 --kernel mutant.no_alpha", "want one whose order of operations is known"},
      {"budget scores=nan", "budget: "},
      {"bias --seeds 1", "--seeds 1: want a whole number from 2 to"},
      {"bias 'n_q=1 seed=2'", "seed"},
      {"bias d=64", "d=64 dv=64: the kernels that are compared serve d and dv up to 4"},
      {"bias --kernel none", "kernel 'none' is unknown"},
      {"bench --filter nothing",
       "'nothing' matches no subject; want one that matches any of certify"},
      {"bench --filter -.", "'-.' matches no subject"},
      {"bench --filter '('", "--filter '(' is no regular expression"},
      {"bench --keys 0", "--keys 0: want a whole number from 1"},
      {"bench --d 257", "--d 257: want a whole number from 1 to 256"},
      {"bench --keys 131073", "want at most 131072 keys for this d"},
      {"bench --min-time 0", "--min-time 0: want seconds"},
      {"trace", "trace: ID|RECIPE|FILE is required"},
      {"trace nothing", "trace: --out is required"},
      {"trace nothing --out t.html", "edge case 'nothing' is unknown"},
      {"trace n_kv=4 --out /none/there.html", "cannot write '/none/there.html': No such file"},
      {"trace n_kv=4 --out /dev/full", "cannot write '/dev/full': No space left on device"},
      {"trace l-stagnation --json", "n_kv up to 64 fits"},
      {"trace 'n_q=64 n_kv=64 d=256' --json", "want a smaller problem or wider tiles"},
      {"trace n_kv=4 --stranger o --json", "the steps of variant 'stranger' are not known"},
      {"trace n_kv=4 --stranger olm --json", "lazy_rescale, a mutant or a rewrite of fa1"},
      {"worst", "worst: RECIPE is required"},
      {"worst n_kv=0", "want n_q, n_kv, d and dv of at least 1"},
      {"worst 'bh=2 n_kv=4'", "want one batch-head and all rows"},
      {"worst n_kv=4 --objective speed",
       "--objective 'speed' is unknown; want one of error, bound"},
      {"worst n_kv=4 --evaluations 0", "--evaluations 0: want a whole number from 1"},
      {"worst n_kv=4 --seconds forever", "--seconds forever: want seconds from 0.001 to 3600"},
      {"worst n_kv=4 --vary keys=3", "a recipe has no key 'keys'"},
      {"worst n_kv=4 --largest-score 0", "--largest-score 0: want a number above 0"},
      {"worst 'n_kv=4 V=inf*' --evaluations 20", "none of the 20 problems counts"},
      {"worst n_kv=4 --from /none/there", "file '/none/there' cannot be read"},
      {"worst n_kv=4 --out /proc/none", "folder '/proc/none': want one that can be written"},
      {"exp --on tpu", "--on 'tpu' is unknown; want one of cpu, gpu"},
      {"exp --function cosf", "--function 'cosf' is unknown; want one of expf, exp2f"},
      {"exp --from 1 --to -1", "--from 1 --to -1: backwards"},
      {"exp --from nan", "--from nan: want a number such as"},
      {"exp --to 3x", "--to 3x: want a number such as"},
      {"exp --every 0", "--every 0: want a whole number from 1 to 4294967295"},
      {"exp --threads 0", "--threads 0: want"},
      {"exp --every 99999999 --out /none/there", "cannot write '/none/there': No such file"},
      {"claim", "claim: CLAIM is required"},
      {"claim 'error <= 3**u'", "claim: column 12, 'error <= 3*<here>*u': want a number"},
      {"claim 'error <= u for n_kv<=many'", "n_kv<=<here>many': want a number"},
      {"claim 'error <= log2(0-n_kv)' --evaluations 16", "the expression is no number for"},
      {"claim 'error <= u for d=64 kernel=mutant.no_alpha' --evaluations 16",
       "none of 16 problems counts"},
  }));
  CAPTURE(example.words);

  const Answer answer = fa1lab(example.words);

  CAPTURE(answer.out);
  CHECK(answer.status == 2);
  CHECK_THAT(answer.out, StartsWith("fa1lab: "));
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  CHECK(lines(answer.out) == 1);
}

TEST_CASE("what this machine lacks is status 3", "[reports][quick]") {
  const Answer no_gnuplot = shell("env PATH=/none " FA1_PROGRAM " report --quick");

  CHECK(no_gnuplot.status == 3);
  CHECK_THAT(no_gnuplot.out, ContainsSubstring("gnuplot-nox"));
  CHECK(lines(no_gnuplot.out) == 1);
}

TEST_CASE("the truth comes from a GPU where one is asked for, and its lack is status 3",
          "[reports][cuda][quick]") {
  const Answer by_gpu = fa1lab("run 'n_q=3 n_kv=70 d=5' --truth gpu");
  const Answer by_cpu = fa1lab("run 'n_q=3 n_kv=70 d=5' --truth cpu");

  CAPTURE(by_gpu.out);
  if (by_gpu.status == 3) {
    CHECK_THAT(by_gpu.out, StartsWith("fa1lab: --truth gpu: "));
    CHECK(lines(by_gpu.out) == 1);
  } else {
    CHECK(by_gpu.status == 0);
    CHECK_THAT(by_gpu.out, ContainsSubstring("truth     double-double, in tiles\n"));
  }
  CHECK_THAT(by_cpu.out, ContainsSubstring("truth     double-double\n"));
}

#if defined(__x86_64__)
TEST_CASE("a process that flushes subnormals is refused before anything is measured",
          "[reports][plugin][quick]") {
  // A library built with -ffast-math does it to whoever loads it.
  const Answer flushed = shell("env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" FA1_PLUGINS
                               "fast_math.so " FA1_PROGRAM " run n_q=1");
  const Answer sound = fa1lab("run n_q=1");

  CAPTURE(flushed.out);
  CHECK(flushed.status == 3);
  CHECK_THAT(flushed.out, StartsWith("fa1lab: subnormal numbers are flushed to zero"));
  CHECK(lines(flushed.out) == 1);
  CHECK(sound.status == 0);
}
#endif

TEST_CASE("no keys and no queries are answered and not an error", "[reports][quick]") {
  const auto* const recipe = GENERATE("n_q=0 n_kv=2 d=3 dv=2", "n_q=2 n_kv=0 d=3 dv=2");
  const auto* const command = GENERATE("run", "repro");
  CAPTURE(recipe, command);

  const Answer answer = fa1lab(std::string(command) + " '" + recipe + "'");

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, !ContainsSubstring("nan"));
}

TEST_CASE("the layout of the tensors is told", "[reports][quick]") {
  CHECK_THAT(fa1lab("list formats").out,
             ContainsSubstring("[batch_heads][rows][columns], row-major"));
}

TEST_CASE("a run of tests that ran none is a failure", "[reports][quick]") {
  const auto presets = nlohmann::json::parse(text_of("CMakePresets.json"))["testPresets"];
  const auto own_program = fs::read_symlink("/proc/self/exe").string();
  std::map<std::string, bool> fails;
  for (const auto& preset : presets) {
    const bool states =
        preset.contains("execution") && preset["execution"].value("noTestsAction", "") == "error";
    fails[preset["name"]] =
        states || (preset.contains("inherits") && fails[preset["inherits"].get<std::string>()]);
  }

  const Answer none = shell("'" + own_program + "' 'a test that does not exist'");

  CHECK(fails.size() > 1);
  for (const auto& [name, does] : fails) {
    CAPTURE(name);
    CHECK(does);
  }
  CHECK(none.status != 0);
  CHECK(none.status != kSkipped);
}

TEST_CASE("a disk that is full behind the output is status 2", "[reports][quick]") {
  const Answer list = shell("(" FA1_PROGRAM " list inputs >/dev/full)");
  const Answer sweep = fa1lab("sweep --vary n_kv=1,2 n_q=1 --json --out /dev/full");

  CHECK(list.status == 2);
  CHECK_THAT(list.out, ContainsSubstring("cannot write to standard output"));
  CHECK(sweep.status == 2);
  CHECK_THAT(sweep.out, EndsWith("fa1lab: cannot write '/dev/full': No space left on device\n"));
}

TEST_CASE("help has an example for every command", "[reports][quick]") {
  const auto* const command =
      GENERATE("report", "repro", "run", "check", "sweep", "merge", "compare", "ratchet",
               "precision", "papers", "list", "bench", "trace", "exp");
  CAPTURE(command);

  const Answer answer = fa1lab(std::string(command) + " --help");

  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, ContainsSubstring("Example"));
  CHECK_THAT(answer.out, ContainsSubstring("fa1lab " + std::string(command)));
}

TEST_CASE("a run says its verdict and the worst element", "[reports][quick]") {
  const Answer answer = fa1lab("run 'n_q=3 n_kv=70 d=5 dist=normal seed=1' --kernel fa1.Br4xBc2");

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, StartsWith("recipe    n_q=3 n_kv=70 d=5\n"
                                    "kernel    fa1.Br4xBc2xD8.cpu\n"
                                    "verdict   proved right\n"
                                    "worst     "));
  CHECK_THAT(
      answer.out,
      EndsWith("reproduce ./fa1lab repro 'n_q=3 n_kv=70 d=5' --kernel fa1.Br4xBc2xD8.cpu\n"));
  CHECK(answer.out.find('\033') == std::string::npos); // no colours in a pipe
}

TEST_CASE("a run of a wrong kernel is status 1", "[reports][quick]") {
  const Answer answer =
      fa1lab("run 'n_q=3 n_kv=70 d=5 order=ascending' --kernel mutant.no_alpha_on_O.Br4xBc2");

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  CHECK_THAT(answer.out, ContainsSubstring("proved wrong"));
}

TEST_CASE("a wrong output is told with where it parts from the truth and what it looks like",
          "[reports][quick]") {
  const std::string words =
      GENERATE("run 'n_q=3 n_kv=70 d=5 order=ascending' --kernel mutant.no_alpha_on_O.Br4xBc2",
               "repro 'n_q=3 n_kv=70 d=5 order=ascending' --kernel mutant.no_alpha_on_O.Br4xBc2",
               "repro 'n_q=3 n_kv=70 d=5 order=ascending' --stranger o --kernel "
               "mutant.no_alpha_on_O.Br4xBc2",
               "check --invariant truth --cases 40 --kernel mutant.no_alpha_on_O.Br4xBc2xD8.cpu");
  CAPTURE(words);

  const Answer text = fa1lab(words);
  const Answer record = fa1lab(words + " --json");

  CAPTURE(text.out, record.out);
  CHECK(text.status == 1);
  CHECK_THAT(text.out, ContainsSubstring("parts at"));
  CHECK_THAT(text.out, ContainsSubstring("looks like"));
  CHECK_THAT(text.out, ContainsSubstring("the carried O is not rescaled when the maximum rises"));
  CHECK(record.status == 1);
  REQUIRE(lines(record.out) == 1);
  const auto diagnosis = nlohmann::json::parse(record.out)["diagnosis"];
  CHECK(diagnosis["keys"] >= 2);
  CHECK(std::ranges::any_of(diagnosis["suspects"], [](const auto& suspect) {
    return suspect["fault"] == "no_alpha_on_O";
  }));
}

TEST_CASE("a right output has no diagnosis", "[reports][quick]") {
  const std::string words = GENERATE("run n_kv=9", "repro n_kv=9", "check --invariant truth");

  const Answer text = fa1lab(words);
  const Answer record = fa1lab(words + " --json");

  CAPTURE(text.out, record.out);
  CHECK(text.status == 0);
  CHECK_THAT(text.out, !ContainsSubstring("looks like"));
  CHECK(nlohmann::json::parse(record.out)["diagnosis"].is_null());
}

TEST_CASE("what is only suspicious is told, and is status 0", "[reports][quick]") {
  // Inside the bound, and several times the expected error.
  const std::string words = GENERATE(
      "run 'n_q=4 n_kv=2000 d=8' --kernel mutant.half_reciprocal",
      "repro 'n_q=4 n_kv=2000 d=8' --kernel mutant.half_reciprocal",
      "sweep --vary n_kv=1500,2000 'n_q=4 d=8' --kernel mutant.half_reciprocal",
      "check --invariant truth --cases 200 --kernel mutant.approximate_reciprocal.Br1xBc1xD8.cpu");
  CAPTURE(words);

  const Answer answer = fa1lab(words);

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, ContainsSubstring("suspicious"));
  CHECK_THAT(answer.out, !ContainsSubstring("looks like"));
}

TEST_CASE("with --json every command prints one object a line", "[reports][quick]") {
  struct Example {
    const char* words;
    std::size_t records;
    const char* what;
  };
  const auto example = GENERATE(values<Example>({
      {"run n_kv=9 --json", 1, "error"},
      {"sweep --vary n_kv=1..8 --vary seed=1,2 n_q=2 --json", 4, "point"},
      {"check --invariant m-exact --cases 5 --json", 1, "law"},
      {"precision 'n_q=2 n_kv=9 d=3' --config fp32 --config p=bf16,l=fp16 --json", 2, "precision"},
      {"budget 'n_q=2 n_kv=9 d=3' --Bc 4 --json", 1, "budget"},
      {"bias 'n_q=2 n_kv=9 d=3' --kernel fa1.Br4xBc2 --seeds 2 --json", 6, "bias"},
      {"list formats --json", 6, "format"},
      {"bench --keys 64 --d 4 --min-time 0.001 --filter ^mirror --json", 1, "bench"},
      {"list kernels --json", 0, "kernel"}, // as many as there are
  }));
  CAPTURE(example.words);

  const Answer answer = fa1lab(example.words);

  CHECK(answer.status == 0);
  CHECK(lines(answer.out) >= std::max<std::size_t>(1, example.records));
  if (example.records > 0)
    CHECK(lines(answer.out) == example.records);
  std::istringstream in(answer.out);
  for (std::string line; std::getline(in, line);)
    CHECK(nlohmann::json::parse(line)["what"] == example.what);
}

TEST_CASE("a trace writes a page, says how it went, and its status is that of what it shows",
          "[reports][trace][quick]") {
  struct Example {
    const char* words;
    int status;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"ascending-every-tile", 0, "13 steps of fa1.Br1xBc1xD1.cpu in "},
      {"inf-first-tile", 0, "first off at step 4, row 0, alpha: "}, // a documented limit
      {"'n_q=3 n_kv=7 d=5 order=ascending' --kernel mutant.no_alpha_on_O.Br4xBc2", 1,
       "the carried O is not rescaled by alpha"},
      {"n_kv=0", 0, "1 steps of "},
      {"n_q=0", 0, "1 steps of "},
  }));
  CAPTURE(example.words);
  const Scratch scratch;
  const std::string out = scratch / "t.html";

  const Answer answer = fa1lab(std::string("trace ") + example.words + " --out " + out);
  const Answer records = fa1lab(std::string("trace ") + example.words + " --json");

  CAPTURE(answer.out);
  CHECK(answer.status == example.status);
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  CHECK(records.status == example.status);
  CHECK_THAT(text_of(out), StartsWith("<!doctype html>") && ContainsSubstring(records.out));
  std::istringstream in(records.out);
  for (std::string line; std::getline(in, line);)
    CHECK(nlohmann::json::parse(line).contains("what"));
}

TEST_CASE("a sweep writes its table, and its records to a file", "[reports][quick]") {
  const Scratch scratch;

  const Answer answer =
      fa1lab("sweep --vary n_kv=16..128 'n_q=4 d=8' --out " + (scratch / "growth.csv").string());

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK(lines(answer.out) == 1 + 4 + 3); // header, points, unit, slope, file
  CHECK_THAT(answer.out, ContainsSubstring("RMS error grows as n_kv^"));
  CHECK(lines(text_of(scratch / "growth.csv")) == 1 + 4);
  CHECK_THAT(text_of(scratch / "growth.csv"), StartsWith("what,point,recipe,seed,"));
}

TEST_CASE("a sweep that fails leaves no file", "[reports][quick]") {
  const Scratch scratch;

  const Answer answer =
      fa1lab("sweep --vary d=8,300 'n_kv=4' --out " + (scratch / "growth.csv").string());

  CHECK(answer.status == 2);
  CHECK(scratch.empty());
}

TEST_CASE("the table of costs has a line for each subject and each goal", "[reports][quick]") {
  const Answer answer = fa1lab("bench --keys 64 --d 8 --min-time 0.001");

  CAPTURE(answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, StartsWith("keys 64, d 8, normal; "));
  for (const char* line :
       {"certify ", "double ", "double-opt ", "float128 ", "mpfr-50 ", "cpp-bin-50 ", "mpfi-40 ",
        "arb-113 ", "arb-128 ", "kernel ", "mirror ", "case ", "vector-operation ",
        "radius of certify", "Arb (113 bits", "mpfr_float_50 / certify", "plain double loop of",
        "kernel on the executor / plain mirror"}) {
    CAPTURE(line);
    CHECK_THAT(answer.out, ContainsSubstring(std::string("\n") + line));
  }
}

TEST_CASE("a law that holds and a law that does not are told apart in one word",
          "[reports][quick]") {
  const Answer good = fa1lab("check --invariant o-rescale --cases 20 --kernel fa1.Br4xBc2xD8.cpu");
  const Answer bad =
      fa1lab("check --invariant o-rescale --cases 20 --kernel mutant.no_alpha_on_O.Br4xBc2xD8.cpu");

  CAPTURE(good.out, bad.out);
  CHECK(good.status == 0);
  CHECK_THAT(good.out, StartsWith("o-rescale          bound       held "));
  CHECK(bad.status == 1);
  CHECK_THAT(bad.out, StartsWith("o-rescale          bound       violated "));
  CHECK_THAT(bad.out, ContainsSubstring("shrunk: n_q="));
  CHECK_THAT(bad.out, ContainsSubstring("reproduce: ./fa1lab repro 'n_q="));
}

TEST_CASE("the line that replays a violation shows the violation again", "[reports][quick]") {
  const Answer bad =
      fa1lab("check --invariant o-rescale --cases 20 --kernel mutant.no_alpha_on_O.Br4xBc2xD8.cpu");
  const std::string start = "reproduce: ./fa1lab ";
  const std::size_t from = bad.out.find(start) + start.size();

  const Answer again = fa1lab(bad.out.substr(from, bad.out.find('\n', from) - from));

  CAPTURE(bad.out, again.out);
  CHECK(again.status == 1);
  CHECK_THAT(again.out, ContainsSubstring("o-rescale"));
}

TEST_CASE("checking twice gives the same answer, word for word", "[reports][quick]") {
  const Answer once = fa1lab("check --cases 3 --seed 5 --json --kernel fa1.Br3xBc5xD4.cpu");
  const Answer twice = fa1lab("check --cases 3 --seed 5 --json --kernel fa1.Br3xBc5xD4.cpu");

  CHECK(once.status == 0);
  CHECK(once.out == twice.out);
}

TEST_CASE(
    "false alarms are counted: none of a right kernel, and a wrong one would be told with status 1",
    "[reports][quick]") {
  const Answer right = fa1lab("check --alarms --cases 40 --json --kernel fa1.Br4xBc2xD8.cpu");
  const Answer wrong = fa1lab("check --alarms --cases 40 --kernel mutant.no_alpha_on_O.Br4xBc2xD8");
  const Answer again = fa1lab("check --alarms --cases 40 --json --kernel fa1.Br4xBc2xD8.cpu");

  CHECK(right.status == 0);
  CHECK(lines(right.out) == 1);
  CHECK_THAT(right.out, ContainsSubstring("\"cases_proved wrong\":0"));
  CHECK(right.out == again.out);
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.out, ContainsSubstring("reproduce: ./fa1lab repro '"));
}

TEST_CASE("the quick report is complete, says so, and replaces the one before", "[reports][deep]") {
  const Scratch scratch;
  const std::string out = scratch / "report";

  const Answer first = fa1lab("report --quick --out " + out);
  const std::string page = text_of(out + "/index.html"), data = text_of(out + "/report.json");
  const Answer second = fa1lab("report --quick --out " + out);

  CAPTURE(first.out);
  CHECK(first.status == 0);
  CHECK_THAT(first.out, StartsWith("Everything held: ") && EndsWith("report/index.html\n"));
  CHECK(lines(first.out) == 2);
  CHECK_THAT(page, ContainsSubstring("Everything held"));
  CHECK(second.status == 0);
  CHECK(text_of(out + "/report.json") == data); // no times, no chance in it
  CHECK(without_costs(text_of(out + "/index.html")) == without_costs(page));
  CHECK_THAT(page, ContainsSubstring("What the truth costs"));
  CHECK_THAT(text_of(out + "/costs.csv"), ContainsSubstring("bench,certify,"));

  const Answer valid = validated("report", out + "/report.json");
  CAPTURE(valid.out);
  CHECK(valid.status == 0);
  struct Wrong {
    const char* where;
    const char* patch; ///< RFC 6902
  };
  for (const Wrong& wrong : {
           Wrong{"$.summary: 'held' is", R"([{"op": "remove", "path": "/summary/held"}])"},
           Wrong{"$.seed: 'one' is", R"([{"op": "replace", "path": "/seed", "value": "one"}])"},
           Wrong{"$.figures[0].records[0]: Additional properties",
                 R"([{"op": "add", "path": "/figures/0/records/0/colour", "value": 1}])"},
           Wrong{"$.laws: [] is", R"([{"op": "replace", "path": "/laws", "value": []}])"},
       }) {
    CAPTURE(wrong.where);
    const auto changed = nlohmann::json::parse(data).patch(nlohmann::json::parse(wrong.patch));
    write(scratch / "wrong.json", changed.dump());

    const Answer refused = validated("report", scratch / "wrong.json");

    CAPTURE(refused.out);
    CHECK(refused.status == 1);
    CHECK_THAT(refused.out, ContainsSubstring(wrong.where));
  }
}

TEST_CASE("the lines of run, sweep, check and exp fit their schema, and lines that are off do not",
          "[reports][quick]") {
  const Scratch scratch;
  const std::string run = fa1lab("run n_kv=9 --json").out;
  const std::string wrong_run =
      fa1lab("run 'n_q=2 n_kv=7 order=ascending' --kernel mutant.no_alpha_on_O.Br4xBc2 --json").out;
  write(scratch / "right.jsonl",
        run + wrong_run + fa1lab("sweep --vary n_kv=1,2 --vary seed=1,2 n_q=2 --json").out +
            fa1lab("check --invariant m-exact --cases 2 --json").out +
            fa1lab("exp --every 1000003 --json").out);
  auto less = nlohmann::json::parse(run), more = less, other = less;
  less.erase("verdict");
  more["extra"] = 1;
  other["max_error"] = "large";
  write(scratch / "wrong.jsonl", less.dump() + "\n" + run);
  write(scratch / "more.jsonl", more.dump() + "\n");
  write(scratch / "other.jsonl", run + other.dump() + "\n");

  const Answer right = validated("record", scratch / "right.jsonl");
  const Answer wrong = validated("record", (scratch / "wrong.jsonl").string() + " " +
                                               (scratch / "more.jsonl").string() + " " +
                                               (scratch / "other.jsonl").string());

  CAPTURE(right.out, wrong.out);
  CHECK(right.status == 0);
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.out, ContainsSubstring("wrong.jsonl: $ of document 1: 'verdict' is a required"));
  CHECK_THAT(wrong.out, ContainsSubstring("more.jsonl: $: Additional properties"));
  CHECK_THAT(wrong.out, ContainsSubstring("other.jsonl: $.max_error of document 2: 'large'"));
  CHECK(lines(wrong.out) == 3);
}

TEST_CASE("report --papers has every paper, each with a measured number", "[reports][deep]") {
  const Answer records = fa1lab("report --papers --quick --json");

  CAPTURE(records.out);
  CHECK(records.status == 0);
  for (const char* source :
       {"FlashAttention-3 (", "Golden et al.", "Qiu and Yao", "Blanchard, Higham and Higham",
        "Demmel et al.", "Milakov and Gimelshein", "FlashAttention-1 ("}) {
    CAPTURE(source);
    CHECK_THAT(records.out, ContainsSubstring(source));
  }
  std::istringstream in(records.out);
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    CAPTURE(line);
    CHECK(row["what"] == "paper");
    CHECK(row["ours"].is_number());
    CHECK((row["theirs"].is_number() || !row["says"].get<std::string>().empty()));
  }
}

TEST_CASE(
    "a library that is no plug-in is bad input, one that this machine cannot serve is status 3",
    "[reports][plugin][quick]") {
  struct Example {
    const char* name;
    int status;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"none", 2, "no such file"},
      {"bad_no_forward", 2, "lacks the symbol fa1_forward"},
      {"bad_garbage", 2, "is not a JSON object"},
      {"bad_other_size", 2, "struct_size"},
      {"bad_refuses_size", 2, "another fa1_args"},
      {"bad_missing_library", 3, "needs another library"},
      {"bad_cuda_only", 3, "host pointers"},
      {"bad_crash_on_describe", 1, "died while it was loaded"},
  }));
  const auto* const command =
      GENERATE("check --cases 2", "run n_q=2", "repro n_q=2", "sweep --vary n_kv=1,2 n_q=2");
  CAPTURE(example.name, command);

  const Answer answer =
      shell("(" FA1_PROGRAM " " + std::string(command) + " --plugin " FA1_PLUGINS + example.name +
            ".so >/dev/null)"); // a sweep has begun its table

  CAPTURE(answer.out);
  CHECK(answer.status == example.status);
  CHECK_THAT(answer.out, StartsWith("fa1lab: plug-in '"));
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  CHECK(lines(answer.out) == 1);
}

TEST_CASE("what a plug-in does wrong is status 1, with a line that does it again",
          "[reports][plugin][quick]") {
  struct Example {
    const char* name;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
    {"no_alpha_on_O", "proved wrong"}, {"bad_output_only_mean", "proved wrong"},
        {"bad_crash", "SIGSEGV"}, {"bad_late_crash", "SIGSEGV"},
        {"bad_hang", "did not return in a call within 0.2 s"},
        {"bad_write_just_past", "a write outside O"}, {"bad_write_input", "the input Q"},
        {"bad_fails", "failed with status 7"}, {"bad_prints", "prints to stdout"},
        {"bad_rounding", "the floating-point unit changed"},
        {"bad_prints_on_load", "prints to stdout while it is loaded"},
#if defined(__x86_64__)
        {"bad_flush_inside", "flushes subnormals to zero"},
#endif
  }));
  CAPTURE(example.name);

  const Answer answer = fa1lab("check --cases 12 --timeout 0.2 --plugin " FA1_PLUGINS +
                               std::string(example.name) + ".so");

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  const std::string before = "reproduce: ./fa1lab ";
  const auto start = answer.out.find(before);
  REQUIRE(start != std::string::npos);
  const auto words = answer.out.substr(start + before.size(),
                                       answer.out.find('\n', start) - start - before.size());
  CHECK(fa1lab(words).status == 1);
}

TEST_CASE("a right plug-in holds all that applies to it, and the rest is not counted",
          "[reports][plugin][quick]") {
  const Answer whole = fa1lab("check --cases 5 --plugin " FA1_PLUGINS "plain_attention.so");
  const Answer output = fa1lab("check --cases 5 --plugin " FA1_PLUGINS "bad_output_only.so");
  const Answer run = fa1lab("run 'n_q=3 n_kv=70 d=5' --plugin " FA1_PLUGINS "plain_attention.so");

  CAPTURE(whole.out, output.out, run.out);
  CHECK(whole.status == 0);
  CHECK(output.status == 0);
  CHECK_THAT(output.out, ContainsSubstring("lse-consistent     bound       not-applicable"));
  CHECK(run.status == 0);
  CHECK_THAT(run.out, ContainsSubstring("--plugin " FA1_PLUGINS "plain_attention.so"));
}

TEST_CASE("options that contradict each other about the kernel are bad input",
          "[reports][plugin][quick]") {
  struct Example {
    const char* words;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"run n_q=1 --kernel fa1 --plugin " FA1_PLUGINS "fa1.so", "--kernel and --plugin"},
      {"run n_q=1 --timeout 3", "--timeout is for plug-ins"},
      {"run n_q=1 --timeout soon --plugin " FA1_PLUGINS "fa1.so", "--timeout soon: want seconds"},
      {"run n_q=1 --timeout 0 --plugin " FA1_PLUGINS "fa1.so", "--timeout 0: want seconds"},
      {"run 'n_q=1 d=9' --plugin " FA1_PLUGINS "fa1.so", "serves d and dv up to 8"},
      {"run n_q=1 --plugin " FA1_PLUGINS "bad_unsupported.so", "does not support this shape"},
      {"run n_q=1 --stranger lse", "outputs 'lse' is unknown; want one of o, olm"},
      {"repro n_q=1 --backend cuda --plugin " FA1_PLUGINS "fa1.so", ""},
      {"repro n_q=1 --schedule reverse --plugin " FA1_PLUGINS "fa1.so", "threads of its own"},
  }));
  CAPTURE(example.words);

  const Answer answer = fa1lab(example.words);

  CAPTURE(answer.out);
  CHECK(answer.status >= 2);
  CHECK_THAT(answer.out, ContainsSubstring(example.says));
  CHECK(lines(answer.out) == 1);
}

TEST_CASE("a mutant treated as a stranger is caught by its output alone, again by its replay line",
          "[reports][plugin][quick]") {
  const Answer answer = fa1lab("check --kernel mutant.no_alpha_on_O.Br1xBc1xD8.cpu --stranger o "
                               "--invariant truth --cases 40");

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  const std::string before = "reproduce: ./fa1lab ";
  const auto start = answer.out.find(before);
  REQUIRE(start != std::string::npos);
  const auto words = answer.out.substr(start + before.size(),
                                       answer.out.find('\n', start) - start - before.size());
  CHECK_THAT(words, ContainsSubstring("--stranger o --invariant truth"));
  CHECK(fa1lab(words).status == 1);
}

TEST_CASE("the builds of a kernel are compared", "[reports][deep]") {
  const Answer answer = fa1lab("builds --cases 5 --json");
  REQUIRE(answer.status == 0);
  std::map<std::string, nlohmann::json> rows;
  std::istringstream text(answer.out);
  for (std::string line; std::getline(text, line);) {
    const auto row = nlohmann::json::parse(line);
    rows[row["build"]] = row;
  }
  REQUIRE(rows.contains("cpu"));
  REQUIRE(rows.contains("cpu-portable"));
  for (const char* build : {"cpu", "cpu-portable"}) {
    CAPTURE(build);
    CHECK(rows[build]["broken"].empty());
    CHECK(rows[build]["laws_asked"] > 30);
    CHECK(rows[build]["worst_fraction"] > 0.1);
  }
  CHECK(rows["cpu"]["different"] == 0);
  CHECK(rows["cpu-portable"]["different"] > 0); // two right exponentials
  CHECK(rows["cpu-portable"]["median_distance"] >= 1);
  CHECK(rows["cpu-portable"]["error_ratio"] > 0.8);
  CHECK(rows["cpu-portable"]["error_ratio"] < 1.1);
}
