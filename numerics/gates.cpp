#include "numerics/gates.hpp"

#include "numerics/error.hpp"
#include "reference/attention.hpp"

#include <cmath>

namespace fa1::numerics {
namespace {

bool all_close(const GateView& view, double rtol, double atol) {
  for (std::size_t e = 0; e < view.O.elements().size(); ++e) {
    const reference::Enclosed& b = view.exact.elements()[e];
    if (!(std::fabs(error_of(view.O.elements()[e], b)) <= atol + rtol * std::fabs(b.hi)))
      return false;
  }
  return true;
}

double largest_error(const reference::Tensor<float>& O, const GateView& view) {
  double largest = 0.0;
  for (std::size_t e = 0; e < O.elements().size(); ++e) {
    const double error = std::fabs(error_of(O.elements()[e], view.exact.elements()[e]));
    if (!(error <= largest))
      largest = error; // a NaN stays
  }
  return largest;
}

bool small_nmse(const GateView& view) {
  double squares = 0.0, size = 0.0;
  for (std::size_t e = 0; e < view.O.elements().size(); ++e) {
    const reference::Enclosed& b = view.exact.elements()[e];
    squares += std::pow(error_of(view.O.elements()[e], b), 2);
    size += b.hi * b.hi;
  }
  return squares / size <= 5e-4;
}

constexpr std::array kGates{
    Gate{"allclose-1e-2", "rtol = atol = 1e-2",
         [](const GateView& view) { return all_close(view, 1e-2, 1e-2); }},
    Gate{"pytorch", "rtol 1.3e-6, atol 1e-5",
         [](const GateView& view) { return all_close(view, 1.3e-6, 1e-5); }},
    Gate{"xformers", "rtol 2e-5, atol 3e-4",
         [](const GateView& view) { return all_close(view, 2e-5, 3e-4); }},
    Gate{"kernelbench", "rtol = atol = 1e-4",
         [](const GateView& view) { return all_close(view, 1e-4, 1e-4); }},
    Gate{"ggml", "normalised mean square error at most 5e-4", small_nmse},
    Gate{"flash-attention", "largest error at most twice that of a plain implementation",
         [](const GateView& view) {
           return largest_error(view.O, view) <= 2.0 * largest_error(view.plain, view);
         }},
};

} // namespace

std::span<const Gate> all_gates() { return kGates; }

reference::Tensor<float> plain_attention(const reference::Problem& problem) {
  return reference::attention<float>(problem).O;
}

} // namespace fa1::numerics
