#include "reports/diagnosis.hpp"

#include "numerics/diagnosis.hpp"
#include "reports/parallel.hpp"

#include <fmt/format.h>

namespace fa1::reports {
namespace {

/// What is left to say when the kernel did not let itself be asked.
Json not_found(std::string_view why) {
  return {{"parts_at", fmt::format("not known: {}", why)},
          {"where", ""},
          {"keys", nullptr},
          {"looks_like", Json::array({numerics::kNoKnownPattern})},
          {"suspects", Json::array()}};
}

} // namespace

Json diagnosis_of(const reference::Problem& problem, const kernels::Kernel& kernel) {
  numerics::Diagnosis diagnosis;
  try {
    diagnosis = numerics::diagnose(problem, kernel);
  } catch (const kernels::KernelError& error) {
    return not_found(error.what());
  } catch (const simt::ExecutorError& error) {
    return not_found(error.what());
  }
  if (!diagnosis.wrong())
    return nullptr;
  Json suspects = Json::array();
  for (const numerics::Suspect& suspect : diagnosis.suspects)
    suspects.push_back({{"fault", suspect.name},
                        {"says", suspect.says},
                        {"unexplained", number(suspect.unexplained)}});
  return {{"parts_at", diagnosis.parts_at},
          {"where", diagnosis.where},
          {"keys", diagnosis.keys ? Json(*diagnosis.keys) : Json(nullptr)},
          {"looks_like", numerics::looks_like(diagnosis)},
          {"suspects", std::move(suspects)}};
}

Json diagnosis_apart(const reference::Recipe& recipe, const kernels::Kernel& kernel) {
  const auto ask = [&](std::size_t) {
    return one_line(diagnosis_of(reference::make_problem(recipe), kernel));
  };
  if (kernel.backend != kernels::Backend::cpu)
    return Json::parse(ask(0));
  const auto texts = in_processes(
      1, ask, [](std::size_t, const std::string& why) { return one_line(not_found(why)); },
      [](std::size_t) {});
  return Json::parse(texts.front());
}

std::vector<std::pair<std::string, std::string>> lines_of(const Json& diagnosis) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (diagnosis.is_null())
    return lines;
  lines.emplace_back("parts at", diagnosis["parts_at"]);
  if (!diagnosis["where"].get<std::string>().empty())
    lines.emplace_back("where", diagnosis["where"]);
  for (const Json& text : diagnosis["looks_like"])
    lines.emplace_back("looks like", text);
  return lines;
}

} // namespace fa1::reports
