/// The recurrence in fp32 with roundings inserted: what a kernel in lower precision computes.
///
/// Computes  prepare     the problem as a configuration sees it: Q and K turned by a random
///                       orthogonal matrix where asked, then Q, K and V rounded; scaled to the
///                       range of the format, in blocks or as whole tensors, where asked. All of it
///                       stays a Problem of fp32 numbers, so that reference::certify gives its exact
///                       answer too
///           emulate     the carries after all keys of a prepared problem: tiled_mirror.hpp
///                       operation for operation, each value of a Stage rounded to the stage's
///                       format after it was computed in fp32
/// Shapes    as in problem.hpp; turning pads d to the next power of two
/// Requires  Bc >= 1 (keys of a tile, and rows of a block for scaling). Scaling: the largest entry
///           of a block is 0 or above 2^-100. A translation unit compiled with -ffp-contract=off
/// Error     that of fp32 and of the stages' formats; with fp32 everywhere the bits are those of
///           tiled_mirror. A value goes through fp32 first, as it does in kernels whose accumulators
///           are fp32 registers
/// Special   as in tiled_mirror; fp16 stages overflow to Inf, fp8 stages saturate (formats.hpp)
/// Scaling   x is held as s * fp8(x / s) with s = max|x| / largest of the format, rounded up to 20
///           bits, so that the product is an fp32 number; s = 1 where all are 0. A kernel multiplies
///           by s after its matrix product instead: the same up to roundings of fp32
/// Turning   Q D H / sqrt(d) and K D H / sqrt(d), H a Hadamard matrix and D random signs:
///           orthogonal, so no score changes; computed in double, rounded to fp32. Outliers spread
///           over the row
/// Source    Dao et al. 2022 (the recurrence); Shah et al. 2024, FlashAttention-3 (blocks, turning);
///           its code (p times 2^8 in fp8); Golden et al. 2024; Qiu and Yao 2025
#pragma once

#include "numerics/formats.hpp"
#include "reference/problem.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fa1::numerics {

/// Where a value is rounded, in the order of the recurrence.
enum class Stage : std::uint8_t {
  inputs,      ///< Q, K and V, once
  accumulator, ///< every product and partial sum of q.k, sum p and sum p v
  dot,         ///< q.k before the scale
  scores,      ///< s
  argument,    ///< s - m and m_old - m_new
  exp,         ///< p as it enters the sum for l, and alpha
  p,           ///< p as it meets V
  sum,         ///< sum p of a tile
  pv,          ///< sum p v of a tile
  carried,     ///< alpha l
  l,           ///< the carry l
  numerator,   ///< alpha l O and alpha l O + sum p v
  O,           ///< the carry O
  output       ///< O after the last tile
};
inline constexpr std::size_t kStages = 14;
std::string_view name_of(Stage stage);

enum class Scaling : std::uint8_t { none, tensor, blocks };

struct Configuration {
  std::string id;
  std::string says;
  std::array<FormatId, kStages> formats{}; ///< fp32 where nothing is said
  Scaling scaling = Scaling::none;         ///< of the inputs
  bool turned = false;       ///< Q and K times a random orthogonal matrix ("incoherent processing")
  bool one_tile = false;     ///< softmax of whole rows: the tile holds all keys
  bool normalised = false;   ///< p divided by l before it is rounded and meets V; wants one_tile
  float p_factor = 1.0f;     ///< a power of two on p while it is rounded
  float split_maxima = 0.0f; ///< beta > 1: where a tile's maximum r is not unique, beta r takes its
                             ///< place if r > 0, and 0 if r < 0, so that no two weights are 1

  FormatId format(Stage stage) const { return formats[static_cast<std::size_t>(stage)]; }
};

/// The table.
std::span<const Configuration> all_configurations();

class ConfigurationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A row of the table by its id, or roundings of one's own: `p=bf16,l=fp16`, and `all=bf16` for
/// every stage. Throws ConfigurationError, one line, where it is neither.
Configuration parse_configuration(std::string_view text);

/// `inputs fp16, p fp16`: the stages that are not fp32, none for none; where most are of one format,
/// `all bf16` and those that are of another.
std::string stages_of(const Configuration& configuration);

/// Of problems with one seed the turning is the same.
reference::Problem prepare(const reference::Problem& problem, const Configuration& configuration,
                           std::int64_t Bc, std::uint64_t seed = 1);

reference::State emulate(const reference::Problem& prepared, const Configuration& configuration,
                         std::int64_t Bc);

} // namespace fa1::numerics
