#include "reports/exponential_records.hpp"

#include "kernels/exponentials.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace fa1::reports {
namespace {

using numerics::kNowhere;
using numerics::LargestError;

Json argument(std::uint64_t index) {
  if (index == kNowhere)
    return nullptr;
  return hexadecimal_or_payload(numerics::float_at(static_cast<std::uint32_t>(index)));
}

Json largest(const LargestError& error, const char* unit) {
  if (error.error < 0.0)
    return nullptr;
  return {{"error", number(error.error)},
          {"unit", unit},
          {"at", argument(error.at)},
          {"got", hexadecimal_or_payload(error.got)}};
}

Json answers_of(const numerics::Exponential& exponential) {
  std::vector<float> x;
  for (const numerics::SpecialArgument& special : numerics::special_arguments())
    x.push_back(numerics::same_encoding<float>(special.bits));
  const std::vector<float> y = exponential.answers(x);
  Json answers = Json::object();
  for (std::size_t i = 0; i < y.size(); ++i)
    answers[numerics::special_arguments()[i].name] = hexadecimal_or_payload(y[i]);
  return answers;
}

/// Seven digits, rounded up, and what the truth itself may be off.
double rounded_up(double error) {
  if (!(error > 0.0) || std::isinf(error))
    return error;
  const double unit = std::pow(10.0, std::floor(std::log10(error)) - 6.0);
  return std::ceil((error + numerics::kTruthErrorUlp) / unit) * unit;
}

const kernels::ExpError* row_of(const numerics::Exponential& exponential) {
  return kernels::exp_error_of(exponential.library, exponential.toolkit, exponential.function);
}

} // namespace

std::string hexadecimal_or_payload(float x) {
  if (std::isnan(x))
    return fmt::format("{}nan:0x{:x}", std::signbit(x) ? "-" : "",
                       numerics::same_encoding<std::uint32_t>(x) & 0x7fffffu);
  return fmt::format("{:a}", x);
}

bool row_holds(const ExponentialRun& run) {
  const kernels::ExpError* row = row_of(*run.exponential);
  const numerics::ExponentialErrors& e = run.errors;
  return row == nullptr || (e.ulp.error <= row->ulp && e.relative.error <= row->relative &&
                            e.below.error <= row->underflow && e.nan_made == 0);
}

std::string table_row(const ExponentialRun& run) {
  const numerics::ExponentialErrors& e = run.errors;
  return fmt::format("FA1_SWEPT(\"{}\", \"{}\", \"{}\", {:.7g}, {:.7g}, {}f, {:.7g}, {}f,\n"
                     "          \"all 2^32 arguments\")",
                     run.exponential->library, run.exponential->toolkit, run.exponential->function,
                     rounded_up(e.ulp.error), rounded_up(e.relative.error),
                     hexadecimal_or_payload(numerics::float_at(e.relative.at)),
                     rounded_up(e.below.error),
                     hexadecimal_or_payload(numerics::float_at(e.below.at)));
}

Json to_json(const ExponentialRun& run, Times times) {
  const numerics::ExponentialErrors& e = run.errors;
  Json bins = Json::array(), counts = Json::array();
  for (int i = 0; i < numerics::kErrorBins; ++i) {
    bins.push_back(numerics::bin_begin(i));
    counts.push_back(e.histogram[i]);
  }
  Json stated = nullptr;
  if (const kernels::ExpError* row = row_of(*run.exponential))
    stated = {{"ulp", row->ulp},        {"relative", row->relative}, {"underflow", row->underflow},
              {"measured", row->swept}, {"source", row->source},     {"held", row_holds(run)}};
  Json record = {{"what", "exponential"},
                 {"function", run.exponential->function},
                 {"on", run.on},
                 {"library", run.exponential->library},
                 {"toolkit", run.exponential->toolkit},
                 {"base", run.exponential->base == numerics::Base::e ? "e" : "2"},
                 {"from", argument(run.range.from)},
                 {"to", argument(run.range.to)},
                 {"every", run.range.every},
                 {"arguments", e.arguments},
                 {"normal", e.normal},
                 {"underflow", e.underflow},
                 {"overflow", e.overflow},
                 {"max_ulp", largest(e.ulp, "ulp")},
                 {"max_relative", largest(e.relative, "u")},
                 {"max_underflow", largest(e.below, "2^-149")},
                 {"truth_error", numerics::kTruthErrorUlp},
                 {"not_nearest", e.not_nearest},
                 {"near_tie", e.near_tie},
                 {"bins", bins},
                 {"histogram", counts},
                 {"falls", e.falls},
                 {"first_fall", argument(e.first_fall)},
                 {"first_infinite", argument(e.first_infinite)},
                 {"right_first_infinite", argument(e.right_first_infinite)},
                 {"early_infinite", e.early},
                 {"late_infinite", e.late},
                 {"last_zero", argument(e.last_zero)},
                 {"right_last_zero", argument(e.right_last_zero)},
                 {"flushed", e.flushed},
                 {"tiny_not_one", e.tiny_not_one},
                 {"negative", e.negative},
                 {"nan_arguments", e.nan_arguments},
                 {"nan_lost", e.nan_lost},
                 {"nan_made", e.nan_made},
                 {"answers", answers_of(*run.exponential)},
                 {"stated", stated}};
  if (times == Times::with)
    record["seconds"] = run.seconds;
  return record;
}

} // namespace fa1::reports
