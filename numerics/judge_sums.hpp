/// What judging gathers over all heads, row by row, in their order.
#pragma once

#include "numerics/judge_map.hpp"

#include <functional>
#include <string>
#include <vector>

namespace fa1::numerics {

class ErrorSums {
public:
  void add(double error, double weighted, double ulps, double fraction);
  JudgedErrors result() const;

private:
  JudgedErrors errors_;
  double squares_ = 0.0, sum_ = 0.0;
};

class RowSums {
public:
  /// All rows of a problem of one batch-head; `tell` hears those that count, its number in the problem first.
  void add(const reference::Problem& problem, const reference::Truth& truth, const Bounds& bounds,
           const std::function<void(std::int64_t r, const JudgedRow& row)>& tell = {});
  RowStatistics result() const;

private:
  std::vector<double> max_score_, entropy_, condition_;
};

/// One output.
class OutputSums {
public:
  explicit OutputSums(std::string name) { output_.name = std::move(name); }

  void hear(const Verdict& verdict, const Judged& worst);
  void add(const Judged& element, double weighted) {
    sums_.add(element.error, weighted, element.ulps, element.fraction);
  }
  /// An element that is proved wrong.
  void wrong(const Judged& element);
  JudgedOutput result() const;

private:
  JudgedOutput output_;
  ErrorSums sums_;
};

} // namespace fa1::numerics
