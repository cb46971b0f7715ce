/// Problems from recipes, and outputs held against each other bit for bit.
#pragma once

#include "reference/problem.hpp"
#include "reference/recipe.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace fa1::kernels::tests {

inline reference::Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

/// NaN equals NaN: which one an operation gives is nobody's promise.
inline bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

inline bool same_bits(const reference::State& a, const reference::State& b) {
  const auto same_elements = [](const auto& left, const auto& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), same);
  };
  return same_elements(a.O.elements(), b.O.elements()) && same_elements(a.l, b.l) &&
         same_elements(a.m, b.m);
}

} // namespace fa1::kernels::tests
