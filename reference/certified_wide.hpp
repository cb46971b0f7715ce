/// The sums of certify() in MPFR, for a row whose scores are too large for double-double.
///
/// Computes  for some keys and one query row: the exact maximum M, and l = sum exp(s - M),
///           N = sum exp(s - M) v to 167 bits, each with a bound of its error; two disjoint sets of
///           keys together; the answer at the end
/// Error     derived in CERTIFIED.md under "Climb" and "Chunks"
/// Special   no key: M = -Inf, sums 0. NaN and Inf in K or V are passed over; certify() knows them
#pragma once

#include "reference/problem.hpp"

#include <boost/multiprecision/mpfr.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace fa1::reference {

class WideSums {
public:
  /// What double-double summed at M = M_hi + M_lo; the numerators follow through `set`.
  WideSums(double M_hi, double M_lo, const Enclosed& L, std::int64_t dv);

  /// From exact scores of query q against the keys whose K row is finite; without sums where the row
  /// is known to be NaN.
  WideSums(const Problem& problem, std::int64_t bh, std::int64_t q, std::span<const char> finite,
           bool with_sums);

  void set(std::int64_t column, const Enclosed& numerator);
  void add(const WideSums& others);
  void raise_maximum(double M_hi, double M_lo);

  /// `eta`: how far the scores were off that came from double-double.
  Enclosed maximum(double eta) const;
  Enclosed denominator(double eta) const;
  Enclosed log_sum() const;
  Enclosed output(std::int64_t column) const;

private:
  /// 1030 bits: every finite score is a multiple of 2^-447 below 2^400 and a sum of such, hence
  /// exact; so are double-doubles.
  using Exact = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<310>,
                                              boost::multiprecision::et_off>;
  /// 167 bits for what follows the exponential.
  using Wide = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<50>,
                                             boost::multiprecision::et_off>;
  struct Sum {
    Wide value = 0;
    double error = 0.0; ///< absolute

    void rescale(const Wide& factor);
    void add(const Sum& other);
  };

  static Exact exact_score(const Problem& problem, std::int64_t bh, std::int64_t q,
                           std::int64_t key);
  template <class Number> static Enclosed enclosed(const Number& x, double radius);
  void rescale(const Exact& to);

  bool empty_ = true; ///< no finite score yet
  Exact M_ = 0;
  Sum L_;
  std::vector<Sum> N_; ///< by column
};

} // namespace fa1::reference
