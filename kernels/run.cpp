// How any kernel is called, whatever it is; the table of those that there are is variants.cpp.
#include "kernels/kernel.hpp"
#include "kernels/launch.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace fa1::kernels {

Arguments arguments_of(const Problem& problem, State& outputs, bool resume) {
  return {problem.shape,    problem.scale,    problem.Q.data(),
          problem.K.data(), problem.V.data(), outputs.O.data(),
          outputs.l.data(), outputs.m.data(), resume};
}

namespace {

State launched(const Kernel& kernel, const Problem& problem, State state, bool resumes,
               const Launch& launch) {
  kernel.run(arguments_of(problem, state, resumes), launch);
  return state;
}

} // namespace

State run(const Kernel& kernel, const Problem& problem, const Launch& launch) {
  State state = reference::start_state(problem.shape);
  constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
  std::ranges::fill(state.O.elements(), kPoison);
  std::ranges::fill(state.l, kPoison);
  std::ranges::fill(state.m, kPoison);
  return run_into(kernel, problem, std::move(state), launch);
}

State run_into(const Kernel& kernel, const Problem& problem, State outputs, const Launch& launch) {
  return launched(kernel, problem, std::move(outputs), false, launch);
}

State resume(const Kernel& kernel, const Problem& problem, const State& carries,
             const Launch& launch) {
  return launched(kernel, problem, carries, true, launch);
}

} // namespace fa1::kernels
