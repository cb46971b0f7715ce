/// What `fa1lab exp` finds out, as a record.
#pragma once

#include "numerics/exponentials.hpp"
#include "reports/records.hpp"

#include <string>

namespace fa1::reports {

struct ExponentialRun {
  const numerics::Exponential* exponential = nullptr;
  std::string on; ///< cpu, gpu
  numerics::ArgumentRange range;
  numerics::ExponentialErrors errors;
  double seconds = 0.0;
};

/// Arguments and answers are hexadecimal floats.
Json to_json(const ExponentialRun& run, Times times = Times::with);

/// -0x1.bcc73p+3; `-nan:0x7fffff` for what has no number.
std::string hexadecimal_or_payload(float x);

/// False where the row of kernels/exponentials.def that applies promises less error than was measured.
bool row_holds(const ExponentialRun& run);

/// The row of kernels/exponentials.def that this sweep gives; errors rounded up.
std::string table_row(const ExponentialRun& run);

} // namespace fa1::reports
