/// Many laws on many kernels, spread over the cores. Results are the same however many there are.
#pragma once

#include "kernels/kernel.hpp"
#include "properties/property.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace fa1::reports {

/// [law][kernel]. A law that crashes the process it runs in is violated, and its detail says so.
std::vector<properties::LawResult> check_all(std::span<const properties::Invariant* const> laws,
                                             std::span<const kernels::Kernel* const> kernels,
                                             int cases, std::uint64_t seed);

} // namespace fa1::reports
