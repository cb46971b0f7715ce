/// What a kernel does that is careless with precision: the words the mutants of the group `precision`
/// are written in.
///
/// keep_bits(x, n)        x rounded to n bits after the leading one, ties to even: 10 is TF32, 7 bfloat16;
///                        NaN, Inf and a carry into the exponent come out as in those formats
/// to_fp16(x)             x rounded to IEEE half: 10 bits, +-Inf from 65520 on, steps of 2^-24 below 2^-14
/// flush(x)               0 where x is subnormal
/// towards_zero(a, b)     a + b rounded towards zero
/// next_below(x)          the float before x > 0
/// exp_by_polynomial<n>   2^round(y) times a polynomial of degree n in y - round(y), y = x log2 e; 1 at 0,
///                        relative error of the polynomial 2800 u (n = 3), 59 u (n = 4), 3 u (n = 5)
#pragma once

#include "kernels/simt/cuda_vocabulary.hpp"

namespace fa1::kernels {

static __device__ inline unsigned bits_of(float x) {
  unsigned bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static __device__ inline float float_of(unsigned bits) {
  float x = 0.0f;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static __device__ inline float keep_bits(float x, int kept) {
  const unsigned bits = bits_of(x);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return x;
  const unsigned dropped = 23u - static_cast<unsigned>(kept);
  const unsigned half = (1u << (dropped - 1u)) - 1u + ((bits >> dropped) & 1u);
  return float_of(((bits + half) >> dropped) << dropped);
}

static __device__ inline float to_fp16(float x) {
  const float size = fabsf(x);
  if (!(size < 65520.0f))
    return size == size ? copysignf(FA1_INFINITY, x) : x;
  if (size < 0x1p-14f) // adding 1/2 leaves steps of 2^-24
    return copysignf((size + 0.5f) - 0.5f, x);
  return keep_bits(x, 10);
}

static __device__ inline float flush(float x) { return fabsf(x) < 0x1p-126f ? 0.0f : x; }

static __device__ inline float towards_zero(float a, float b) {
  const double exact = static_cast<double>(a) + static_cast<double>(b);
  const float nearest = static_cast<float>(exact);
  const bool too_large = fabs(static_cast<double>(nearest)) > fabs(exact);
  return too_large ? float_of(bits_of(nearest) - 1u) : nearest;
}

static __device__ inline float next_below(float x) { return float_of(bits_of(x) - 1u); }

template <int Degree> static __device__ inline float exp_by_polynomial(float x) {
  static_assert(Degree >= 3 && Degree <= 5);
  constexpr float kPolynomials[3][6] = {
      {1.0f, 0.693189025f, 0.242657781f, 0.0558424965f},
      {1.0f, 0.693121016f, 0.240223497f, 0.0559219755f, 0.00966636837f},
      {1.0f, 0.693147123f, 0.240221053f, 0.0555035658f, 0.00967603084f, 0.00133908622f}};
  const float y = x * 1.44269504f;
  if (!(y > -150.0f)) // -Inf, and what is 0 anyway; NaN stays
    return y == y ? 0.0f : y;
  const float whole = rintf(y);
  const float fraction = y - whole;
  const float* const c = kPolynomials[Degree - 3];
  float power = c[Degree];
  for (int k = Degree - 1; k >= 0; --k)
    power = power * fraction + c[k];
  return ldexpf(power, static_cast<int>(whole));
}

} // namespace fa1::kernels
