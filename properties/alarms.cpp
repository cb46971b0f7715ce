#include "properties/alarms.hpp"

#include "numerics/sweep.hpp"
#include "properties/generators.hpp"
#include "properties/rapidcheck_bridge.hpp"
#include "reference/hash.hpp"

#include <cmath>
#include <stdexcept>

namespace fa1::properties {

Alarms& Alarms::operator+=(const Alarms& others) {
  cases += others.cases;
  declined += others.declined;
  for (std::size_t j = 0; j < verdicts.size(); ++j) {
    verdicts[j] += others.verdicts[j];
    elements[j] += others.elements[j];
  }
  worst_fraction = std::fmax(worst_fraction, others.worst_fraction);
  worst_expected = std::fmax(worst_expected, others.worst_expected);
  if (first_wrong.empty())
    first_wrong = others.first_wrong;
  if (first_suspicious.empty())
    first_suspicious = others.first_suspicious;
  return *this;
}

Alarms count_alarms(const kernels::Kernel& kernel, int cases, std::uint64_t seed) {
  using numerics::Judgement;
  Alarms alarms;
  const auto generator = any_recipe(limits_of(kernel));
  const std::string id = "alarms/" + kernel.id;
  const PropertyReport report =
      run_property(id, {cases, seed ^ reference::hash_of(id), false}, [&] {
        const reference::Recipe recipe = *generator;
        ++alarms.cases;
        if (!kernel.serves(reference::shape_of(recipe))) {
          ++alarms.declined;
          return;
        }
        const numerics::Record record = numerics::measure(recipe, kernel);
        const numerics::Verdict& verdict = record.verdict;
        ++alarms.verdicts[static_cast<std::size_t>(verdict.judgement)];
        for (std::size_t j = 0; j < alarms.elements.size(); ++j)
          alarms.elements[j] += verdict.elements[j];
        if (verdict.judgement != Judgement::undecided && std::isfinite(record.error.max_fraction)) {
          alarms.worst_fraction = std::fmax(alarms.worst_fraction, record.error.max_fraction);
          alarms.worst_expected = std::fmax(alarms.worst_expected, record.error.max_expected);
        }
        if (verdict.judgement == Judgement::proved_wrong && alarms.first_wrong.empty())
          alarms.first_wrong = reference::to_string(recipe);
        if (verdict.judgement == Judgement::suspicious && alarms.first_suspicious.empty())
          alarms.first_suspicious = reference::to_string(recipe);
      });
  if (!report.held) // an exception: the kernel or the laboratory broke, which is no verdict
    throw std::runtime_error(kernel.id + ": " + report.message);
  return alarms;
}

} // namespace fa1::properties
