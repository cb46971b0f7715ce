// The loops of certified_simd.hpp, compiled once for every vector unit by Highway.
//
// Where a product is exact (two floats; 29 bits times a float) MulAdd rounds as Mul and Add do, so
// it may be used on units with and without fused instructions. Everywhere else products and sums
// stay apart. product_error is the exact error of a product either way: nothing here is small
// enough to underflow in it.

#include "reference/certified_simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/certified_simd.cpp"
#define HWY_COMPILE_ALL_ATTAINABLE // the scalar one too: the tests compare them all
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fa1::reference::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kGroup>;
using Integers = hn::RebindToSigned<Doubles>;
using V = hn::Vec<Doubles>;

constexpr Doubles kD;
constexpr Integers kI;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(kD)); }

/// The leading 29 bits, so that a product with a float is exact.
HWY_INLINE V leading_bits(V x) {
  return hn::And(x, hn::BitCast(kD, hn::Set(kI, ~((std::int64_t{1} << 24) - 1))));
}

/// a + b, and its error.
HWY_INLINE V two_sum(V a, V b, V& error) {
  const V sum = hn::Add(a, b);
  const V back = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, back)), hn::Sub(b, back));
  return sum;
}

/// The same where |a| >= |b| or a = 0.
HWY_INLINE V fast_two_sum(V a, V b, V& error) {
  const V sum = hn::Add(a, b);
  error = hn::Sub(b, hn::Sub(sum, a));
  return sum;
}

/// a b - product, exactly.
HWY_INLINE V product_error(V a, V b, V product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, product);
#else
  const V splitter = hn::Set(kD, 0x1p27 + 1.0);
  const V a_big = hn::Mul(splitter, a), b_big = hn::Mul(splitter, b);
  const V a_hi = hn::Sub(a_big, hn::Sub(a_big, a)), b_hi = hn::Sub(b_big, hn::Sub(b_big, b));
  const V a_lo = hn::Sub(a, a_hi), b_lo = hn::Sub(b, b_hi);
  const V rest = hn::Sub(hn::Mul(a_hi, b_hi), product);
  return hn::Add(hn::Add(hn::Add(rest, hn::Mul(a_hi, b_lo)), hn::Mul(a_lo, b_hi)),
                 hn::Mul(a_lo, b_lo));
#endif
}

/// (hi, lo) += (b_hi, b_lo), relative error at most 3.1 u^2.
HWY_INLINE void add_pair(V& hi, V& lo, V b_hi, V b_lo) {
  V s_lo, t_lo, v_lo;
  const V s = two_sum(hi, b_hi, s_lo);
  const V t = two_sum(lo, b_lo, t_lo);
  const V v = fast_two_sum(s, hn::Add(s_lo, t), v_lo);
  hi = fast_two_sum(v, hn::Add(t_lo, v_lo), lo);
}

/// acc += a b rounded to the grid of acc's anchor, what is cut off goes to lo; a b is exact.
HWY_INLINE void accumulate(V a, V b, V& acc, V& lo) {
  const V next = hn::MulAdd(a, b, acc);
  const V step = hn::Sub(next, acc); // exact: both are multiples of the grid in one binade
  lo = hn::Add(lo, hn::MulSub(a, b, step));
  acc = next;
}

/// hi + lo = scale * ((acc - anchor) + lo)
HWY_INLINE void store_scores(V acc, V lo, V anchor, V scale, double* to_hi, double* to_lo) {
  const V hi = hn::Sub(acc, anchor);
  const V top = leading_bits(hi);
  V error, low;
  const V product = fast_two_sum(hn::Mul(top, scale), hn::Mul(hn::Sub(hi, top), scale), error);
  const V sum = two_sum(product, hn::Add(error, hn::Mul(lo, scale)), low);
  hn::StoreU(sum, kD, to_hi);
  hn::StoreU(low, kD, to_lo);
}

