// Claims about the door: what comes through it is what the kernel gave, and whatever a plug-in does
// instead is one line about that plug-in. The plug-ins are made from bad_plugin.c, one fault each.
#include "kernels/plugin.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kernels::Kernel;
using kernels::load_plugin;
using reference::Problem;
using reference::State;

namespace {

constexpr kernels::PluginOptions kSoon{.timeout = 0.2}; // for those that are meant to hang

std::string library(const std::string& name) { return FA1_PLUGINS + name + ".so"; }

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

bool same_bits(const State& a, const State& b) {
  return same_bits(a.O.elements(), b.O.elements()) && same_bits(a.l, b.l) && same_bits(a.m, b.m);
}

const Problem& small_problem() {
  static const Problem problem = problem_of("n_q=3 n_kv=7 d=5 dv=4 bh=2");
  return problem;
}

} // namespace

TEST_CASE("fa1 behind the door gives the bits of fa1", "[kernels][plugin][quick]") {
  const Kernel plugin = load_plugin(library("fa1"));
  const Kernel& fa1 = kernels::find_kernel("fa1.Br3xBc5xD8.cpu", {});
  const auto* const recipe =
      GENERATE("n_q=1 n_kv=1 d=1", "n_q=7 n_kv=33 d=8 bh=2", "n_q=5 n_kv=0 d=3",
               "n_q=4 n_kv=900 d=6 dv=2 order=ascending", "n_q=2 n_kv=12 d=8 put=V:3,1:nan");
  CAPTURE(recipe);
  const Problem problem = problem_of(recipe);

  const State through = kernels::run(plugin, problem);
  const State resumed = kernels::resume(plugin, problem, through);

  const State direct = kernels::run(fa1, problem);
  CHECK(same_bits(through, direct));
  CHECK(same_bits(resumed, kernels::resume(fa1, problem, direct)));
}

TEST_CASE("a plug-in is a kernel of unknown make that gives what it says",
          "[kernels][plugin][quick]") {
  const Kernel whole = load_plugin(library("plain_attention"), {.timeout = 2.5});
  const Kernel output_only = load_plugin(library("bad_output_only"));

  CHECK(whole.id == "plugin.plain_attention");
  CHECK_FALSE(whole.arithmetic.known);
  CHECK((whole.gives_l_and_m && whole.resumes));
  CHECK(whole.D == 256);
  CHECK(whole.asked_by == "--plugin " + library("plain_attention") + " --timeout 2.5");
  CHECK_FALSE((output_only.gives_l_and_m || output_only.resumes));
  const State state = kernels::run(output_only, small_problem());
  CHECK(same_bits(state.O.elements(), kernels::run(whole, small_problem()).O.elements()));
  CHECK(std::ranges::all_of(state.l, [](float l) { return std::isnan(l); })); // left as it was
}

TEST_CASE("what is no plug-in is refused, and the line says what is wrong with it",
          "[kernels][plugin][quick]") {
  struct Example {
    const char* name;
    const char* says;
  };
  const auto example = GENERATE(values<Example>({
      {"none", "no such file"},
      {"../plugins/.", "no regular file"},
      {"bad_no_forward", "lacks the symbol fa1_forward"},
      {"bad_no_describe", "lacks the symbol fa1_describe"},
      {"bad_garbage", "is not a JSON object"},
      {"bad_null_description", "is not a JSON object"},
      {"bad_a_list", "is not a JSON object"},
      {"bad_no_name", "\"name\" missing"},
      {"bad_odd_name", "\"name\" \"bad; rm\""},
      {"bad_gives_lse", "unknown entry \"\"lse\"\""},
      {"bad_gives_l_alone", "gives one of l and m"},
      {"bad_gives_no_o", "leaves \"o\" out"},
      {"bad_no_max_d", "\"max_d\" missing"},
      {"bad_large_max_d", "\"max_d\" \"257\"; want a whole number from 1 to 256"},
      {"bad_resumes_maybe", "\"resumes\": \"\"maybe\"\"; want true or false"},
      {"bad_resumes_blind", "resumes without l and m"},
      {"bad_misspelt", "unknown key \"resume\""},
      {"bad_other_size", "struct_size \"96\" where this program passes"},
  }));
  CAPTURE(example.name);
  const std::string path = std::string(example.name) == "../plugins/." ? std::string(FA1_PLUGINS)
                                                                       : library(example.name);

  CHECK_THROWS_MATCHES(load_plugin(path), kernels::PluginError,
                       MessageMatches(ContainsSubstring(example.says)));
}

