/// The same kernels compiled in different ways, held against each other.
///
/// compare_builds   for every build of a variant on this machine (cpu, cpu-fma, cpu-portable; on a GPU the rows of
///                  kernels/builds.def): which laws hold, how large the error is, and how far the outputs lie from
///                  the CPU's
/// Instances        those with D = 8; the same tiles in every build
/// Laws             all of the catalogue, `cases` generated problems for each law and instance, asked with the bound of
///                  nvcc's default options whatever the options are
/// Errors           RMS of (O - truth) / (u sum p|v|) on kBuildRecipes, over that of the first build of the same side
///                  (cpu or GPU); above 1: less accurate
/// Distances        elements of O on kBuildRecipes that differ from the same text on the CPU (cpu-portable, cpu-fma or
///                  cpu, as the law cpu-gpu chooses; for CPU builds: cpu), and how many floats lie between: the median
///                  of those that differ, and the largest where |O| is at least its RMS
#pragma once

#include "reports/records.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

struct BuildRow {
  std::string build, says;
  std::int64_t instances = 0;
  std::int64_t laws_asked = 0;     ///< of which at least one case applied
  std::vector<std::string> broken; ///< ids of the laws that were violated
  std::string first_violation;     ///< the line to paste
  double worst_fraction = 0.0;     ///< of a bound, over the laws that held
  double error = 0.0;              ///< RMS, in u sum p|v|
  double error_ratio = 0.0;        ///< over the first build of the same side
  std::string beside;              ///< the build that the outputs are compared with
  std::int64_t elements = 0, different = 0;
  std::int64_t median_distance = 0, largest_distance = 0; ///< in floats
};

/// Throws UsageError where the variant is not known.
std::vector<BuildRow> compare_builds(std::string_view variant, int cases, std::uint64_t seed);

Json to_json(const BuildRow& row, std::string_view variant, int cases, std::uint64_t seed);

} // namespace fa1::reports
