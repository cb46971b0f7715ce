/// Why equal values drift: the error of O for tied scores and a constant V (edge case drift-constant), foretold
/// without running the recurrence.
///
/// Computes  sum_of_equals      v + v + ... in fp32, from 0, in time that does not grow with the count: bit for bit
///           deferred_drift     O / v - 1 where A = l O is carried and divided at the end (fa1_deferred and its
///                              kind): bit for bit
///           normalised_drift   the same where O is carried (fa1), in the mean over the product's roundings
/// Requires  v > 0, not subnormal; l = Bc tiles at most 2^24, so that it is exact; a*b+c in two roundings
/// Error     normalised_drift: numerics/ratchet.csv, `drift.normalised`, in u a tile
/// Source    derived here
///
/// Derivation. All scores are equal, so every weight is 1, alpha = 1 and l = Bc t is exact. Every tile brings
/// the same in-tile sum pv = sum_of_equals(v, Bc).
///
///   A carried.   A is a running sum of equal numbers. While it stays in one binade it lies on one grid, of step
///             g: adding pv moves it by round(pv / g) g, by the same amount every time, and commits the same error
///             r = round(pv / g) g - pv every time. Nothing averages that out: a bias of r a tile, for as long as
///             the binade lasts, and half of all tiles lie in the last binade. So the error of A / l is about
///             r t / l: in units of u up to T / 2, growing like T and not like sqrt(T). Its sign is that of r,
///             which is read off the digits of pv below g: for 0.1 = 0.000110011..., digits of period 4, it
///             changes every second doubling of T; for 1/3, of period 2, at each.
///   O carried.   (l O + pv) / l_new has the same sum in it: l O is rounded to the grid g of A and pv is added. The
///             division rounds to the grid q of O, an error of up to q / 2, and the next product multiplies it by l.
///             Where l q < g the product's rounding gives back the sum that was divided: the drift is that of A
///             carried. Where l q > g several sums share one quotient, and the product gives back the one
///             nearest to l O: off the line through O by an amount uniform in g / l. With rho = min(1, g / (l q)),
///             U uniform in [-1/2, 1/2], one tile moves O in the mean by
///                 q E round(a + rho U),       a = (pv - Bc O + r) / (l_new q),
///             pv - Bc O being the pull back to v. For rho = 1 that is q a, the drift of A carried. For rho < 1 a
///             small a is rounded away more often than not: O drifts less where the significand of v is near 1,
///             and as much as A where it is near 2. Where g <= q the product is exact, and rho = 0.
///   Fused.    l O + pv is rounded once, from an exact product with the digits of l in it, so that no part of
///             its error is the same in every tile. The drift is several times smaller, not gone, and not foretold
///             here: over 30 values and up to 2^20 tiles at most 0.05 u a tile, against 0.17 u of plain sums.
#pragma once

#include <cstdint>

namespace fa1::numerics {

float sum_of_equals(float v, std::int64_t count);

double deferred_drift(float v, std::int64_t Bc, std::int64_t tiles);

double normalised_drift(float v, std::int64_t Bc, std::int64_t tiles);

} // namespace fa1::numerics