TEST_CASE("a file that is no library is refused", "[kernels][plugin][quick]") {
  CHECK_THROWS_MATCHES(load_plugin("README.md"), kernels::PluginError,
                       MessageMatches(ContainsSubstring("does not load")));
}

TEST_CASE("what a plug-in needs and the machine lacks is told apart", "[kernels][plugin][quick]") {
  CHECK_THROWS_MATCHES(load_plugin(library("bad_missing_library")), kernels::PluginLacks,
                       MessageMatches(ContainsSubstring("libfa1_absent")));
  CHECK_THROWS_MATCHES(load_plugin(library("bad_cuda_only")), kernels::PluginLacks,
                       MessageMatches(ContainsSubstring("host pointers")));
}

TEST_CASE("whatever goes wrong while a plug-in is loaded is its fault",
          "[kernels][plugin][quick]") {
  CHECK_THROWS_MATCHES(load_plugin(library("bad_crash_on_describe")), kernels::KernelFault,
                       MessageMatches(ContainsSubstring("died while it was loaded of SIGABRT")));
  CHECK_THROWS_MATCHES(load_plugin(library("bad_hang_on_load"), kSoon), kernels::KernelFault,
                       MessageMatches(ContainsSubstring("while it was loaded within 0.2 s")));
}

TEST_CASE("whatever a plug-in does in a call instead of its work is a finding",
          "[kernels][plugin][quick]") {
  struct Example {
    const char* fault;
    const char* says;
  };
  // O has 24 elements, K 70, each from a multiple of 64 bytes
  const auto example = GENERATE(values<Example>({
    {"crash", "died in a call of SIGSEGV (Segmentation fault)"},
        {"aborts", "SIGABRT (Aborted); it said \"assertion `tile fits' failed\""},
        {"exits", "ended its process in a call, with exit status 0"},
#if !defined(__SANITIZE_ADDRESS__) // whose UBSan tells a division by zero at length before it dies
        {"divides", "SIGFPE"},
#endif
        {"hang", "did not return in a call within 0.2 s"},
        {"write_past", "outside O: element 44 where 0 .. 23 exist (row 11 of 6)"},
        {"write_just_past", "a write outside O: element 24 where 0 .. 23 exist"},
        {"write_before", "a write outside O: element -3"},
        {"write_input", "to the input Q: element 0"},
        {"read_past", "outside K: element 90 where 0 .. 69 exist"},
        {"prints", "prints to stdout: \"row 0 of 3\""},
        {"fails", "fa1_forward failed with status 7"},
#if defined(__x86_64__)
        {"rounding", "rounding toward zero instead of to nearest"},
        {"traps", "exceptions that trap"}, {"flush_left_on", "subnormals flushed to zero"},
#endif
  }));
  CAPTURE(example.fault);
  const Kernel plugin = load_plugin(library("bad_" + std::string(example.fault)), kSoon);

  CHECK_THROWS_MATCHES(kernels::run(plugin, small_problem()), kernels::KernelFault,
                       MessageMatches(ContainsSubstring(example.says)));
  // not only the first time
  CHECK_THROWS_AS(kernels::run(plugin, small_problem()), kernels::KernelFault);
}

TEST_CASE("after a crash or a hang the next call is answered", "[kernels][plugin][quick]") {
  const auto* const name = GENERATE("bad_late_crash", "bad_late_hang");
  const Kernel plugin = load_plugin(library(name), kSoon);
  const State before = kernels::run(plugin, small_problem());

  CHECK_THROWS_AS(kernels::run(plugin, problem_of("n_q=2 n_kv=9 d=4")), kernels::KernelFault);

  CHECK(same_bits(kernels::run(plugin, small_problem()), before));
}

TEST_CASE("a hang says that it is one", "[kernels][plugin][quick]") {
  bool hung = false;
  try {
    kernels::run(load_plugin(library("bad_hang"), kSoon), small_problem());
  } catch (const kernels::KernelFault& fault) {
    hung = fault.hung();
  }

  CHECK(hung);
}

TEST_CASE("a shape that a plug-in declines is neither right nor wrong",
          "[kernels][plugin][quick]") {
  const Kernel even = load_plugin(library("bad_even_d"));

  CHECK_NOTHROW(kernels::run(even, problem_of("n_q=2 n_kv=3 d=4")));
  CHECK_THROWS_AS(kernels::run(even, problem_of("n_q=2 n_kv=3 d=5")), kernels::UnsupportedShape);
}