void scores(const double* tile, std::int64_t d, const double* q, const double* anchors,
            std::int64_t rows, double scale, double* hi, double* lo, std::int64_t stride) {
  const std::int64_t N = lanes();
  const V scales = hn::Set(kD, scale);
  for (std::int64_t r = 0; r < rows; r += 2) {
    const std::int64_t r1 = r + 1 < rows ? r + 1 : r; // an odd last row is done twice
    const double *q0 = q + r * d, *q1 = q + r1 * d;
    const V anchor0 = hn::Set(kD, anchors[r]), anchor1 = hn::Set(kD, anchors[r1]);
    for (std::int64_t j = 0; j < kBlock; j += 2 * N) {
      V acc00 = anchor0, acc01 = anchor0, acc10 = anchor1, acc11 = anchor1;
      V lo00 = hn::Zero(kD), lo01 = lo00, lo10 = lo00, lo11 = lo00;
      const double* keys = tile + j;
      for (std::int64_t i = 0; i < d; ++i, keys += kBlock) {
        const V k0 = hn::LoadU(kD, keys), k1 = hn::LoadU(kD, keys + N);
        const V a = hn::Set(kD, q0[i]), b = hn::Set(kD, q1[i]);
        accumulate(a, k0, acc00, lo00);
        accumulate(a, k1, acc01, lo01);
        accumulate(b, k0, acc10, lo10);
        accumulate(b, k1, acc11, lo11);
      }
      double *hi0 = hi + r * stride + j, *lo0 = lo + r * stride + j;
      double *hi1 = hi + r1 * stride + j, *lo1 = lo + r1 * stride + j;
      store_scores(acc00, lo00, anchor0, scales, hi0, lo0);
      store_scores(acc01, lo01, anchor0, scales, hi0 + N, lo0 + N);
      store_scores(acc10, lo10, anchor1, scales, hi1, lo1);
      store_scores(acc11, lo11, anchor1, scales, hi1 + N, lo1 + N);
    }
  }
}

void raise_maximum(const double* hi, const double* lo, double& M_hi, double& M_lo) {
  V top_hi = hn::Set(kD, M_hi), top_lo = hn::Set(kD, M_lo);
  for (std::int64_t j = 0; j < kBlock; j += lanes()) {
    const V h = hn::LoadU(kD, hi + j), l = hn::LoadU(kD, lo + j);
    const auto above = hn::Or(hn::Gt(h, top_hi), hn::And(hn::Eq(h, top_hi), hn::Gt(l, top_lo)));
    top_hi = hn::IfThenElse(above, h, top_hi);
    top_lo = hn::IfThenElse(above, l, top_lo);
  }
  alignas(64) double his[kGroup], los[kGroup];
  hn::Store(top_hi, kD, his);
  hn::Store(top_lo, kD, los);
  for (std::int64_t lane = 0; lane < lanes(); ++lane)
    if (his[lane] > M_hi || (his[lane] == M_hi && los[lane] > M_lo)) {
      M_hi = his[lane];
      M_lo = los[lane];
    }
}

