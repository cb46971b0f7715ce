/// Records as JSON: what `--json` prints one a line, and what every report is made of.
///
/// Numbers are JSON numbers; NaN and infinities, which JSON lacks, are the strings "NaN", "Infinity" and "-Infinity".
/// Keys keep the order in which they are written here.
#pragma once

#include "numerics/record.hpp"
#include "numerics/sweep.hpp"
#include "properties/property.hpp"
#include "reports/environment.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace fa1::reports {

using Json = nlohmann::ordered_json;

/// On one line; bytes of others that are no UTF-8 are replaced.
inline std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json number(double x);
/// The way back; NaN where there is no number.
double number_of(const Json& json);

Json to_json(const Environment& environment);
/// Times differ from run to run, so they are left out where two runs are to be compared.
enum class Times { with, without };
Json to_json(const numerics::Record& record, Times times);
/// One point of a sweep over its seeds; `number` counts from 1. Without times: two sweeps of one
/// program are equal byte for byte.
Json to_json(const numerics::PointRecord& point, std::uint64_t number);
Json to_json(const properties::LawResult& result, int cases, std::uint64_t seed);

/// `held`, `violated` or `not-applicable`, as one word to search for.
std::string answer_of(const properties::LawResult& result);

/// `fa1lab run '<recipe>' --kernel <id>`
std::string run_line(const numerics::Record& record);

} // namespace fa1::reports
