/// Measuring: one recipe on one kernel, many recipes along some keys, and the slope that comes out.
///
/// measure        make the problem, run, certify, bound, summarise, judge: one Record. The only path
///                from a recipe to a number, for tests and for tables. K and V beyond chunk_bytes are
///                made, run and certified chunk by chunk where the kernel resumes from its carries,
///                so that memory does not grow with n_kv; the outputs are those of one launch
/// Axis           one key of a recipe with the values it takes, written `KEY=LIST`:
///                  a,b,c   these values (for Q, K, V, scores and put, whose values hold commas:
///                          a|b|c)
///                  a..b    whole numbers: a, 2a, 4a, ... and b (from 0: 0, 1, 2, 4, ...);
///                          real numbers: a, 10a, 100a, ... and b
///                  a..b:n  n values evenly spaced on a logarithmic scale, both ends included
/// expand         the grid over several axes, the last one fastest
/// log_log_slope  least squares of log y over log x with the 95 % confidence interval of the slope
///                (Student's t, points - 2 degrees of freedom)
/// Errors         SweepError: one line that names the key, what was found and what would be right;
///                reference::RecipeError where a point is no recipe, before anything is run
#pragma once

#include "numerics/record.hpp"

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

class SweepError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::int64_t kChunkBytes = std::int64_t{16} << 20;

/// Results do not depend on `threads`; of `chunk_bytes`, only the truth's last bits and radius do.
Record measure(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads = 1,
               std::int64_t chunk_bytes = kChunkBytes);

/// Multiply-adds of one run, the measure of work that times are foretold by.
double work_of(const reference::Shape& shape);

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

inline constexpr std::size_t kMaxPoints = 10'000; ///< of one axis and of a grid

Axis parse_axis(std::string_view text);

struct Point {
  std::vector<std::string> values; ///< one for each axis
  reference::Recipe recipe;
};

/// The recipe `base` with each combination of the axes' values put in. Every point's sizes are
/// checked.
std::vector<Point> expand(std::string_view base, std::span<const Axis> axes);

struct Slope {
  double slope = 0.0;
  double low = 0.0, high = 0.0; ///< 95 % confidence interval
  int points = 0;
};

/// Points that are not positive and finite in both coordinates are left out; with fewer than three
/// points left, or all at one x, the slope is NaN.
Slope log_log_slope(std::span<const double> x, std::span<const double> y);

} // namespace fa1::numerics
