// Claims about the sweeps over exponentials: their truth is as good as it says (MPFR is the judge), nothing that an
// exponential can do wrong is missed, and the host's libm is what kernels/exponentials.def states.
#include "kernels/exponentials.hpp"
#include "kernels/launch.hpp"
#include "numerics/exponentials.hpp"
#include "numerics/ulp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fa1;
using numerics::ArgumentRange;
using numerics::Base;
using numerics::Exponential;
using numerics::ExponentialErrors;
using numerics::float_at;
using numerics::index_of;
using numerics::kNowhere;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Keeps the largest relative error of exact_power().
template <Base base> class TruthJudge {
public:
  TruthJudge() {
    mpfr_init2(x_, 24);
    mpfr_init2(power_, 160);
    mpfr_init2(error_, 160);
  }
  TruthJudge(const TruthJudge&) = delete;
  TruthJudge& operator=(const TruthJudge&) = delete;
  ~TruthJudge() { mpfr_clears(x_, power_, error_, static_cast<mpfr_ptr>(nullptr)); }

  void ask(float x) {
    ++asked;
    mpfr_set_flt(x_, x, MPFR_RNDN);
    if (base == Base::two)
      mpfr_exp2(power_, x_, MPFR_RNDN);
    else
      mpfr_exp(power_, x_, MPFR_RNDN);
    mpfr_sub_d(error_, power_, numerics::exact_power<base>(x), MPFR_RNDN);
    mpfr_div(error_, error_, power_, MPFR_RNDN);
    worst = std::max(worst, std::fabs(mpfr_get_d(error_, MPFR_RNDA)));
  }
  void ask_around(float x) {
    ask(std::nextafter(x, -kInf));
    ask(x);
    ask(std::nextafter(x, kInf));
  }

  double worst = 0.0;
  int asked = 0;

private:
  mpfr_t x_, power_, error_;
};

template <Base base> void check_truth(double limit, double unit) {
  TruthJudge<base> judge;
  for (int k = -1010; k <= 1010; ++k) // where k of the reduction changes, and where r is 0
    for (const double x : {k * unit, (k + 0.5) * unit})
      if (std::fabs(x) < limit)
        judge.ask_around(static_cast<float>(x));
  const ArgumentRange inside{index_of(static_cast<float>(-limit)),
                             index_of(static_cast<float>(limit)), 40009};
  for (std::uint64_t i = 0; i < inside.count(); ++i)
    judge.ask(float_at(inside.from + static_cast<std::uint32_t>(i * inside.every)));
  for (const double edge : {-126.0, -149.0, -150.0, 127.0, 128.0}) // of the ranges of fp32
    judge.ask_around(static_cast<float>(edge * unit));

  CAPTURE(judge.asked, judge.worst / numerics::kTruthError);
  CHECK(judge.asked > 50'000);
  CHECK(judge.worst <= numerics::kTruthError);
  CHECK(judge.worst > 0x1p-54); // somebody was really asked
}

/// A sweep of a function that says nothing of a library.
ExponentialErrors swept(float (*f)(float), const ArgumentRange& range, Base base = Base::e,
                        unsigned threads = 2) {
  return numerics::exponential_of("f", "nobody", base, f).sweep(range, threads, {});
}

float right(float x) { return std::exp(x); }

constexpr float kBad = -0x1.2345p+2f;
ArgumentRange around(float x, std::uint32_t reach) {
  return {index_of(x) - reach, index_of(x) + reach, 1};
}

} // namespace

TEST_CASE("the exact powers are off by no more than stated, says MPFR", "[numerics][quick]") {
  check_truth<Base::e>(700.0, 0x1.62e42fefa39efp-1);
  check_truth<Base::two>(1000.0, 1.0);
}

TEST_CASE("beyond the range of doubles the exact powers still are on the right side",
          "[numerics][quick]") {
  for (const float x : {-kInf, std::numeric_limits<float>::lowest(), -1e4f, -701.0f}) {
    CHECK(numerics::exact_power<Base::e>(x) < 0x1p-1000);
    CHECK(numerics::exact_power<Base::two>(2.0f * x) < 0x1p-990);
    CHECK(numerics::exact_power<Base::e>(-x) > 0x1p1000);
    CHECK(numerics::exact_power<Base::two>(-2.0f * x) > 0x1p990);
  }
}

