/// Attention by Eigen in double: matrix products instead of loops, written without attention.hpp.
///
/// Computes  S = scale * Q K^T,  P = exp(S - rowmax S),  O = (P V) / (row sums of P)
/// Shapes    as in problem.hpp
/// Error     that of double: eta_j = gamma_(d+1) * scale * sum_i |q_i k_ji| in the exponent with
///           u = 2^-53, n_kv + d roundings elsewhere
/// Special   O, l NaN where a score is NaN or +Inf, or every score -Inf; m is the maximum of the
/// scores that
///           are not NaN. n_kv = 0 as in problem.hpp
/// Differs   exp is std::exp element by element: Eigen's own vectorised exp (3.4) gives 2.9e-39
/// instead of
///           0 at -Inf, and that only in the vectorised part of a row
/// Source    the definition
#pragma once

#include "reference/problem.hpp"

#include <Eigen/Dense>

#include <cmath>
#include <limits>
#include <vector>

namespace fa1::reference {

struct EigenAnswer {
  Tensor<double> O;
  std::vector<double> l, m, LSE;
};

inline EigenAnswer eigen_attention(const Problem& problem) {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Shape& shape = problem.shape;
  const auto rows = static_cast<std::size_t>(shape.batch_heads * shape.n_q);
  EigenAnswer answer{Tensor<double>(shape.batch_heads, shape.n_q, shape.dv),
                     std::vector<double>(rows, 0.0), std::vector<double>(rows, -kInf),
                     std::vector<double>(rows, -kInf)};
  if (shape.n_kv == 0 || shape.n_q == 0)
    return answer;

  const auto matrix = [](const Tensor<float>& tensor, std::int64_t bh) -> Doubles {
    const float* const start = tensor.data() + bh * tensor.rows() * tensor.columns();
    return Eigen::Map<const Floats>(start, tensor.rows(), tensor.columns()).cast<double>();
  };
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    const Doubles S = static_cast<double>(problem.scale) *
                      (matrix(problem.Q, bh) * matrix(problem.K, bh).transpose());
    const Eigen::VectorXd M =
        S.unaryExpr([](double s) { return std::isnan(s) ? -kInf : s; }).rowwise().maxCoeff();
    const Doubles P = (S.colwise() - M).unaryExpr([](double x) { return std::exp(x); });
    const Eigen::VectorXd L = P.rowwise().sum();
    const Doubles O = L.cwiseInverse().asDiagonal() * (P * matrix(problem.V, bh));
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const auto row = static_cast<std::size_t>(bh * shape.n_q + r);
      answer.m[row] = M(r);
      answer.l[row] = L(r);
      answer.LSE[row] = M(r) + std::log(L(r));
      for (std::int64_t c = 0; c < shape.dv; ++c)
        answer.O(bh, r, c) = O(r, c);
    }
  }
  return answer;
}

} // namespace fa1::reference
