#include "properties/property.hpp"

#include "properties/generators.hpp"
#include "properties/rapidcheck_bridge.hpp"
#include "reference/hash.hpp"

#include <algorithm>

namespace fa1::properties {
Outcome check_case(const Invariant& invariant, const reference::Recipe& recipe,
                   const kernels::Kernel& kernel) {
  if (invariant.needs == Needs::device && kernel.backend != kernels::Backend::cuda)
    return {Answer::not_applicable, 0.0, "the kernel does not run on a GPU"};
  if (invariant.needs != Needs::output && !kernel.gives_l_and_m)
    return {Answer::not_applicable, 0.0, "the kernel gives no l and m"};
  if (invariant.needs == Needs::carries && !kernel.resumes)
    return {Answer::not_applicable, 0.0, "the kernel does not resume from carries"};
  if (invariant.stranger == Stranger::not_asked && !kernel.arithmetic.known)
    return {Answer::not_applicable, 0.0,
            "the law is about FA1's own order of operations, and the kernel's is not known"};
  if (!kernel.serves(reference::shape_of(recipe)))
    return {Answer::not_applicable, 0.0, "the kernel does not serve this d or dv"};
  const kernels::GivenUp* const given_up = kernel.gives_up(invariant.id);
  if (given_up != nullptr && !given_up->within_bound)
    return {Answer::not_applicable, 0.0, "the kernel gives it up: " + std::string(given_up->why)};
  const reference::Problem problem = reference::make_problem(recipe);
  kernels::Kernel loosened;
  if (given_up != nullptr) {
    loosened = kernel;
    loosened.bitwise = false;
  }
  try {
    return invariant.check({recipe, problem, given_up == nullptr ? kernel : loosened});
    // the kernel broke a rule of CUDA: a finding, not a fault of the laboratory
  } catch (const simt::ExecutorError& error) {
    return {Answer::violated, 0.0, error.what()};
  } catch (const kernels::KernelFault& fault) {
    return {Answer::violated, 0.0, fault.what(), fault.hung()};
  } catch (const kernels::UnsupportedShape& declined) {
    return {Answer::not_applicable, 0.0, declined.what()};
  }
}

std::string replay_line(std::string_view recipe, const kernels::Kernel& kernel,
                        std::string_view invariant) {
  std::string line = "./fa1lab repro '" + std::string(recipe) + "' " + kernel.chosen_by();
  if (!invariant.empty())
    line += " --invariant " + std::string(invariant);
  return line;
}

std::string LawResult::replay() const {
  return replay_line(violated ? shrunk_recipe : worst_recipe, *kernel, invariant->id);
}

LawResult check(const Invariant& invariant, const kernels::Kernel& kernel, int cases,
                std::uint64_t seed, bool shrinks) {
  LawResult result;
  result.invariant = &invariant;
  result.kernel = &kernel;
  const auto generator = any_recipe(limits_of(kernel));

  const std::string id = std::string(invariant.id) + "/" + kernel.id;
  bool hung = false; // then nothing is shrunk: every step would cost a time limit
  const PropertyReport report =
      // every pair of law and kernel sees recipes of its own
      run_property(id, {cases, seed ^ reference::hash_of(id), shrinks}, [&] {
        const reference::Recipe recipe = *generator;
        if (hung)
          return;
        const Outcome outcome = check_case(invariant, recipe, kernel);
        if (outcome.answer == Answer::violated) {
          hung = outcome.hung;
          // While shrinking, the last violation seen is always the smallest so far.
          result.violated = true;
          result.violation = outcome.detail;
          result.shrunk_recipe = reference::to_string(recipe);
          RC_FAIL(outcome.detail);
        }
        if (result.violated)
          return;
        if (outcome.answer == Answer::not_applicable) {
          ++result.not_applicable;
          return;
        }
        ++result.held;
        if (outcome.suspicious && ++result.suspicious == 1)
          result.suspicious_recipe = reference::to_string(recipe);
        if (!(outcome.fraction <= result.worst_fraction) || result.worst_recipe.empty()) {
          result.worst_fraction = outcome.fraction;
          result.worst_recipe = reference::to_string(recipe);
        }
      });
  if (!report.held && !result.violated) { // the laboratory itself failed: never a pass
    result.violated = true;
    result.violation = report.message;
  }
  result.reproduce = report.reproduce;
  return result;
}

} // namespace fa1::properties
