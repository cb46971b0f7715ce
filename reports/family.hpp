/// The kernels of the family beside each other: how their errors grow, what they move, what they need.
///
/// growth    RMS and largest error of O of each against the number of keys, tiles of two keys (one for
///           fa1_element), V of one sign, so that every rounding of the carried O stays
/// ratios    the error of fa1 over that of fa1_deferred beyond kFromKeys keys, against the prediction.
///           Counted in roundings of each later tile: fa1 meets a product, a sum and a division in O and
///           a sum in l, fa1_deferred a sum in O and one in l (alpha = 1 where the maximum stands):
///           sqrt(4/2); where a product and a sum are fused sqrt(3/2)
/// traffic   floats moved, counted and by the closed form, against shared memory, all tiles of D = 64
/// memory    floats of global memory besides Q, K, V and O, against the number of keys
#pragma once

#include "reports/records.hpp"

namespace fa1::reports {

inline constexpr std::int64_t kFromKeys = 1024;

/// `seeds` as a LIST; `most_keys`: growth ends there.
Json compare_family(const std::string& seeds, std::int64_t most_keys);

} // namespace fa1::reports
