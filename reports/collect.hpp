/// Everything a report says, measured: one JSON document that all its pages, tables and plots are made of.
///
/// Document  level, seed, environment, summary {held, sentence, rows}, figures [error growth along one key], histogram, family (family.hpp),
///           laws [one for each invariant, with a result for each kernel instance], edge_cases, zoo [one for each wrong and
///           each right kernel, law and gate; none in a quick report]
/// Same      numbers on the same machine and build, however many cores it has; no times are in it
#pragma once

#include "reports/records.hpp"

#include <cstdint>
#include <string_view>

namespace fa1::reports {

/// How much is measured: at most a minute on two cores, at most four, or as long as it takes.
enum class Level { quick, standard, full };
std::string_view name_of(Level level);

Json collect(Level level, std::uint64_t seed);

/// False where anything was proved wrong.
bool held(const Json& report);

} // namespace fa1::reports
