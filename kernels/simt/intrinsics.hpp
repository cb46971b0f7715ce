#pragma once

/// Host models of CUDA's single-precision intrinsics.
///
/// Exact: the CUDA word promises the correctly rounded result, and so does this one. Never
/// contracted with a neighbouring operation, whatever -ffp-contract says.
///
///   __fadd_rn, __fsub_rn, __fmul_rn, __fdiv_rn, __fsqrt_rn, __frcp_rn, __fmaf_rn, and the encoding
///   __float_as_uint
///
/// Models: errors of the same kind and no larger size than the documented ones of the hardware, not
/// the hardware's bits. An ulp is the distance between the two floats around the exact result.
///
///   __expf(x)        exp2f(fl(x * log2 e)); the rounding of the product is where the hardware's
///                    error grows as well. Within 2 + floor(1.173 |x|) ulp where e^x is a normal
///                    float. Subnormal results are kept, as by nvcc without -ftz=true. Of +Inf,
///                    -Inf, NaN: +Inf, 0, NaN.
///   __fdividef(x, y) fl(x * fl(1 / y)), within 2 ulp for |y| in [2^-126, 2^126] where the result
///   is a normal float. For
///                    2^126 < |y| < 2^128 zero, and NaN when x is infinite, as the manual says.
///                    Subnormal y: 1 / y may overflow, no claim.
///   __logf(x)        fl(log2f(x) * ln 2): absolute error within 2^-21.41 for x in [0.5, 2], within
///                    3 ulp elsewhere.
///   rsqrtf(x)        fl(1 / sqrtf(x)), within 2 ulp.
///
/// Source: CUDA C++ Programming Guide, "Mathematical Functions", tables of the intrinsic functions.

#include <math.h> // NOLINT(modernize-deprecated-headers): the names without std::, as CUDA has them

// Forced inline: kernels are compiled several times with different instruction sets, and the linker
// would keep one copy of an ordinary inline function for all of them.
#define FA1_WORD inline __attribute__((always_inline))

// A value that is rounded here and now.
#if defined(__clang__)
#define FA1_NO_CONTRACTION _Pragma("clang fp contract(off)")
#define FA1_ROUNDED(x) (x)
#else
#define FA1_NO_CONTRACTION
#define FA1_ROUNDED(x) ::fa1::simt::rounded(x)
#endif

#ifndef __clang__
namespace fa1::simt {

FA1_WORD float rounded(float x) {
#if defined(__FMA__)
  // g++ 12 forgets __builtin_assoc_barrier where it vectorises, and fuses x * y + z all the same.
  asm("" : "+x"(x));
  return x;
#elif defined(__aarch64__)
  asm("" : "+w"(x));
  return x;
#else
  return __builtin_assoc_barrier(x);
#endif
}

} // namespace fa1::simt
#endif

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.

FA1_WORD float __fadd_rn(float x, float y) {
  FA1_NO_CONTRACTION
  return FA1_ROUNDED(x + y);
}

FA1_WORD float __fsub_rn(float x, float y) {
  FA1_NO_CONTRACTION
  return FA1_ROUNDED(x - y);
}

FA1_WORD float __fmul_rn(float x, float y) {
  FA1_NO_CONTRACTION
  return FA1_ROUNDED(x * y);
}

FA1_WORD float __fdiv_rn(float x, float y) { return x / y; }

FA1_WORD float __fsqrt_rn(float x) { return sqrtf(x); }

FA1_WORD float __frcp_rn(float x) { return 1.0F / x; }

FA1_WORD float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

FA1_WORD unsigned __float_as_uint(float x) {
  unsigned bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

FA1_WORD float __expf(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  return exp2f(__fmul_rn(x, kLog2E));
}

FA1_WORD float __fdividef(float x, float y) {
  const float magnitude = fabsf(y);
  const bool reciprocal_vanishes = magnitude > 0x1p126F && magnitude <= 0x1.fffffep127F;
  return __fmul_rn(x, reciprocal_vanishes ? copysignf(0.0F, y) : 1.0F / y);
}

FA1_WORD float __logf(float x) {
  constexpr float kLn2 = 0.69314718055994531F;
  return __fmul_rn(log2f(x), kLn2);
}

FA1_WORD float rsqrtf(float x) { return 1.0F / sqrtf(x); }

// NOLINTEND(bugprone-reserved-identifier)

#undef FA1_NO_CONTRACTION
#undef FA1_ROUNDED
