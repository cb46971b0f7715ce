#include "numerics/shrunk_case.hpp"

#include "numerics/judge_files.hpp"
#include "numerics/ulp.hpp"
#include "reference/files/array_file.hpp"
#include "reference/files/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <utility>

namespace fa1::numerics {
namespace {

using reference::Enclosed;
using reference::Problem;
using reference::Tensor;

/// Where no bound holds nothing is said of a finite number.
Expected expected(std::span<const Enclosed> truth, std::span<const double> bounds,
                  const std::string& obstacle) {
  Expected all;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double value = truth[i].hi + truth[i].lo;
    all.value.push_back(value);
    // hi + lo is rounded here, by the half of a last bit at most.
    all.radius.push_back(std::isfinite(value) ? truth[i].radius + 0x1p-53 * std::fabs(value) : 0.0);
    all.bound.push_back(obstacle.empty() ? bounds[i] : std::numeric_limits<double>::infinity());
  }
  return all;
}

std::vector<double> lse_of(const reference::State& state) {
  std::vector<double> all;
  for (std::size_t i = 0; i < state.l.size(); ++i)
    all.push_back(double{state.m[i]} + std::log(double{state.l[i]}));
  return all;
}

bool is_case(const std::map<std::string, std::string>& metadata) {
  const auto what = metadata.find("what");
  return what != metadata.end() && what->second == kCaseWhat;
}

float scale_in(const std::map<std::string, std::string>& metadata) {
  const std::string& text = metadata.at("scale");
  std::size_t used = 0;
  const float scale = std::stof(text, &used);
  if (used != text.size() || !std::isfinite(scale))
    throw std::runtime_error(fmt::format("scale '{}': want a finite number", text));
  return scale;
}

/// All runs of equal entries of one head.
std::vector<reference::Run> runs_of(const Tensor<float>& tensor) {
  std::vector<reference::Run> runs;
  const std::size_t count = static_cast<std::size_t>(tensor.rows() * tensor.columns());
  for (const float x : tensor.elements().first(count)) {
    if (!runs.empty() && same_bits(runs.back().value, x))
      ++runs.back().count;
    else
      runs.push_back({x, 1});
  }
  return runs;
}

bool heads_are_equal(const Tensor<float>& tensor) {
  const auto all = tensor.elements();
  const auto count = static_cast<std::size_t>(tensor.rows() * tensor.columns());
  for (std::size_t i = count; i < all.size(); ++i)
    if (!same_bits(all[i], all[i - count]))
      return false;
  return true;
}

} // namespace

Expected expected_O(const WrongRun& run) {
  return expected(run.truth.O.elements(), run.bounds.O.elements(), run.bounds.obstacle);
}

Expected expected_LSE(const WrongRun& run) {
  return expected(run.truth.LSE, run.bounds.LSE, run.bounds.obstacle);
}

std::string bound_of(const WrongRun& run, const kernels::Kernel& kernel) {
  return run.kind.held_to == HeldTo::any_kernel ? "any right fp32 kernel" : kernel.id;
}

void write_shrunk_case(const std::string& path, const Shrunk& shrunk, const kernels::Kernel& kernel,
                       const std::string& shrunk_from) {
  const Problem& problem = shrunk.problem;
  const WrongRun& run = shrunk.run;
  std::map<std::string, reference::TensorToWrite> tensors;
  const auto add = [&](const char* name, const auto& tensor) {
    tensors[name] = {{tensor.batch_heads(), tensor.rows(), tensor.columns()}, tensor.elements()};
  };
  add("q", problem.Q);
  add("k", problem.K);
  add("v", problem.V);
  std::map<std::string, std::string> metadata{{"what", kCaseWhat},
                                              {"kernel", kernel.id},
                                              {"asked_by", kernel.chosen_by()},
                                              {"scale", fmt::format("{:a}", problem.scale)},
                                              {"fault", to_string(run.kind)},
                                              {"shrunk_from", shrunk_from},
                                              {"version", "1"}};
  const Expected O = expected_O(run), LSE = expected_LSE(run);
  const std::vector<double> lse = lse_of(run.state);
  const std::vector<std::int64_t> of_O{problem.shape.batch_heads, problem.shape.n_q,
                                       problem.shape.dv},
      of_rows{problem.shape.batch_heads, problem.shape.n_q};
  const auto add_doubles = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                               const std::vector<double>& values) {
    tensors[name] = {shape, std::span(values)};
  };
  const auto add_expected = [&](const std::string& prefix, const std::vector<std::int64_t>& shape,
                                const Expected& right) {
    add_doubles(prefix + "expected", shape, right.value);
    add_doubles(prefix + "radius", shape, right.radius);
    add_doubles(prefix + "bound", shape, right.bound);
  };
  add_expected("", of_O, O);
  if (kernel.gives_l_and_m)
    add_expected("lse_", of_rows, LSE);
  metadata["bound_of"] = bound_of(run, kernel);
  if (!run.kind.failed()) {
    add("o", run.state.O);
    if (kernel.gives_l_and_m)
      add_doubles("lse", of_rows, lse);
    const Element& worst = run.verdict.worst;
    metadata.insert({{"looks_like", run.kind.name},
                     {"worst", to_string(worst)},
                     {"error", fmt::format("{:a}", worst.error)},
                     {"bound", fmt::format("{:a}", worst.bound)},
                     {"radius", fmt::format("{:a}", worst.truth.radius)}});
  }
  reference::write_safetensors(path, tensors, metadata);
}

ShrunkCase read_shrunk_case(const std::string& path) {
  const reference::SafetensorsFile file(std::make_shared<reference::FileSource>(path));
  const auto& metadata = file.metadata();
  try {
    if (!is_case(metadata))
      throw std::runtime_error(fmt::format("what: want \"{}\" in the metadata", kCaseWhat));
    ShrunkCase read;
    read.kernel = metadata.at("kernel");
    read.asked_by = metadata.at("asked_by");
    read.problem = problem_of({file.array("q"), file.array("k"), file.array("v"), {}, {}},
                              Layout::bhnd, scale_in(metadata));
    return read;
  } catch (const reference::FileError&) {
    throw;
  } catch (const std::exception& error) {
    throw CaseFileError(fmt::format(
        "file '{}': want a case as `fa1lab shrink --out FILE` writes it: {}", path, error.what()));
  }
}

bool is_shrunk_case(const std::string& path) {
  // Of the 8 bytes of the header's length the last is 0, which no text has.
  std::ifstream in(path, std::ios::binary);
  char start[9] = {};
  if (!in.read(start, sizeof start) || start[7] != '\0' || start[8] != '{')
    return false;
  const reference::SafetensorsFile file(std::make_shared<reference::FileSource>(path));
  return is_case(file.metadata());
}

std::optional<reference::Recipe> recipe_of(const Problem& problem) {
  if (!heads_are_equal(problem.Q) || !heads_are_equal(problem.K) || !heads_are_equal(problem.V))
    return {};
  reference::Recipe recipe;
  recipe.batch_heads = problem.shape.batch_heads;
  recipe.n_q = problem.shape.n_q;
  recipe.n_kv = problem.shape.n_kv;
  recipe.d = problem.shape.d;
  recipe.dv = problem.shape.dv;
  recipe.scale = problem.scale;
  recipe.Q = runs_of(problem.Q);
  recipe.K = runs_of(problem.K);
  recipe.V = runs_of(problem.V);
  return recipe;
}

} // namespace fa1::numerics
