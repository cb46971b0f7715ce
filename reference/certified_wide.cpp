#include "reference/certified_wide.hpp"

#include "reference/certified_simd.hpp"

#include <cmath>
#include <limits>

namespace fa1::reference {
namespace {

/// x = s - M is rounded to 167 bits where it is above -700, so an exponential is off by less than
/// (700 + 2) 2^-166.
constexpr double kExpError = 0x1p-156;

} // namespace

WideSums::WideSums(double M_hi, double M_lo, const Enclosed& L, std::int64_t dv)
    : N_(static_cast<std::size_t>(dv)) {
  raise_maximum(M_hi, M_lo);
  L_ = {Wide(L.hi) + Wide(L.lo), L.radius};
}

void WideSums::set(std::int64_t column, const Enclosed& numerator) {
  N_[static_cast<std::size_t>(column)] = {Wide(numerator.hi) + Wide(numerator.lo),
                                          numerator.radius};
}

/// A sum of n weighted terms is off by (n + 1024) 2^-166 of its sum of moduli, weights included.
WideSums::WideSums(const Problem& problem, std::int64_t bh, std::int64_t q,
                   std::span<const char> finite, bool with_sums)
    : N_(static_cast<std::size_t>(problem.shape.dv)) {
  const std::int64_t n = problem.shape.n_kv, dv = problem.shape.dv;
  const auto counts = [&](std::int64_t j) { return finite[static_cast<std::size_t>(j)] != 0; };
  for (std::int64_t j = 0; j < n; ++j)
    if (counts(j)) {
      const Exact s = exact_score(problem, bh, q, j);
      if (empty_ || s > M_)
        M_ = s;
      empty_ = false;
    }
  if (!with_sums)
    return;

  std::vector<double> moduli(N_.size(), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    if (!counts(j))
      continue;
    const Exact x = exact_score(problem, bh, q, j) - M_;
    if (x < simd::kLowestArgument)
      continue;
    const Wide w = exp(Wide(x));
    L_.value += w;
    for (std::int64_t c = 0; c < dv; ++c) {
      const float value = problem.V(bh, j, c);
      const auto column = static_cast<std::size_t>(c);
      if (!std::isfinite(value))
        continue;
      N_[column].value += w * Wide(value);
      moduli[column] += w.convert_to<double>() * std::fabs(static_cast<double>(value));
    }
  }
  const auto N = static_cast<double>(n);
  const double relative = (N + 1024.0) * 0x1p-164;
  const double tiny = (N + 1.0) * 0x1p-869; // weights set to 0
  L_.error = relative * L_.value.convert_to<double>() + tiny;
  for (std::size_t c = 0; c < N_.size(); ++c)
    N_[c].error = relative * moduli[c] + tiny;
}

WideSums::Exact WideSums::exact_score(const Problem& problem, std::int64_t bh, std::int64_t q,
                                      std::int64_t key) {
  Exact dot = 0;
  for (std::int64_t i = 0; i < problem.shape.d; ++i)
    dot += Exact(static_cast<double>(problem.Q(bh, q, i)) *
                 static_cast<double>(problem.K(bh, key, i)));
  return dot * Exact(problem.scale);
}

void WideSums::Sum::rescale(const Wide& factor) {
  value *= factor;
  // 2^-1000: a factor below exp(-700) was taken as 0.
  const double size = std::fabs(value.convert_to<double>());
  error = error * (factor.convert_to<double>() + 0x1p-1000) * (1.0 + 0x1p-48) +
          2.0 * kExpError * size + 0x1p-860;
}

void WideSums::Sum::add(const Sum& other) {
  value += other.value;
  error =
      (error + other.error + kExpError * std::fabs(value.convert_to<double>())) * (1.0 + 0x1p-48);
}

/// Takes the sums at a maximum that is not smaller.
void WideSums::rescale(const Exact& to) {
  const Exact x = M_ - to;
  M_ = to;
  if (x == 0)
    return;
  const Wide factor = x < simd::kLowestArgument ? Wide(0) : Wide(exp(Wide(x)));
  L_.rescale(factor);
  for (Sum& sum : N_)
    sum.rescale(factor);
}

void WideSums::add(const WideSums& others) {
  if (others.empty_)
    return;
  if (empty_) {
    *this = others;
    return;
  }
  WideSums theirs = others;
  if (theirs.M_ > M_)
    rescale(theirs.M_);
  else
    theirs.rescale(M_);
  L_.add(theirs.L_);
  for (std::size_t c = 0; c < N_.size(); ++c)
    N_[c].add(theirs.N_[c]);
}

/// Without rescaling the sums: for rows that are NaN, and before there are sums.
void WideSums::raise_maximum(double M_hi, double M_lo) {
  if (!std::isfinite(M_hi))
    return;
  const Exact M = Exact(M_hi) + Exact(M_lo);
  if (empty_ || M > M_)
    M_ = M;
  empty_ = false;
}

/// The last step, to hi + lo, rounds by at most 2^-106 of hi.
template <class Number> Enclosed WideSums::enclosed(const Number& x, double radius) {
  const auto hi = x.template convert_to<double>();
  const auto lo = Number(x - Number(hi)).template convert_to<double>();
  return {hi, lo, radius + 0x1p-105 * std::fabs(hi) + 0x1p-1070};
}

Enclosed WideSums::maximum(double eta) const {
  if (empty_)
    return {-std::numeric_limits<double>::infinity(), 0.0, 0.0};
  return enclosed(M_, eta);
}

Enclosed WideSums::denominator(double eta) const {
  return enclosed(L_.value, (L_.error + 1.01 * eta * L_.value.convert_to<double>()) * 1.01);
}

Enclosed WideSums::log_sum() const {
  const double relative = L_.error / (L_.value.convert_to<double>() - L_.error);
  return enclosed(Exact(M_ + Exact(log(L_.value))), 1.01 * relative + 0x1p-150);
}

Enclosed WideSums::output(std::int64_t column) const {
  const Sum& N = N_[static_cast<std::size_t>(column)];
  const Wide o = N.value / L_.value;
  const double size = std::fabs(o.convert_to<double>());
  const double L_below = (L_.value.convert_to<double>() - L_.error) * (1.0 - 0x1p-20);
  return enclosed(o, ((N.error + size * L_.error) / L_below + 0x1p-160 * size) * 1.01);
}

} // namespace fa1::reference
