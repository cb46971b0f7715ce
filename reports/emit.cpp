#include "reports/emit.hpp"

#include "numerics/shrunk_case.hpp"
#include "reports/filling.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <vector>

namespace fa1::reports {
namespace {

constexpr std::size_t kLineLength = 96;

std::string word_of(Language language, double x, const char* suffix) {
  const bool c_like = language != Language::python;
  if (std::isnan(x))
    return c_like ? "NAN" : "nan";
  if (std::isinf(x))
    return fmt::format("{}{}", x < 0.0 ? "-" : "", c_like ? "INFINITY" : "inf");
  return fmt::format("{:a}{}", x, c_like ? suffix : "");
}

/// Lines of numbers, each with its end.
template <class Number>
std::string list_of(Language language, std::span<const Number> numbers, const char* suffix) {
  const bool c_like = language != Language::python;
  std::string lines, line;
  for (const Number x : numbers) {
    const std::string word = word_of(language, double{x}, suffix) + (c_like ? "," : "");
    if (!line.empty() && line.size() + word.size() >= kLineLength) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (line.empty() && c_like) // C has no empty array
    line = "0";
  return lines + line + (c_like ? "" : "\n");
}

/// Of an expected output: the values and what they may differ by.
void add_expected(Json& view, Language language, const numerics::Expected& right,
                  const std::string& suffix) {
  std::vector<double> allowed;
  for (std::size_t i = 0; i < right.value.size(); ++i)
    allowed.push_back(right.allowed(i));
  view["want" + suffix] = list_of(language, std::span(right.value), "");
  view["allowed" + suffix] = list_of(language, std::span(std::as_const(allowed)), "");
}

/// One line that ends no comment and no Python text.
std::string as_comment(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '"' || c == '\\')
      c = ' ';
  for (std::size_t at = text.find("*/"); at != std::string::npos; at = text.find("*/", at))
    text.replace(at, 2, "* /");
  return text;
}

Template template_of(Language language) {
  switch (language) {
  case Language::c:
    return Template::case_c;
  case Language::cuda:
    return Template::case_cu;
  case Language::python:
    break;
  }
  return Template::case_py;
}

} // namespace

std::string_view ending_of(Language language) {
  constexpr std::string_view kEndings[] = {".c", ".cu", ".py"};
  return kEndings[static_cast<std::size_t>(language)];
}

std::string build_of(Language language, std::string_view file) {
  switch (language) {
  case Language::c:
    return fmt::format("cc {} -lm && ./a.out", file);
  case Language::cuda:
    return fmt::format("nvcc {} && ./a.out", file);
  case Language::python:
    break;
  }
  return fmt::format("python3 {}", file);
}

std::string emitted(Language language, const numerics::Shrunk& shrunk,
                    const kernels::Kernel& kernel, const std::string& shrunk_from,
                    const std::string& file) {
  const reference::Problem& problem = shrunk.problem;
  const numerics::WrongRun& run = shrunk.run;
  const auto list = [&](const reference::Tensor<float>& tensor) {
    return list_of(language, tensor.elements(), "f");
  };
  Json view{{"kernel", as_comment(kernel.id)},
            {"fault", as_comment(numerics::to_string(run.kind))},
            {"worst", run.kind.failed() ? "" : as_comment(numerics::to_string(run.verdict.worst))},
            {"shrunk_from", as_comment(shrunk_from)},
            {"bound_of", numerics::bound_of(run, kernel)},
            {"file", as_comment(file)},
            {"bh", problem.shape.batch_heads},
            {"n_q", problem.shape.n_q},
            {"n_kv", problem.shape.n_kv},
            {"d", problem.shape.d},
            {"dv", problem.shape.dv},
            {"scale", word_of(language, double{problem.scale}, "f")},
            {"q", list(problem.Q)},
            {"k", list(problem.K)},
            {"v", list(problem.V)},
            {"lse", !run.kind.failed() && run.kind.output != "O"}};
  add_expected(view, language, numerics::expected_O(run), "");
  add_expected(view, language, numerics::expected_LSE(run), "_lse");
  return filled(template_of(language), view);
}

} // namespace fa1::reports
