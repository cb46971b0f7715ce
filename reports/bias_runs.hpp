/// The bias meter on kernels, for the command `bias` and its page.
///
/// Record   what, recipe, kernel, wrong (it is wrong on purpose), quantity, V, seeds, mean, low, high (95 %), family_low,
///          family_high (at the level that decides), rows (compared in one call), biased, exact (no error in any
///          run); units as in numerics/bias.hpp
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/bias.hpp"
#include "reports/records.hpp"

#include <string>
#include <vector>

namespace fa1::reports {

inline constexpr const char* kBiasRecipe = "n_q=32 n_kv=256 d=4";

/// One plain tile of every variant, the fused ones of fa1 and fa1_deferred, and the mutants biased_exp and
/// truncated_sum.
std::vector<const kernels::Kernel*> bias_kernels();

/// All rows of one call; shows progress.
std::vector<Json> bias_records(const std::vector<const kernels::Kernel*>& kernels,
                               const std::string& recipe, std::uint64_t first_seed,
                               std::int64_t seeds);

} // namespace fa1::reports
