#include "numerics/bias.hpp"

#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/parallel.hpp"
#include "reference/recipe.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace fa1::numerics {
namespace {

using reference::Problem;

constexpr double kRisk = 0.05;

/// What may be all of the truth's own radius is no error: means over many exact outputs would find it.
double error_beyond(double error, double radius) {
  return std::fabs(error) <= radius ? 0.0 : error;
}

/// The three means of one problem.
struct Means {
  double O = 0.0, outwards = 0.0, l = 0.0;
};

Means means_of(const reference::State& state, const reference::Truth& truth,
               const reference::Truth& weighted, bool gives_l) {
  Means means;
  const auto O = state.O.elements();
  for (std::size_t e = 0; e < O.size(); ++e) {
    const auto& exact = truth.O.elements()[e];
    const double error = error_beyond(error_of(O[e], exact), exact.radius);
    const double units =
        error == 0.0 ? 0.0
                     : error / (kU * weighted.O.elements()[e].hi * static_cast<double>(O.size()));
    means.O += units;
    means.outwards += std::copysign(units, units * exact.hi);
  }
  for (std::size_t row = 0; gives_l && row < state.l.size(); ++row) {
    const reference::Enclosed exact = l_at(double{state.m[row]}, truth, row);
    means.l += error_beyond(error_of(state.l[row], exact), exact.radius) /
               (kU * exact.hi * static_cast<double>(state.l.size()));
  }
  return means;
}

BiasRow row_of(const BiasSubject& subject, std::string quantity, std::string V,
               std::span<const double> means) {
  BiasRow row;
  row.subject = subject.id;
  row.quantity = std::move(quantity);
  row.V = std::move(V);
  row.seeds = static_cast<std::int64_t>(means.size());
  const auto n = static_cast<double>(means.size());
  row.mean = std::accumulate(means.begin(), means.end(), 0.0) / n;
  double squares = 0.0;
  for (const double mean : means)
    squares += (mean - row.mean) * (mean - row.mean);
  row.deviation = std::sqrt(squares / (n - 1.0));
  return row;
}

} // namespace

Interval student_interval(double mean, double deviation, std::int64_t n, double risk) {
  const auto count = static_cast<double>(n);
  const double t = boost::math::quantile(
      boost::math::complement(boost::math::students_t(count - 1.0), risk / 2.0));
  const double reach = t * deviation / std::sqrt(count);
  return {mean - reach, mean + reach};
}

std::vector<BiasRow> measure_bias(std::span<const BiasSubject> subjects, const std::string& recipe,
                                  std::uint64_t first_seed, std::int64_t seeds, unsigned threads,
                                  const std::function<void()>& done) {
  const auto runs = static_cast<std::size_t>(seeds);
  // [value][subject][seed]
  std::vector<std::vector<std::vector<Means>>> means(
      kBiasValues.size(),
      std::vector<std::vector<Means>>(subjects.size(), std::vector<Means>(runs)));
  reference::in_parallel(kBiasValues.size() * runs, threads, [&](std::size_t job) {
    const std::size_t value = job % kBiasValues.size(), seed = job / kBiasValues.size();
    const Problem problem = reference::make_problem(reference::parse_recipe(
        fmt::format("{} v={} seed={}", recipe, kBiasValues[value].v, first_seed + seed)));
    Problem sizes = problem; // attention over |V| gives sum p|v|
    for (float& v : sizes.V.elements())
      v = std::fabs(v);
    const reference::Truth truth = reference::certify(problem);
    const reference::Truth weighted = reference::certify(sizes);
    for (std::size_t s = 0; s < subjects.size(); ++s)
      means[value][s][seed] =
          means_of(subjects[s].run(problem), truth, weighted, subjects[s].gives_l);
    if (done)
      done();
  });

  std::vector<BiasRow> rows;
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    const auto add = [&](const char* quantity, std::size_t value, double Means::*member,
                         std::string V) {
      std::vector<double> of_seeds;
      for (const Means& one : means[value][s])
        of_seeds.push_back(one.*member);
      rows.push_back(row_of(subjects[s], quantity, std::move(V), of_seeds));
    };
    for (std::size_t value = 0; value < kBiasValues.size(); ++value) {
      add("O", value, &Means::O, std::string(kBiasValues[value].id));
      if (kBiasValues[value].both_signs)
        add("|O|", value, &Means::outwards, std::string(kBiasValues[value].id));
    }
    if (subjects[s].gives_l)
      add("l", 0, &Means::l, "");
  }
  for (BiasRow& row : rows) {
    row.confidence = student_interval(row.mean, row.deviation, seeds, kRisk);
    row.in_family =
        student_interval(row.mean, row.deviation, seeds, kRisk / static_cast<double>(rows.size()));
  }
  return rows;
}

} // namespace fa1::numerics
