// The exponential and the logarithm of the portable build against MPFR.
#include "kernels/portable_math.cuh"

#include <catch2/catch_test_macros.hpp>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace portable = fa1::kernels::portable;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Distance of `got` from the exact value, in the spacing of floats at the exact value.
class Exact {
public:
  Exact() { mpfr_init2(value_, 120); }
  ~Exact() { mpfr_clear(value_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;

  void exp_of(float x) {
    mpfr_set_flt(value_, x, MPFR_RNDN);
    mpfr_exp(value_, value_, MPFR_RNDN);
  }
  void log_of(float x) {
    mpfr_set_flt(value_, x, MPFR_RNDN);
    mpfr_log(value_, value_, MPFR_RNDN);
  }
  double ulp_from(float got) {
    const double rounded = mpfr_get_d(value_, MPFR_RNDN);
    mpfr_t difference;
    mpfr_init2(difference, 120);
    mpfr_set_flt(difference, got, MPFR_RNDN);
    mpfr_sub(difference, difference, value_, MPFR_RNDN);
    const double distance = std::fabs(mpfr_get_d(difference, MPFR_RNDN));
    mpfr_clear(difference);
    const int exponent = rounded == 0.0 ? -200 : std::ilogb(rounded);
    return distance / std::ldexp(1.0, std::max(exponent, -126) - 23);
  }

private:
  mpfr_t value_;
};

/// Every `stride`-th float by encoding.
template <class Visit> void every(std::uint32_t stride, Visit&& visit) {
  for (std::uint64_t bits = 0; bits <= 0xffffffffULL; bits += stride)
    visit(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

} // namespace

TEST_CASE("the portable exponential is within 0.5 + 2^-22 ulp of e^x",
          "[kernels][portable_math][quick]") {
  Exact exact;
  int asked = 0;
  double worst = 0.0;
  const auto ask = [&](float x) {
    if (!(x >= -104.0f && x <= 88.7228394f))
      return;
    exact.exp_of(x);
    worst = std::max(worst, exact.ulp_from(portable::expf(x)));
    ++asked;
  };
  every(9973, ask);
  for (int n = -151; n <= 129; ++n) { // where the power of two changes, and around it
    const auto border = static_cast<float>((n + 0.5) * 0.6931471805599453);
    ask(border);
    ask(std::nextafter(border, kInfinity));
    ask(std::nextafter(border, -kInfinity));
  }
  CHECK(asked > 50'000);
  CHECK(worst <= 0.5 + 0x1p-22);
  CHECK(worst > 0.499);
}

TEST_CASE("the portable logarithm is within 0.5 + 2^-20 ulp of ln x",
          "[kernels][portable_math][quick]") {
  Exact exact;
  int asked = 0;
  double worst = 0.0;
  const auto ask = [&](float x) {
    if (!(x > 0.0f) || x == kInfinity || x == 1.0f)
      return;
    exact.log_of(x);
    worst = std::max(worst, exact.ulp_from(portable::logf(x)));
    ++asked;
  };
  every(19997, ask);
  for (std::uint32_t away = 1; away < 2000; ++away) { // around 1, where the logarithm vanishes
    ask(std::bit_cast<float>(0x3f800000U + away));
    ask(std::bit_cast<float>(0x3f800000U - away));
  }
  CHECK(asked > 90'000);
  CHECK(worst <= 0.5 + 0x1p-20);
  CHECK(worst > 0.499);
}

TEST_CASE("the portable functions take special values as IEEE asks",
          "[kernels][portable_math][quick]") {
  CHECK(portable::expf(-kInfinity) == 0.0f);
  CHECK(portable::expf(kInfinity) == kInfinity);
  CHECK(std::isnan(portable::expf(kNaN)));
  CHECK(portable::expf(0.0f) == 1.0f);
  CHECK(portable::expf(-0.0f) == 1.0f);
  CHECK(portable::expf(0x1.62e42ep+6f) == 0x1.ffff08p+127f); // the last finite one
  CHECK(portable::expf(0x1.62e430p+6f) == kInfinity);
  CHECK(portable::expf(-0x1.9fe368p+6f) == 0x1p-149f); // the last one that is not 0
  CHECK(portable::expf(-0x1.9fe36ap+6f) == 0.0f);

  CHECK(portable::logf(1.0f) == 0.0f);
  CHECK(portable::logf(0.0f) == -kInfinity);
  CHECK(portable::logf(-0.0f) == -kInfinity);
  CHECK(portable::logf(kInfinity) == kInfinity);
  for (const float x : {kNaN, -1.0f, -0x1p-149f, -kInfinity})
    CHECK(std::isnan(portable::logf(x)));
}
