// Compiled once for every vector unit by Highway, as certified_simd.cpp is, so that both choose the same.
#include "reports/vector_peak.hpp"

#include "reference/certified_simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reports/vector_peak.cpp"
#define HWY_COMPILE_ALL_ATTAINABLE
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fa1::reports::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<double, reference::simd::kGroup> kD;
using V = hn::Vec<hn::CappedTag<double, reference::simd::kGroup>>;

/// The accumulation of CERTIFIED.md, "Anchored sums".
HWY_INLINE void accumulate(V a, V b, V& sum, V& lo) {
  const V next = hn::MulAdd(a, b, sum);
  lo = hn::Add(lo, hn::MulSub(a, b, hn::Sub(next, sum)));
  sum = next;
}

/// Six chains of sum and of lo: enough for two units of latency 4, and all fits into 16 registers.
double run(std::int64_t rounds, double first, double second) {
  const V a = hn::Set(kD, first), b = hn::Set(kD, second);
  V sum0 = a, sum1 = hn::Add(sum0, b), sum2 = hn::Add(sum1, b), sum3 = hn::Add(sum2, b),
    sum4 = hn::Add(sum3, b), sum5 = hn::Add(sum4, b);
  V lo0 = hn::Zero(kD), lo1 = lo0, lo2 = lo0, lo3 = lo0, lo4 = lo0, lo5 = lo0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    accumulate(a, b, sum0, lo0);
    accumulate(a, b, sum1, lo1);
    accumulate(a, b, sum2, lo2);
    accumulate(a, b, sum3, lo3);
    accumulate(a, b, sum4, lo4);
    accumulate(a, b, sum5, lo5);
  }
  const V sums = hn::Add(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), hn::Add(sum4, sum5));
  const V los = hn::Add(hn::Add(hn::Add(lo0, lo1), hn::Add(lo2, lo3)), hn::Add(lo4, lo5));
  return hn::GetLane(hn::Add(sums, los));
}

} // namespace

VectorPeak peak_here() {
  return {hwy::TargetName(HWY_TARGET), static_cast<std::int64_t>(hn::Lanes(kD)),
          HWY_NATIVE_FMA != 0, run};
}

} // namespace fa1::reports::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace fa1::reports {

HWY_EXPORT(peak_here);

VectorPeak vector_peak() { return HWY_DYNAMIC_DISPATCH(peak_here)(); }

double certify_operations(std::int64_t d, std::int64_t dv) {
  const auto scores = static_cast<double>(4 * d + 16);
  constexpr double kMaximum = 8.0, kWeight = 128.0;
  const auto values = static_cast<double>(dv) * (2.0 + 10.0 + 0.75); // size, sums, joining blocks
  return scores + kMaximum + kWeight + values;
}

} // namespace fa1::reports

#endif // HWY_ONCE
