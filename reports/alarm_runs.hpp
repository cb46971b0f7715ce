/// False alarms of the verdict on right kernels, spread over the cores in processes.
///
/// Cases are drawn in blocks of kAlarmBlock, each with a seed of its own, so results do not depend on
/// the number of cores.
#pragma once

#include "properties/alarms.hpp"

#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

namespace fa1::reports {

inline constexpr int kAlarmBlock = 5000;

struct AlarmRow {
  const kernels::Kernel* kernel = nullptr;
  properties::Alarms alarms;
};

/// `cases` problems for each kernel; throws std::runtime_error where a kernel or a process breaks.
std::vector<AlarmRow> count_alarms(std::span<const kernels::Kernel* const> kernels,
                                   std::int64_t cases, std::uint64_t seed);

bool no_false_alarm(std::span<const AlarmRow> rows);

void print(std::ostream& out, std::span<const AlarmRow> rows);
/// One record a kernel.
void print_json(std::ostream& out, std::span<const AlarmRow> rows, std::uint64_t seed);

} // namespace fa1::reports