/// exp of x_hi + x_lo, -700 <= x <= 0; derivation in CERTIFIED.md, whose letters these are.
HWY_INLINE V exponential(const ExpTable& table, V x_hi, V x_lo, V& w_lo) {
  // ln2 / 512 = c1 + c2 + c3, c1 and c2 of 34 bits, so that k c1 and k c2 are exact
  const V c1 = hn::Set(kD, 0x2c5c85fdfp-43), c2 = hn::Set(kD, 0x11cf79abcp-77),
          c3 = hn::Set(kD, 0x1.3c7673007e5edp-78);
  const V magic = hn::Set(kD, 0x1.8p52);
  const V shifted = hn::Add(hn::Mul(x_hi, hn::Set(kD, 0x1.71547652b82fep+9)), magic);
  const V k = hn::Sub(shifted, magic);
  V error;
  const V a = two_sum(hn::Sub(x_hi, hn::Mul(k, c1)), hn::Neg(hn::Mul(k, c2)), error);
  V r_lo;
  const V r = two_sum(a, hn::Add(error, hn::Sub(x_lo, hn::Mul(k, c3))), r_lo);

  // q = 1/24 + r/120 + ... + r^4/8!, g = 1/6 + r q = c6 + v, f = 1/2 + r g, E = r + r^2 f
  const auto horner = [&](V sum, double next)
                          HWY_ATTR { return hn::Add(hn::Mul(sum, r), hn::Set(kD, next)); };
  const V q = horner(
      horner(horner(horner(hn::Set(kD, 1.0 / 40320.0), 1.0 / 5040.0), 1.0 / 720.0), 1.0 / 120.0),
      1.0 / 24.0);
  const V c6 = hn::Set(kD, 0x1.5555555555555p-3);
  const V v = hn::Add(hn::Set(kD, 0x1.5555555555555p-57), hn::Mul(r, q));
  const V u = hn::Mul(r, c6);
  const V z = hn::Add(product_error(r, c6, u), hn::Add(hn::Mul(r, v), hn::Mul(r_lo, c6)));
  V f_lo;
  const V f = fast_two_sum(hn::Set(kD, 0.5), u, f_lo);
  f_lo = hn::Add(f_lo, z);
  const V s = hn::Mul(r, r);
  const V s_lo = hn::Add(product_error(r, r, s), hn::Mul(hn::Add(r, r), r_lo));
  const V p = hn::Mul(s, f);
  const V p_lo = hn::Add(product_error(s, f, p), hn::Add(hn::Mul(s, f_lo), hn::Mul(s_lo, f)));
  V E_lo;
  const V E = fast_two_sum(r, p, E_lo);
  E_lo = hn::Add(E_lo, hn::Add(p_lo, r_lo));

  // w = T (1 + E) 2^(k / 512), T = 2^(k mod 512 / 512)
  const auto bits = hn::BitCast(kI, shifted); // k in the low bits
  const auto index = hn::And(bits, hn::Set(kI, std::int64_t{kSteps - 1}));
  const V T = hn::GatherIndex(kD, table.hi, index), T_lo = hn::GatherIndex(kD, table.lo, index);
  const V power = hn::BitCast(
      kD, hn::Add(hn::ShiftLeft<43>(hn::Sub(bits, index)), hn::Set(kI, std::int64_t{1023} << 52)));
  const V m = hn::Mul(T, E);
  const V m_lo = hn::Add(product_error(T, E, m), hn::Add(hn::Mul(T, E_lo), hn::Mul(T_lo, E)));
  V low;
  const V sum = fast_two_sum(T, m, low);
  const V w = fast_two_sum(sum, hn::Add(low, hn::Add(T_lo, m_lo)), low);
  w_lo = hn::Mul(low, power);
  return hn::Mul(w, power);
}

bool weigh(const ExpTable& table, const double* hi, const double* lo, double M_hi, double M_lo,
           Weights& weights, WeightSums& sums) {
  const V lowest = hn::Set(kD, kLowestArgument);
  bool any = false;
  for (std::int64_t j = 0; j < kBlock; j += lanes()) {
    V error, x_lo;
    const V s = hn::LoadU(kD, hi + j), s_lo = hn::LoadU(kD, lo + j);
    const V difference = two_sum(s, hn::Set(kD, -M_hi), error);
    V x = two_sum(difference, hn::Add(error, hn::Sub(s_lo, hn::Set(kD, M_lo))), x_lo);
    const auto counts = hn::Ge(x, lowest); // false for the NaN that -Inf makes, too
    any = any || !hn::AllFalse(kD, counts);
    x = hn::IfThenElseZero(counts, x);
    x_lo = hn::IfThenElseZero(counts, x_lo);

    V w_lo;
    V w = exponential(table, x, x_lo, w_lo);
    w = hn::IfThenElseZero(counts, w);
    w_lo = hn::IfThenElseZero(counts, w_lo);

    const V leading = leading_bits(w);
    const V slope = hn::Mul(hn::Abs(x), hn::Set(kD, kExpSlope));
    const V above = hn::Set(kD, 1.0 + 0x1p-19); // for the bits that leading_bits drops, and more
    const V size = leading_bits(hn::Mul(hn::Mul(w, above), hn::Add(slope, hn::Set(kD, 1.0))));
    hn::StoreU(leading, kD, weights.leading + j);
    hn::StoreU(hn::Sub(w, leading), kD, weights.trailing + j);
    hn::StoreU(w_lo, kD, weights.low + j);
    hn::StoreU(size, kD, weights.size + j);

    const std::int64_t at = j % kGroup;
    V sum = hn::LoadU(kD, sums.hi + at), sum_lo = hn::LoadU(kD, sums.lo + at);
    add_pair(sum, sum_lo, w, w_lo);
    hn::StoreU(sum, kD, sums.hi + at);
    hn::StoreU(sum_lo, kD, sums.lo + at);
    hn::StoreU(hn::Add(hn::LoadU(kD, sums.size + at), size), kD, sums.size + at);
  }
  return any;
}

