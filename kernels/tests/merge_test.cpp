// Claims about the merge of two states on its own: O, l and m of some keys and of others give those
// of all, in any order.
//
// Bound of a merge of three states (O_i, l_i, m_i), w_i = l_i exp(m_i - M): each state passes two
// merges at most. Its exponentials' arguments telescope to M - m_i, and with two exponentials and
// two rounded products its weight is w_i e^x, |x| <= e_i = u (M - m_i + 2 c + 2). On the way into O
// lie 6 roundings (product, sum, division, twice), into l 2 sums.
#include "kernels/kernel.hpp"
#include "kernels/split_kv.cuh"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <random>

using namespace fa1;

namespace {

constexpr int kD = 4;
constexpr double kUnit = 0x1p-24;

struct Part {
  float O[kD];
  float l, m;
};

Part merged(const Part& a, const Part& b) {
  Part both = a;
  kernels::merge_states(both.O, both.l, both.m, b.O, b.l, b.m);
  return both;
}

/// m within 40, so that nothing falls below the normal range.
Part any_part(std::mt19937_64& random) {
  const auto uniform = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(random() % (1u << 24)) * 0x1p-24f;
  };
  Part part{};
  for (float& o : part.O)
    o = uniform(-3.0f, 3.0f);
  part.l = uniform(1.0f, 100.0f);
  part.m = uniform(-20.0f, 20.0f);
  return part;
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

double gamma(double n) { return n * kUnit / (1.0 - n * kUnit); }

/// The exact merge of three, and how far two computed merges may be from it.
struct Exact {
  double M = -HUGE_VAL, l = 0.0, O[kD] = {}, l_bound = 0.0, O_bound[kD] = {};

  explicit Exact(const std::array<Part, 3>& parts) {
    const double c = kernels::Arithmetic{}.exp_error;
    for (const Part& part : parts)
      M = std::max(M, double{part.m});
    double kept = 0.0;
    const auto weight = [&](const Part& part) {
      return double{part.l} * std::exp(double{part.m} - M);
    };
    const auto error = [&](const Part& part) {
      return kUnit * (M - double{part.m} + 2.0 * c + 2.0);
    };
    for (const Part& part : parts) {
      l += weight(part);
      l_bound += weight(part) * (std::exp(error(part)) * (1.0 + gamma(2.0)) - 1.0);
      kept += weight(part) * std::exp(-error(part)) * (1.0 - gamma(2.0));
      for (int i = 0; i < kD; ++i)
        O[i] += weight(part) * double{part.O[i]};
    }
    for (int i = 0; i < kD; ++i) {
      O[i] /= l;
      for (const Part& part : parts)
        O_bound[i] +=
            weight(part) * (std::expm1(error(part)) * std::fabs(double{part.O[i]} - O[i]) +
                            std::exp(error(part)) * (gamma(6.0) * std::fabs(double{part.O[i]}) +
                                                     gamma(2.0) * std::fabs(O[i])));
      O_bound[i] /= kept;
    }
  }
};

} // namespace

TEST_CASE("merging is commutative bit for bit", "[kernels][family][quick]") {
  std::mt19937_64 random(1);
  for (int n = 0; n < 2000; ++n) {
    const Part a = any_part(random), b = any_part(random);

    const Part one = merged(a, b), other = merged(b, a);

    REQUIRE(same(one.l, other.l));
    REQUIRE(same(one.m, other.m));
    for (int i = 0; i < kD; ++i)
      REQUIRE(same(one.O[i], other.O[i]));
  }
}

TEST_CASE("merging is associative within its bound, and m bit for bit",
          "[kernels][family][quick]") {
  std::mt19937_64 random(2);
  int different = 0;
  for (int n = 0; n < 2000; ++n) {
    const std::array<Part, 3> parts{any_part(random), any_part(random), any_part(random)};
    const Exact exact(parts);
    constexpr double kOwn = 0x1p-48; // of this test's double arithmetic

    const Part left = merged(merged(parts[0], parts[1]), parts[2]);
    const Part right = merged(parts[0], merged(parts[1], parts[2]));

    REQUIRE(same(left.m, right.m));
    for (const Part& part : {left, right}) {
      REQUIRE(std::fabs(double{part.l} - exact.l) <= exact.l_bound + kOwn * exact.l);
      for (int i = 0; i < kD; ++i)
        REQUIRE(std::fabs(double{part.O[i]} - exact.O[i]) <= exact.O_bound[i] + kOwn * 3.0);
    }
    different += !same(left.O[0], right.O[0]);
  }
  CHECK(different > 0); // so there is something to bound
}
