// Claims about the file of a shrunk problem.
#include "numerics/shrunk_case.hpp"

#include "reference/files/safetensors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

using namespace fa1::numerics;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using fa1::reference::FileSource;
using fa1::reference::make_problem;
using fa1::reference::parse_recipe;
using fa1::reference::Problem;
using fa1::reference::SafetensorsFile;
namespace fs = std::filesystem;

namespace {

/// A file name of this test, and no file of it afterwards.
class Scratch {
public:
  ~Scratch() { fs::remove(path_); }
  const std::string& path() const { return path_; }

private:
  std::string path_ = (fs::temp_directory_path() /
                       ("fa1lab_shrunk_case_test_" + std::to_string(getpid()) + ".safetensors"))
                          .string();
};

/// Of a kernel that is wrong in O, shrunk by nothing.
Shrunk example(const std::string& recipe, const fa1::kernels::Kernel& kernel) {
  const Problem problem = make_problem(parse_recipe(recipe));
  auto run = wrong_run(problem, kernel);
  REQUIRE(run);
  return {problem, std::move(*run), 1, true};
}

const fa1::kernels::Kernel& wrong_kernel() {
  return fa1::kernels::find_kernel("mutant.no_division.Br4xBc2", {1, 1, 1, 8, 8});
}

double first_of(const SafetensorsFile& file, const std::string& name) {
  double value = 0.0;
  const fa1::reference::Array array = file.array(name);
  fa1::reference::read_block(array, array.offset, {1, 0}, {1, 0}, {&value, 1});
  return value;
}

} // namespace

TEST_CASE(
    "a shrunk case reads as it was written, several heads and a scale that is no short number too",
    "[numerics][quick]") {
  const Scratch file;
  const Shrunk shrunk = example("bh=2 n_q=3 n_kv=5 d=2 dv=4 scale=0.3", wrong_kernel());

  write_shrunk_case(file.path(), shrunk, wrong_kernel(), "somewhere");

  REQUIRE(is_shrunk_case(file.path()));
  const ShrunkCase read = read_shrunk_case(file.path());
  CHECK(read.kernel == "mutant.no_division.Br4xBc2xD8.cpu");
  CHECK(read.problem.shape == shrunk.problem.shape);
  CHECK(read.problem.scale == 0.3f);
  CHECK(read.problem.Q == shrunk.problem.Q);
  CHECK(read.problem.K == shrunk.problem.K);
  CHECK(read.problem.V == shrunk.problem.V);
}

TEST_CASE(
    "the file says what is right, how far a right output may be, and that this one is farther",
    "[numerics][quick]") {
  const Scratch scratch;
  const Shrunk shrunk = example("n_q=1 n_kv=5 d=2 dv=1", wrong_kernel());

  write_shrunk_case(scratch.path(), shrunk, wrong_kernel(), "somewhere");

  const SafetensorsFile file(std::make_shared<FileSource>(scratch.path()));
  const double got = first_of(file, "o"), right = first_of(file, "expected");
  CHECK(got == double{shrunk.run.state.O(0, 0, 0)});
  CHECK(right == shrunk.run.truth.O(0, 0, 0).hi);
  CHECK(std::fabs(got - right) > first_of(file, "bound") + first_of(file, "radius"));
  CHECK(first_of(file, "radius") >= shrunk.run.truth.O(0, 0, 0).radius);
  CHECK(std::fabs(first_of(file, "lse") - first_of(file, "lse_expected")) <=
        first_of(file, "lse_bound") + first_of(file, "lse_radius"));
  CHECK(file.metadata().at("scale") == "0x1.6a09e6p-1");
  CHECK(file.metadata().at("shrunk_from") == "somewhere");
  CHECK(file.metadata().at("bound_of") == "any right fp32 kernel");
  CHECK(file.metadata().at("fault") == "O: its error is beyond its bound; looks like no_division");
}

TEST_CASE(
    "a safetensors file of others is no case, and a case without a kernel is refused by its name",
    "[numerics][quick]") {
  const Scratch file;
  const std::vector<float> none(1);
  const auto write = [&](const std::map<std::string, std::string>& metadata) {
    fa1::reference::write_safetensors(file.path(), {{"q", {{1, 1, 1}, std::span(none)}}}, metadata);
  };

  write({});
  CHECK_FALSE(is_shrunk_case(file.path()));
  CHECK_THROWS_MATCHES(read_shrunk_case(file.path()), CaseFileError,
                       MessageMatches(ContainsSubstring("want a case as `fa1lab shrink")));
  write({{"what", kCaseWhat}});
  CHECK(is_shrunk_case(file.path()));
  CHECK_THROWS_AS(read_shrunk_case(file.path()), CaseFileError);
  write(
      {{"what", kCaseWhat}, {"kernel", "fa1"}, {"asked_by", "--kernel fa1"}, {"scale", "0x1p+0"}});
  CHECK_THROWS_MATCHES(read_shrunk_case(file.path()), fa1::reference::FileError,
                       MessageMatches(ContainsSubstring("has no tensor 'k'")));
  std::ofstream(file.path()) << "n_q=1 n_kv=2 d=3\n";
  CHECK_FALSE(is_shrunk_case(file.path()));
}

TEST_CASE("a problem of one head is a recipe of explicit entries, bit for bit, and of two that "
          "differ none",
          "[numerics][quick]") {
  Problem problem = make_problem(parse_recipe("n_q=3 n_kv=4 d=2 dv=3 scale=0.3"));
  problem.K(0, 1, 1) = std::numeric_limits<float>::quiet_NaN();
  problem.K(0, 2, 0) = -std::numeric_limits<float>::infinity();
  problem.V(0, 2, 1) = 0.0f; // the next entry is another zero
  problem.V(0, 2, 2) = -0.0f;
  problem.V(0, 3, 0) = 0x1p-149f;

  const auto recipe = recipe_of(problem);

  REQUIRE(recipe);
  const Problem again = make_problem(parse_recipe(to_string(*recipe)));
  CHECK(again.shape == problem.shape);
  CHECK(again.scale == problem.scale);
  CHECK(again.Q == problem.Q);
  CHECK(std::isnan(again.K(0, 1, 1)));
  CHECK(again.K(0, 2, 0) == problem.K(0, 2, 0));
  CHECK(again.V == problem.V);
  CHECK(std::signbit(again.V(0, 2, 2)));
  CHECK_FALSE(recipe_of(make_problem(parse_recipe("bh=2 n_q=1 n_kv=1 d=1"))));
}