/// 1.5 * 2^(E + scaling) with 2^(E-1) in (b, 2 b], b at least 2^-800.
HWY_INLINE V anchor_above(V b, std::int64_t scaling) {
  const auto exponent = hn::And(hn::BitCast(kI, hn::Max(b, hn::Set(kD, 0x1p-800))),
                                hn::Set(kI, std::int64_t{0x7ff} << 52));
  return hn::Mul(
      hn::BitCast(kD, hn::Add(exponent, hn::Set(kI, (2 + scaling) * (std::int64_t{1} << 52)))),
      hn::Set(kD, 1.5));
}

/// The sums of one block for one vector of columns go into the row's.
HWY_INLINE void add_block(V acc, V anchor, V lo, V acc2, V anchor2, V lo2, V b, double* hi_sum,
                          double* lo_sum, double* size) {
  V error, low;
  const V leading = two_sum(hn::Sub(acc, anchor), hn::Sub(acc2, anchor2), error);
  const V block = two_sum(leading, hn::Add(error, hn::Add(lo, lo2)), low);
  V hi = hn::LoadU(kD, hi_sum), rest = hn::LoadU(kD, lo_sum);
  add_pair(hi, rest, block, low);
  hn::StoreU(hi, kD, hi_sum);
  hn::StoreU(rest, kD, lo_sum);
  hn::StoreU(hn::Add(hn::LoadU(kD, size), b), kD, size);
}

