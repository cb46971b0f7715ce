/// How small a fault the laws see, and how small a one other people's gates see.
///
/// injected(where, size)  FA1 in plain loops, bit for bit fa1.cuh with tiles of kInjectedBc keys, but one
///                        intermediate is multiplied by fl(1 + size); size 0 is the right kernel
/// caught_by_laws         how many of `cases` problems a law violated, all laws added up, counted up to
///                        kSure
/// caught_by_gates        for each gate, how many of `cases` ordinary problems it rejected
///
/// Where n cases are expected to show a fault three times, at least one of them does with probability
/// 1 - e^-3 = 95 %: so kSure = 3 catches are the mark.
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/gates.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fa1::properties {

enum class Where { p, l, alpha, O, score, value };

struct Injection {
  Where where;
  std::string_view id;
  std::string_view says;
};

inline constexpr std::array<Injection, 6> kInjections{{
    {Where::p, "p", "every weight below 1"},
    {Where::l, "l", "l after every tile"},
    {Where::alpha, "alpha", "the rescaling factor where the maximum rises"},
    {Where::O, "O", "O after every tile"},
    {Where::score, "score", "the first row's score of the first key"},
    {Where::value, "V", "one element of V, the first"},
}};

/// What the laws are told about the kernel.
enum class Known { as_fa1, outputs, O_alone };
inline constexpr std::array<std::string_view, 3> kKnownIds{"FA1", "stranger", "O alone"};

inline constexpr int kInjectedBc = 4;
inline constexpr int kSure = 3;

kernels::Kernel injected(Where where, double size, Known known = Known::as_fa1);

int caught_by_laws(const kernels::Kernel& kernel, int cases, std::uint64_t seed);
std::vector<int> caught_by_gates(const kernels::Kernel& kernel, int cases, std::uint64_t seed);

} // namespace fa1::properties
