/// Measuring: one recipe on one kernel, one point over its seeds, many points along some keys, and
/// the slope that comes out.
///
/// measure        make the problem, run, certify, bound, summarise, judge: one Record. The only path
///                from a recipe to a number, for tests and for tables. K and V beyond chunk_bytes are
///                made, run and certified chunk by chunk where the kernel resumes from its carries,
///                so that memory does not grow with n_kv; the outputs are those of one launch
/// sample         the same with the error of every element of O beside it
/// Pool           the samples of one point, one for each seed, as one PointRecord
/// Axis           one key of a recipe, or `kernel`, with the values it takes, written `KEY=LIST`:
///                  a,b,c   these values (for Q, K, V, scores and put, whose values hold commas:
///                          a|b|c)
///                  a..b    whole numbers: a, 2a, 4a, ... and b (from 0: 0, 1, 2, 4, ...);
///                          real numbers: a, 10a, 100a, ... and b
///                  a..b+s  a, a + s, a + 2 s, ... as far as b
///                  a..b:n  n values evenly spaced on a logarithmic scale, both ends included
/// expand         the grid over several axes, the last one fastest, as a list; the seed is an axis
/// Grid           the same, each point made when it is asked for. The seed is no axis here: a point
///                is measured once for each of its values
/// log_log_slope  least squares of log y over log x with the 95 % confidence interval of the slope
///                (Student's t, points - 2 degrees of freedom)
/// Softmax bound  Blanchard, Higham, Higham 2021: the shifted softmax of n numbers is wrong by at
///                most [n + 2 + 2 (xmax - xmin)] u in the maximum norm. To first order each weight
///                keeps this bound: p_j loses u (M - s_j) to its argument's subtraction, u to the
///                exponential, the sum the weighted mean of the same and n - 1 additions, and the
///                division u. So B = n_kv + 2 + 2 max_j (M - s_j) bounds the error of O in units of
///                u sum p|v| as far as it comes from the softmax. Errors of the scores and of p v
///                are not in it: it is a line to compare with, and no verdict rests on it
/// Quantiles      nearest rank: the smallest error that so large a part of them does not exceed
/// Errors         SweepError: one line that names the key, what was found and what would be right;
///                reference::RecipeError where a point is no recipe, before anything is run
#pragma once

#include "numerics/record.hpp"
#include "reference/truth_source.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
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

/// Results do not depend on `threads`; of `chunk_bytes` and `source`, only the truth's last bits and radius do.
/// Where a GPU makes the truth, all keys come at once.
Record measure(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads = 1,
               std::int64_t chunk_bytes = kChunkBytes,
               reference::TruthSource source = reference::TruthSource::cpu);

/// A record, and what cannot be pooled from the records of several seeds.
struct Sample {
  Record record;
  std::vector<double> errors;    ///< |error| / (u sum p|v|) of each element of O; NaN without bound
  double max_softmax = 0.0;      ///< largest of these over its row's softmax bound
  double softmax_relative = 0.0; ///< the softmax bound, RMS over the elements
};

Sample sample(const reference::Recipe& recipe, const kernels::Kernel& kernel, unsigned threads = 1,
              std::int64_t chunk_bytes = kChunkBytes,
              reference::TruthSource source = reference::TruthSource::cpu);

/// In u; `spread` = max_j (M - s_j).
constexpr double softmax_bound(std::int64_t n, double spread) {
  return static_cast<double>(n) + 2.0 + 2.0 * spread;
}

inline constexpr std::array kQuantiles{0.5, 0.9, 0.99, 0.999};

/// One point of a sweep over all its seeds.
struct PointRecord {
  reference::Recipe first; ///< with the first seed
  std::uint64_t last_seed = 0;
  std::int64_t runs = 0;
  Record deciding; ///< the run with the worst judgement, among these the closest to its bound
  std::array<std::int64_t, 4> judged{}; ///< runs judged so, in the order of Judgement
  ErrorSummary error;                   ///< of all elements; median_fraction is not pooled
  std::array<double, kQuantiles.size()> quantiles{}; ///< of |error| / (u sum p|v|)
  double max_softmax = 0.0, softmax_relative = 0.0;  ///< as in Sample
  std::int64_t not_finite = 0;
  double eta = 0.0, spread = 0.0; ///< the largest
};

/// Holds 8 bytes for each element of the point's outputs.
class Pool {
public:
  void add(const Sample& run);
  /// The point so far; the pool is empty afterwards.
  PointRecord take();

private:
  PointRecord point_;
  double squares_ = 0.0, sum_ = 0.0, bound_squares_ = 0.0, expected_squares_ = 0.0,
         softmax_squares_ = 0.0;
  std::vector<double> errors_;
};

/// Multiply-adds of one run, the measure of work that times are foretold by.
double work_of(const reference::Shape& shape);

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

inline constexpr std::size_t kMaxPoints = 10'000;    ///< of a grid that nobody has to confirm
inline constexpr std::size_t kMaxValues = 1'000'000; ///< of one axis
inline constexpr std::uint64_t kMostPoints = 1'000'000'000'000'000'000; ///< of any grid

Axis parse_axis(std::string_view text);

struct Point {
  std::vector<std::string> values; ///< one for each axis
  reference::Recipe recipe;
};

/// The recipe `base` with each combination of the axes' values put in. Every point's sizes are
/// checked.
std::vector<Point> expand(std::string_view base, std::span<const Axis> axes);

struct GridPoint {
  std::vector<std::string> values; ///< one for each axis of the grid
  std::string kernel;              ///< empty where it is not varied
  reference::Recipe recipe;        ///< with the first seed
};

class Grid {
public:
  Grid(std::string_view base, std::vector<Axis> axes);

  std::span<const Axis> axes() const { return axes_; } ///< without the seed's
  std::uint64_t points() const { return points_; }
  std::uint64_t runs() const { return std::max<std::size_t>(1, seeds_.size()); } ///< of each point
  /// The point at `index`, from 0; its sizes are checked.
  GridPoint point(std::uint64_t index) const;
  reference::Recipe run(const GridPoint& point, std::uint64_t which) const;

private:
  std::string fixed_;
  std::vector<Axis> axes_;
  std::vector<std::uint64_t> seeds_;
  std::uint64_t points_ = 1;
};

struct Slope {
  double slope = 0.0;
  double low = 0.0, high = 0.0; ///< 95 % confidence interval
  int points = 0;
};

/// Points that are not positive and finite in both coordinates are left out; with fewer than three
/// points left, or all at one x, the slope is NaN.
Slope log_log_slope(std::span<const double> x, std::span<const double> y);

} // namespace fa1::numerics
