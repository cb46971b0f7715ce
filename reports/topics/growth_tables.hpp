/// What the page on growth measures besides slopes: each a table of flat records.
///
/// best_tiles  error over the width of the tiles for N = 256, 1024, ... most_keys, and where it is least
///             (numerics/growth.hpp, fit_over_tiles), over seeds 1 to `seeds`
/// grades      of a tile of each variant, and of five kernels that are wrong in their precision, over N = 32, 64, ...
///             most_keys and six kinds of inputs
/// faults      the smallest fault that each of two screens sees (numerics/fault_screens.hpp)
#pragma once

#include "numerics/sweep.hpp"
#include "reports/records.hpp"

#include <cstdint>

namespace fa1::reports {

struct Tiles {
  Json u_shapes = Json::array(), minima = Json::array(); ///< series of plots
  Json records = Json::array();
  numerics::Slope power; ///< of the best Bc over N
};

Tiles best_tiles(std::int64_t most_keys, int seeds);
Json grades(std::int64_t most_keys);
Json faults(int problems);

} // namespace fa1::reports
