// compute-sanitizer over every kernel of the GPU, and over a kernel that each of its tools must report.
// Skipped, and says why, where there is no GPU or no compute-sanitizer.
#include "kernels/launch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using reports::tests::Answer;
using reports::tests::shell;

namespace {

constexpr int kReported = 9;

/// The program lies beside this one.
std::string probe() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fa1_gpu_probe").string();
}

std::string compute_sanitizer() {
  if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
    SKIP(obstacle);
  std::string path =
      shell("PATH=\"$PATH:${CUDA_HOME:-/usr/local/cuda}/bin\" command -v compute-sanitizer").out;
  if (path.empty())
    SKIP("no compute-sanitizer on PATH, in CUDA_HOME or in /usr/local/cuda/bin");
  path.pop_back(); // the end of the line
  return path;
}

Answer under(const std::string& tool, const std::string& words) {
  const std::string program = compute_sanitizer();
  return shell(program + " --tool " + tool + " --error-exitcode " + std::to_string(kReported) +
               " " + probe() + " " + words);
}

} // namespace

TEST_CASE("compute-sanitizer finds nothing in the kernels", "[reports][sanitizer]") {
  const std::string tool =
      GENERATE(as<std::string>{}, "memcheck", "racecheck", "initcheck", "synccheck");
  // racecheck does not see that bar.arrive orders anything; the last test here watches for the day it does.
  const Answer answer = under(tool, tool == "racecheck" ? "block-barriers" : "kernels");
  INFO(tool << ":\n" << answer.out);
  CHECK(answer.status == 0);
  CHECK_THAT(answer.out, ContainsSubstring(" launches"));
}

TEST_CASE("each tool of compute-sanitizer reports the kernel that is wrong for it",
          "[reports][sanitizer]") {
  const std::string tool =
      GENERATE(as<std::string>{}, "memcheck", "racecheck", "initcheck", "synccheck");
  const Answer answer = under(tool, "canary " + tool);
  INFO(tool << ":\n" << answer.out);
  CHECK(answer.status == kReported);
}

TEST_CASE("racecheck still reports a right kernel that hands words over by bar.arrive",
          "[reports][sanitizer]") {
  const Answer unwatched = (compute_sanitizer(), shell(probe() + " named-barriers"));
  INFO(unwatched.out);
  CHECK(unwatched.status == 0);

  const Answer answer = under("racecheck", "named-barriers");
  INFO("where this fails, fa1_pipelined can be watched like the others:\n" << answer.out);
  CHECK(answer.status == kReported);
}