void add_values(const Weights& weights, const double* tile, std::int64_t columns, double* hi,
                double* lo, double* size) {
  const std::int64_t N = lanes();
  std::int64_t c = 0;
  for (; c + 2 * N <= columns; c += 2 * N) {
    const double* const first = tile + c;
    V even0 = hn::Zero(kD), even1 = even0, odd0 = even0, odd1 = even0;
    for (std::int64_t j = 0; j < kBlock; j += 2) {
      const double* values = first + j * columns;
      const V y = hn::Set(kD, weights.size[j]), next = hn::Set(kD, weights.size[j + 1]);
      even0 = hn::MulAdd(y, hn::Abs(hn::LoadU(kD, values)), even0);
      even1 = hn::MulAdd(y, hn::Abs(hn::LoadU(kD, values + N)), even1);
      odd0 = hn::MulAdd(next, hn::Abs(hn::LoadU(kD, values + columns)), odd0);
      odd1 = hn::MulAdd(next, hn::Abs(hn::LoadU(kD, values + columns + N)), odd1);
    }
    const V b0 = hn::Add(even0, odd0), b1 = hn::Add(even1, odd1);
    const V anchor0 = anchor_above(b0, 0), anchor1 = anchor_above(b1, 0);
    const V small0 = anchor_above(b0, -28), small1 = anchor_above(b1, -28);
    V acc0 = anchor0, acc1 = anchor1, acc20 = small0, acc21 = small1;
    V lo0 = hn::Zero(kD), lo1 = lo0, lo20 = lo0, lo21 = lo0;
    const double* values = first;
    for (std::int64_t j = 0; j < kBlock; ++j, values += columns) {
      const V w = hn::Set(kD, weights.leading[j]), w2 = hn::Set(kD, weights.trailing[j]);
      const V w3 = hn::Set(kD, weights.low[j]);
      const V v0 = hn::LoadU(kD, values), v1 = hn::LoadU(kD, values + N);
      accumulate(w, v0, acc0, lo0);
      accumulate(w, v1, acc1, lo1);
      accumulate(w2, v0, acc20, lo20);
      accumulate(w2, v1, acc21, lo21);
      lo20 = hn::Add(lo20, hn::Mul(w3, v0));
      lo21 = hn::Add(lo21, hn::Mul(w3, v1));
    }
    add_block(acc0, anchor0, lo0, acc20, small0, lo20, b0, hi + c, lo + c, size + c);
    add_block(acc1, anchor1, lo1, acc21, small1, lo21, b1, hi + c + N, lo + c + N, size + c + N);
  }
  for (; c < columns; c += N) { // what is left where vectors have 8 lanes
    const double* const first = tile + c;
    V even = hn::Zero(kD), odd = even;
    for (std::int64_t j = 0; j < kBlock; j += 2) {
      const double* values = first + j * columns;
      even = hn::MulAdd(hn::Set(kD, weights.size[j]), hn::Abs(hn::LoadU(kD, values)), even);
      odd = hn::MulAdd(hn::Set(kD, weights.size[j + 1]), hn::Abs(hn::LoadU(kD, values + columns)),
                       odd);
    }
    const V b = hn::Add(even, odd);
    const V anchor = anchor_above(b, 0), small = anchor_above(b, -28);
    V acc = anchor, acc2 = small, lo_sum = hn::Zero(kD), lo2 = lo_sum;
    for (std::int64_t j = 0; j < kBlock; ++j) {
      const V v = hn::LoadU(kD, first + j * columns);
      accumulate(hn::Set(kD, weights.leading[j]), v, acc, lo_sum);
      accumulate(hn::Set(kD, weights.trailing[j]), v, acc2, lo2);
      lo2 = hn::Add(lo2, hn::Mul(hn::Set(kD, weights.low[j]), v));
    }
    add_block(acc, anchor, lo_sum, acc2, small, lo2, b, hi + c, lo + c, size + c);
  }
}

void exponentials(const ExpTable& table, std::int64_t count, double* hi, double* lo) {
  for (std::int64_t j = 0; j < count; j += lanes()) {
    const V x = hn::LoadU(kD, hi + j);
    const auto counts = hn::Ge(x, hn::Set(kD, kLowestArgument));
    V w_lo;
    const V w = exponential(table, hn::IfThenElseZero(counts, x),
                            hn::IfThenElseZero(counts, hn::LoadU(kD, lo + j)), w_lo);
    hn::StoreU(hn::IfThenElseZero(counts, w), kD, hi + j);
    hn::StoreU(hn::IfThenElseZero(counts, w_lo), kD, lo + j);
  }
}

} // namespace

Kernels kernels() { return {scores, raise_maximum, weigh, add_values, exponentials}; }
std::int64_t target() { return HWY_TARGET; }

} // namespace fa1::reference::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <boost/multiprecision/mpfr.hpp>

namespace fa1::reference::simd {

HWY_EXPORT(kernels);
HWY_EXPORT(target);

namespace {

Unit dispatched() {
  return {hwy::TargetName(HWY_DYNAMIC_DISPATCH(target)()), HWY_DYNAMIC_DISPATCH(kernels)()};
}

} // namespace

const ExpTable& exp_table() {
  static const ExpTable table = [] {
    using Wide = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>,
                                               boost::multiprecision::et_off>;
    ExpTable made{};
    for (int i = 0; i < kSteps; ++i) {
      const Wide power = exp2(Wide(static_cast<double>(i) / kSteps));
      made.hi[i] = power.convert_to<double>();
      made.lo[i] = Wide(power - Wide(made.hi[i])).convert_to<double>();
    }
    return made;
  }();
  return table;
}

const Unit& best_unit() {
  static const Unit unit = dispatched();
  return unit;
}

std::vector<Unit> all_units() {
  best_unit(); // chosen before anything is switched off
  std::vector<Unit> units;
  for (const std::int64_t choice : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(choice);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    units.push_back(dispatched());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return units;
}

} // namespace fa1::reference::simd

#endif // HWY_ONCE