TEST_CASE("a library built for another size of fa1_args is refused at its first call",
          "[kernels][plugin][quick]") {
  const Kernel plugin = load_plugin(library("bad_refuses_size"));

  CHECK_THROWS_MATCHES(kernels::run(plugin, small_problem()), kernels::PluginError,
                       MessageMatches(ContainsSubstring("another fa1_args")));
}

TEST_CASE("what no law can see of a plug-in is found by examining it", "[kernels][plugin][quick]") {
  struct Example {
    const char* name;
    std::size_t findings;
    const char* says;
    bool answers;
  };
  const auto example = GENERATE(values<Example>({
    {"plain_attention", 0, "", true}, {"fa1", 0, "", true}, {"bad_output_only", 0, "", true},
        {"bad_unsupported", 0, "", true},
        {"bad_prints_on_load", 1, "prints to stdout while it is loaded: \"hello", true},
        {"bad_needs_l", 1, "with l and m NULL: ", true}, {"bad_crash", 1, "died in a call", false},
#if defined(__x86_64__)
        {"bad_flush_inside", 1, "flushes subnormals to zero", true},
#endif
  }));
  CAPTURE(example.name);

  const kernels::Examination result = kernels::examine(load_plugin(library(example.name)));

  CHECK(result.answers == example.answers);
  REQUIRE(result.findings.size() == example.findings);
  if (example.findings > 0)
    CHECK_THAT(result.findings[0].says, ContainsSubstring(example.says));
}

TEST_CASE("a library built with -ffast-math is found out by its start-up code or its answers",
          "[kernels][plugin][quick]") {
  const Kernel probe = load_plugin(library("fast_math"));

  const kernels::Examination result = kernels::examine(probe);

  if (result.findings.empty()) // from g++ 13 on, shared libraries get no such start-up code
    SKIP("this compiler's -ffast-math flushes nothing in a shared library");
  CHECK_THAT(result.findings[0].says, ContainsSubstring("subnormals flushed to zero"));
  CHECK_THAT(result.findings.back().says, ContainsSubstring("gives O = 0"));
}

TEST_CASE("each process that a fork makes calls a worker of its own", "[kernels][plugin][quick]") {
  const Kernel plugin = load_plugin(library("fa1"));
  const State before = kernels::run(plugin, small_problem());

  const pid_t child = fork();
  if (child == 0) {
    bool same = true;
    for (int i = 0; i < 200; ++i)
      same = same && same_bits(kernels::run(plugin, small_problem()), before);
    _exit(same ? 0 : 1);
  }
  bool same = true;
  for (int i = 0; i < 200; ++i)
    same = same && same_bits(kernels::run(plugin, small_problem()), before);
  int status = -1;
  waitpid(child, &status, 0);

  CHECK(same);
  CHECK(status == 0);
}

TEST_CASE("threads that call one plug-in take turns", "[kernels][plugin][quick]") {
  const Kernel plugin = load_plugin(library("fa1"));
  const Problem small = problem_of("n_q=1 n_kv=3 d=2"), large = problem_of("n_q=9 n_kv=200 d=8");
  const State of_small = kernels::run(plugin, small), of_large = kernels::run(plugin, large);
  bool small_same = true, large_same = true;

  {
    const std::jthread other([&] {
      for (int i = 0; i < 200; ++i)
        small_same = small_same && same_bits(kernels::run(plugin, small), of_small);
    });
    for (int i = 0; i < 20; ++i)
      large_same = large_same && same_bits(kernels::run(plugin, large), of_large);
  }

  CHECK(small_same);
  CHECK(large_same);
}

TEST_CASE("a stranger has the kernel's bits and nothing of its insides",
          "[kernels][plugin][quick]") {
  const Kernel& fa1 = kernels::find_kernel("fa1.Br3xBc5xD8.cpu", {});
  const State direct = kernels::run(fa1, small_problem());

  const Kernel whole = kernels::as_stranger(fa1, true), output = kernels::as_stranger(fa1, false);

  CHECK(same_bits(kernels::run(whole, small_problem()), direct));
  CHECK_FALSE((whole.arithmetic.known || output.arithmetic.known));
  CHECK((whole.gives_l_and_m && whole.resumes));
  CHECK_FALSE((output.gives_l_and_m || output.resumes));
  const State state = kernels::run(output, small_problem());
  CHECK(same_bits(state.O.elements(), direct.O.elements()));
  CHECK(std::ranges::all_of(state.l, [](float l) { return std::isnan(l); }));
  CHECK(output.asked_by == "--kernel fa1.Br3xBc5xD8.cpu --stranger o");
}
