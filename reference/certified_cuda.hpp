/// The certified truth of whole matrices, made on a GPU.
///
/// Computes  what certify() does, every row of Q: O, l, m and LSE with their radii, the same bits as
///           tile::certify_tiles. Rows that the tiles do not cover come from certify() itself
/// Shapes    as in problem.hpp
/// Error     as in certified_tiles.hpp
/// Needs     a device with 218 KiB of shared memory for a block (an H100 or H200), and on it
///           8 (n_q + n_kv) d + 8 n_kv dv + 24 n_q dv bytes for each batch-head, d padded to a
///           multiple of 32 and dv to one of 64, beside the floats. More than 64 columns of V cost
///           the scores again, for every 64
/// Errors    DeviceError from a CUDA call, and in a build without CUDA
#pragma once

#include "reference/problem.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa1::reference {

class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Why this build or this machine cannot make the truth on a GPU; empty where it can.
std::string certify_cuda_obstacle();

/// Seconds by the device's clock.
struct DeviceTimes {
  double prepare = 0.0; ///< floats to padded doubles
  double maxima = 0.0;  ///< the shift of each row, where scores are large
  double tiles = 0.0;   ///< everything else
};

Truth certify_cuda(const Problem& problem, unsigned threads = 1, DeviceTimes* times = nullptr);

} // namespace fa1::reference
