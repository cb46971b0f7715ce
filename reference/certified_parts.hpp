/// What certify() and the truth made on a GPU share.
///
/// norm_above  sqrt(sum x^2) of finite floats, rounded up by at most a factor 1 + 2^-19
/// log_sum     (10) of CERTIFIED.md: M + ln L with its radius, for L >= 1 - 2^-20 or so; `relative`
///             is what L is off by. M's own error cancels
#pragma once

#include "reference/double_double.hpp"
#include "reference/problem.hpp"

#include <span>

namespace fa1::reference {

namespace simd {
struct Kernels;
}

double norm_above(std::span<const float> row);

Enclosed log_sum(const simd::Kernels& kernels, const Pair& M, const Enclosed& L, double relative);

} // namespace fa1::reference
