// The numbers of records.hpp, by themselves: whoever reads records needs nothing else of those that write them.
#include "reports/records.hpp"

#include <cmath>
#include <limits>

namespace fa1::reports {

Json number(double x) {
  if (std::isnan(x))
    return "NaN";
  if (std::isinf(x))
    return x > 0 ? "Infinity" : "-Infinity";
  return x;
}

double number_of(const Json& json) {
  if (json.is_number())
    return json.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return json == "Infinity"    ? kInfinity
         : json == "-Infinity" ? -kInfinity
                               : std::numeric_limits<double>::quiet_NaN();
}

} // namespace fa1::reports