TEST_CASE("encodings in their order are numbers in theirs", "[numerics][quick]") {
  CHECK(std::isnan(float_at(0)));
  CHECK(std::isnan(float_at(0xffffffffu)));
  CHECK(float_at(index_of(-kInf) - 1) != float_at(index_of(-kInf) - 1));
  for (std::uint64_t i = index_of(-kInf); i + 77'777 <= index_of(kInf); i += 77'777) {
    const auto index = static_cast<std::uint32_t>(i);
    REQUIRE(index_of(float_at(index)) == index);
    REQUIRE(float_at(index) < float_at(index + 77'777));
  }
  CHECK(index_of(0.0f) == index_of(-0.0f) + 1);
  CHECK(ArgumentRange{}.count() == numerics::kEncodings);
}

TEST_CASE("an error is counted where it belongs", "[numerics][quick]") {
  for (int bin = 0; bin < numerics::kErrorBins; ++bin) {
    const double begin = numerics::bin_begin(bin);
    CAPTURE(bin, begin);
    CHECK(numerics::error_bin(begin) == bin);
    if (bin > 0)
      CHECK(numerics::error_bin(std::nextafter(begin, 0.0)) == bin - 1);
  }
  CHECK(numerics::error_bin(1e300) == numerics::kErrorBins - 1);
  CHECK(numerics::error_bin(std::nan("")) == numerics::kErrorBins - 1);
}

TEST_CASE("one wrong bit at one argument is found", "[numerics][quick]") {
  const auto flipped = [](float x) {
    const auto bits = numerics::same_encoding<std::uint32_t>(std::exp(x));
    return numerics::same_encoding<float>(x == kBad ? bits ^ 1u : bits);
  };
  const ArgumentRange range = around(kBad, 500'000);

  const ExponentialErrors good = swept(right, range), bad = swept(flipped, range);

  CHECK(good.ulp.error < 0.51);
  CHECK(bad.ulp.at == index_of(kBad));
  CHECK(bad.ulp.error > 0.51);
  CHECK(bad.relative.at == index_of(kBad));
  CHECK(bad.not_nearest == good.not_nearest + 1);
  CHECK(bad.arguments == 1'000'001);
}

TEST_CASE("errors are those of a plain formula", "[numerics][quick]") {
  // 3 instead of e^x at x = 1: an ulp of e is 2^-22
  const ExponentialErrors one = swept([](float) { return 3.0f; }, around(1.0f, 0));
  // half of the smallest normal result, whose error is counted in 2^-149
  const ExponentialErrors small =
      swept([](float) { return 0x1p-128f; }, around(-127.0f, 0), Base::two);

  const double e = std::exp(1.0);
  CHECK(std::fabs(one.ulp.error - (3.0 - e) * 0x1p22) < 1e-8);
  CHECK(std::fabs(one.relative.error - (3.0 - e) / e * 0x1p24) < 1e-6);
  CHECK(one.normal == 1);
  CHECK(small.below.error == 0x1p21);
  CHECK(small.underflow == 1);
  CHECK(small.ulp.error < 0.0);
  CHECK(small.not_nearest == 1);
}

TEST_CASE("whatever an exponential does wrong is counted and told where", "[numerics][quick]") {
  struct Fault {
    const char* says;
    float (*f)(float);
    ArgumentRange range;
    bool (*found)(const ExponentialErrors&);
  };
  const Fault faults[] = {
      {"a fall", [](float x) { return x >= 1.0f ? std::exp(x) - 1.0f : std::exp(x); },
       around(1.0f, 1000),
       [](const ExponentialErrors& e) { return e.falls == 1 && e.first_fall == index_of(1.0f); }},
      {"NaN where there is a number", [](float x) { return x == 1.0f ? kNaN : std::exp(x); },
       around(1.0f, 1000),
       [](const ExponentialErrors& e) {
         return e.nan_made == 1 && std::isnan(e.ulp.error) && e.ulp.at == index_of(1.0f);
       }},
      {"a number where there is NaN",
       [](float x) { return std::isnan(x) ? 0.0f : std::exp(x); },
       {0, 9, 1},
       [](const ExponentialErrors& e) { return e.nan_lost == 10; }},
      {"subnormals flushed",
       [](float x) { return std::exp(x) < 0x1p-126f ? 0.0f : std::exp(x); },
       {index_of(-105.0f), index_of(-87.0f), 7},
       [](const ExponentialErrors& e) {
         return e.flushed > 1000 && e.below.error > 8e6 && e.last_zero > e.right_last_zero;
       }},
      {"overflow too early", [](float x) { return x > 88.7f ? kInf : std::exp(x); },
       around(88.7f, 5000),
       [](const ExponentialErrors& e) {
         return e.early > 1000 && e.first_infinite < e.right_first_infinite && e.ulp.error > 1e5;
       }},
      {"overflow too late", [](float x) { return std::min(std::exp(x), 0x1.fffffep127f); },
       around(0x1.62e430p+6f, 5000),
       [](const ExponentialErrors& e) {
         return e.late > 1000 && e.first_infinite == kNowhere && e.early == 0;
       }},
      {"a sign", [](float x) { return x < -200.0f ? -0.0f : std::exp(x); }, around(-200.0f, 10),
       [](const ExponentialErrors& e) { return e.negative == 10 && e.falls == 0; }},
      {"no 1 of a subnormal", [](float x) { return 1.0f + (x > 0.0f ? 0x1p-23f : 0.0f); },
       around(0.0f, 100), [](const ExponentialErrors& e) { return e.tiny_not_one == 100; }},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.says);
    CHECK(fault.found(swept(fault.f, fault.range)));
    CHECK_FALSE(fault.found(swept(right, fault.range)));
  }
}

TEST_CASE("pieces of a sweep add up to what one loop sees, on any number of threads",
          "[numerics][quick]") {
  // falls at the seam of two pieces, which are of 2^20 arguments
  const auto falls = [](float x) { return index_of(x) < index_of(-1.0f) ? 2.0f : std::exp(x); };
  const ArgumentRange range{index_of(-1.0f) - (1u << 20), index_of(-1.0f) + (3u << 19), 1};
  ExponentialErrors plain;
  for (std::uint64_t i = range.from; i <= range.to; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    const float x = float_at(index);
    plain.see(index, x, falls(x), numerics::exact_power<Base::e>(x));
  }

  CHECK(plain.falls == 1);
  CHECK(plain.first_fall == index_of(-1.0f));
  for (const unsigned threads : {1u, 3u})
    CHECK(swept(falls, range, Base::e, threads) == plain);
}

TEST_CASE("the host's exponentials are what the table of errors says of them",
          "[numerics][quick]") {
  for (const Exponential& exponential : numerics::host_exponentials()) {
    const kernels::ExpError* row =
        kernels::exp_error_of(exponential.library, "", exponential.function);
    REQUIRE(row != nullptr);
    CAPTURE(exponential.library, exponential.function, row->source);

    const ExponentialErrors sample = exponential.sweep({.every = 4099}, 2, {});

    CHECK(sample.ulp.error <= row->ulp);
    CHECK(sample.relative.error <= row->relative);
    CHECK(sample.below.error <= row->underflow);
    CHECK(sample.nan_made + sample.nan_lost + sample.early + sample.late + sample.falls == 0);
    CHECK(sample.ulp.error > 0.49);
    if (row->swept) { // and no more than was measured
      const ExponentialErrors worst = exponential.sweep(around(row->at, 0), 1, {});
      const ExponentialErrors lowest = exponential.sweep(around(row->underflow_at, 0), 1, {});
      CHECK(worst.relative.error <= row->relative);
      CHECK(worst.relative.error > row->relative - 2e-6);
      CHECK(lowest.below.error <= row->underflow);
      CHECK(lowest.below.error > row->underflow - 2e-6);
    }
  }
}

TEST_CASE("a library or device that nobody swept has the documented error", "[numerics][quick]") {
  const auto* const newer = kernels::exp_error_of("glibc 9.99 x86_64", "", "expf");
  const auto* const stranger = kernels::exp_error_of("another libm", "", "expf");
  const auto* const gpu = kernels::exp_error_of("NVIDIA H200", "CUDA 99.0", "expf");
  REQUIRE(newer != nullptr);
  REQUIRE(stranger != nullptr);
  REQUIRE(gpu != nullptr);

  CHECK(kernels::exp_error_of("glibc 2.36 x86_64", "", "sinf") == nullptr);
  CHECK(newer->c() == 1.004);
  CHECK(stranger->c() == 2.0);
  CHECK(gpu->c() == 5.0);
  CHECK(gpu->mu() == 2.5 * 0x1p-149);
  for (const kernels::ExpError& row : kernels::exp_errors()) {
    CAPTURE(row.library, row.toolkit, row.function);
    CHECK(row.c() > 0.0);
    CHECK(row.underflow > 0.0);
    if (row.swept) {
      CHECK(kernels::exp_error_of(row.library, row.toolkit, row.function) == &row);
      CHECK_FALSE(row.toolkit == "CUDA 99.0");
    }
  }
}

TEST_CASE("the truth on the device is the truth on the host", "[numerics][quick]") {
  if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
    SKIP(obstacle);
  for (const Exponential& exponential : numerics::cuda_exponentials()) {
    CAPTURE(exponential.function);
    const ArgumentRange range{.every = 4099};
    std::vector<float> x(range.count());
    for (std::uint64_t i = 0; i < x.size(); ++i)
      x[i] = float_at(static_cast<std::uint32_t>(i * range.every));

    const ExponentialErrors there = exponential.sweep(range, 1, {});
    const std::vector<float> y = exponential.answers(x);
    ExponentialErrors here;
    for (std::size_t i = 0; i < x.size(); ++i)
      here.see(index_of(x[i]), x[i], y[i],
               exponential.base == Base::e ? numerics::exact_power<Base::e>(x[i])
                                           : numerics::exact_power<Base::two>(x[i]));

    CHECK(std::fabs(there.ulp.error - here.ulp.error) <= 2.0 * numerics::kTruthErrorUlp);
    CHECK(std::fabs(there.below.error - here.below.error) <= 2.0 * numerics::kTruthErrorUlp);
    CHECK(there.normal == here.normal);
    CHECK(there.underflow == here.underflow);
    CHECK(there.overflow == here.overflow);
    CHECK(there.falls == here.falls);
    CHECK(there.nan_lost == here.nan_lost);
    CHECK(there.right_first_infinite == here.right_first_infinite);
  }
}
