/// Small random problems of every family, size and order of magnitude, as recipes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

namespace fa1::reference {

/// The same text for the same seed, everywhere; one batch-head.
inline std::string random_recipe(std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>(bits() % n); };
  static constexpr std::array kDists{"normal", "uniform",   "outliers", "pow2",
                                     "ints",   "subnormal", "zero"};
  static constexpr std::array kOrders{"free",       "free", "ascending",
                                      "descending", "tied", "dominant"};
  static constexpr std::array kValues{"normal",      "uniform",     "outliers", "pow2",
                                      "ints",        "subnormal",   "zero",     "positive",
                                      "alternating", "alternating", "index",    "constant:-0.3"};
  // Half of the factors lie where scores differ and none wins, the rest anywhere.
  const double spread = below(2) == 0 ? 1.5 : 30.0;
  const double exponent = (static_cast<double>(below(2001)) / 1000.0 - 1.0) * spread;
  std::string text = "n_q=" + std::to_string(1 + below(2)) +
                     " n_kv=" + std::to_string(1 + below(below(4) == 0 ? 150 : 24)) +
                     " d=" + std::to_string(1 + below(9)) + " dv=" + std::to_string(1 + below(4)) +
                     " seed=" + std::to_string(seed) + " dist=" + kDists[below(kDists.size())] +
                     " order=" + kOrders[below(kOrders.size())] +
                     " v=" + kValues[below(kValues.size())];
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), " sigma=%.3e", std::pow(10.0, exponent));
  text += number.data();
  if (below(4) == 0 && text.find("dominant") == std::string::npos) { // whose lead needs a scale
    static constexpr std::array kScales{"-1", "0.3", "0", "1e-20", "1e10", "-0x1p-140", "3e38"};
    text += std::string(" scale=") + kScales[below(kScales.size())];
  }
  return text;
}

} // namespace fa1::reference
