/// The one place that touches RapidCheck's internals: runs a property and hands back what happened,
/// as data.
///
/// run_property(id, plan, property)
///   property   a callable that draws with `*generator` and fails by RC_FAIL, RC_ASSERT or an
///              exception
///   RC_PARAMS  honoured: `seed=`, `max_success=` and `reproduce=` in that variable win over the
///              plan. On failure the report carries the string to set it to; a `reproduce=` for
///              other ids leaves this property as it is
/// Why        rc::check prints to stderr and cannot fail a Catch2 test; Debian's catch.h includes
///            Catch2 2's header
#pragma once

#include <rapidcheck.h>
#include <rapidcheck/detail/Configuration.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace fa1::properties {

struct PropertyPlan {
  int cases = 100;
  std::uint64_t seed = 1;
  bool shrinks = true;
};

struct PropertyReport {
  bool held = false;
  int cases = 0;         ///< that succeeded
  std::string message;   ///< RapidCheck's text: the shrunk counterexample and why it fails
  std::string reproduce; ///< value for RC_PARAMS that repeats the failure; empty when held
};

namespace internal {

class Silence : public rc::detail::TestListener {
public:
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

/// What RC_PARAMS says, on top of the plan. Malformed text throws
/// rc::detail::ConfigurationException.
inline rc::detail::Configuration configuration_for(const PropertyPlan& plan) {
  rc::detail::Configuration defaults;
  defaults.testParams.maxSuccess = plan.cases;
  defaults.testParams.seed = plan.seed;
  defaults.testParams.disableShrinking = !plan.shrinks;
  const char* params = std::getenv("RC_PARAMS");
  return params == nullptr ? defaults : rc::detail::configFromString(params, defaults);
}

} // namespace internal

template <class Property>
PropertyReport run_property(const std::string& id, const PropertyPlan& plan, Property&& property) {
  namespace rcd = rc::detail;
  const rcd::Configuration configuration = internal::configuration_for(plan);
  internal::Silence silence;
  const rcd::TestResult result =
      rcd::checkProperty(rcd::toProperty(std::forward<Property>(property)), {id, id},
                         configuration.testParams, silence, configuration.reproduce);

  PropertyReport report;
  std::ostringstream text;
  rcd::printResultMessage(result, text);
  report.message = text.str();
  if (result.is<rcd::SuccessResult>()) {
    report.cases = result.get<rcd::SuccessResult>().numSuccess;
    report.held = true;
  } else if (result.is<rcd::FailureResult>()) {
    const auto& failure = result.get<rcd::FailureResult>();
    report.cases = failure.numSuccess;
    rcd::Configuration replay;
    replay.reproduce.emplace(id, failure.reproduce);
    report.reproduce = rcd::configToMinimalString(replay);
  }
  return report;
}

} // namespace fa1::properties
