/// The kernels of the family beside each other: how their errors grow, what they move, what they need.
///
/// growth    RMS and largest error of O of each against the number of keys, tiles of two keys (one for
///           fa1_element), V of one sign, so that every rounding of the carried O stays
/// ratios    the error of fa1 over that of fa1_deferred beyond kFromKeys keys, against the prediction.
///           Counted in roundings of each later tile: fa1_deferred meets a sum in O and one in l (alpha =
///           1 where the maximum stands). fa1 meets these, and a product and a division in O: where a
///           product and a sum are fused sqrt(3/2). Where they are not, the product is with the l of the
///           division before, and mostly gives back the dividend: what is left of the two is
///           roundings_left(), 0.7 of one, so sqrt(2.7/2) and not sqrt(4/2)
/// traffic   floats moved, counted and by the closed form, against shared memory, all tiles of D = 64
/// memory    floats of global memory besides Q, K, V and O, against the number of keys
#pragma once

#include "kernels/kernel.hpp"
#include "reports/records.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

inline constexpr std::int64_t kFromKeys = 1024;

/// The variants of all_kernels(), in their order.
std::vector<std::string> variants();

/// The tile that stands for a variant: for the CPU, of head dimension D, two keys wide where there is one; null
/// where there is none at all.
const kernels::Kernel* representative(std::string_view variant, bool contracted, int D = 8);

/// The mean square of fl(fl(y / l) l) / y - 1 over that of fl(y / l) l / y - 1, in fp32, for y / l and l
/// uniform in [1, 2).
double roundings_left();

/// `seeds` as a LIST; `most_keys`: growth ends there.
Json compare_family(const std::string& seeds, std::int64_t most_keys);

/// The ratios alone.
Json compare_divisions(const std::string& seeds, std::int64_t most_keys);

} // namespace fa1::reports
