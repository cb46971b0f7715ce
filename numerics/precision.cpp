#include "numerics/precision.hpp"

#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fa1::numerics {
namespace {

using reference::Enclosed;
using reference::Problem;
using reference::Tensor;

/// error(e) over all elements, in the units of the header.
template <class ErrorAt>
PrecisionError summary(const Tensor<Enclosed>& exact, const Tensor<Enclosed>& weighted,
                       const ErrorAt& error_at) {
  PrecisionError result;
  double squares = 0.0, sum = 0.0, squares_absolute = 0.0, size = 0.0;
  const auto elements = exact.elements();
  for (std::size_t e = 0; e < elements.size(); ++e) {
    const double error = error_at(e);
    const double units = error == 0.0 ? 0.0 : error / (kU * weighted.elements()[e].hi);
    raise(result.max, std::fabs(units));
    raise(result.max_absolute, std::fabs(error));
    squares += units * units;
    sum += units;
    squares_absolute += error * error;
    size += elements[e].hi * elements[e].hi;
  }
  if (elements.empty())
    return result;
  const auto n = static_cast<double>(elements.size());
  result.rms = std::sqrt(squares / n);
  result.mean = sum / n;
  result.rms_absolute = std::sqrt(squares_absolute / n);
  result.relative = squares_absolute == 0.0 ? 0.0 : std::sqrt(squares_absolute / size);
  return result;
}

/// What prepare() depends on.
bool same_inputs(const Configuration& a, const Configuration& b) {
  return a.format(Stage::inputs) == b.format(Stage::inputs) && a.scaling == b.scaling &&
         a.turned == b.turned;
}

} // namespace

std::vector<PrecisionRecord> measure_precision(const Problem& problem,
                                               std::span<const Configuration> configurations,
                                               std::int64_t Bc, unsigned threads,
                                               const std::function<void()>& done) {
  const reference::Truth truth = reference::certify(problem, threads);
  Problem sizes = problem; // attention over |V| gives sum p|v|
  for (float& v : sizes.V.elements())
    v = std::fabs(v);
  const reference::Truth weighted = reference::certify(sizes, threads);

  std::vector<PrecisionRecord> records(configurations.size());
  // Configurations that see the same inputs share them; one set of inputs is there at a time.
  std::vector<std::size_t> left(configurations.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  while (!left.empty()) {
    const Configuration& first = configurations[left.front()];
    const auto others = std::stable_partition(left.begin(), left.end(), [&](std::size_t i) {
      return same_inputs(first, configurations[i]);
    });
    const std::vector<std::size_t> group(left.begin(), others);
    left.erase(left.begin(), others);

    const Problem prepared = prepare(problem, first, Bc);
    const bool as_given = same_inputs(first, Configuration{});
    const reference::Truth own = as_given ? truth : reference::certify(prepared, threads);
    reference::in_parallel(group.size(), threads, [&](std::size_t member) {
      const std::size_t i = group[member];
      const reference::State state = emulate(prepared, configurations[i], Bc);
      const auto O = state.O.elements();
      const auto exact = truth.O.elements(), of_rounded = own.O.elements();
      PrecisionRecord& record = records[i];
      record.configuration = configurations[i];
      record.Bc = configurations[i].one_tile ? problem.shape.n_kv : Bc;
      record.elements = state.O.size();
      record.not_finite = std::ranges::count_if(O, [](float x) { return !std::isfinite(x); });
      record.inputs = summary(truth.O, weighted.O, [&](std::size_t e) {
        return (of_rounded[e].hi - exact[e].hi) + (of_rounded[e].lo - exact[e].lo);
      });
      record.arithmetic =
          summary(own.O, weighted.O, [&](std::size_t e) { return error_of(O[e], of_rounded[e]); });
      record.total =
          summary(truth.O, weighted.O, [&](std::size_t e) { return error_of(O[e], exact[e]); });
      if (done)
        done();
    });
  }
  return records;
}

} // namespace fa1::numerics
