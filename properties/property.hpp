/// The catalogue of invariants, and how one of them is checked on one kernel.
///
/// One table (invariants.cpp) serves the RapidCheck properties in ctest, `fa1lab check`, the matrix
/// in the report and `fa1lab list invariants`.
///
/// A law looks at a Case: one recipe, its problem, one kernel. Whatever else it needs to choose (a
/// permutation, where to split, an exponent) it draws from a stream seeded by the recipe's text, so
/// (recipe, kernel, law) replays exactly:
///     fa1lab repro '<recipe>' --kernel <id> --invariant <law>
#pragma once

#include "kernels/kernel.hpp"
#include "reference/recipe.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::properties {

enum class Kind { exact, bound, statistical };
/// What a kernel must give for the law to be asked.
enum class Needs {
  output,
  l_and_m,
  carries,
  device ///< it runs on a GPU, and gives l and m
};
/// What the kernel is held against.
enum class Oracle { none, another_run, truth };
/// What the law asks of a right kernel whose insides nobody told us (Arithmetic::known is false): its
/// sums may run in any order, fused or not, and differ with the place of a row, key or column.
enum class Stranger {
  as_stated,    ///< the law holds for every right kernel
  within_bound, ///< its bits may differ; the check compares within the kernel's own bound instead
  not_asked     ///< it says something about FA1's order of operations alone
};

struct Case {
  const reference::Recipe& recipe;
  const reference::Problem& problem;
  const kernels::Kernel& kernel;
};

enum class Answer { holds, violated, not_applicable };

struct Outcome {
  Answer answer = Answer::holds;
  double fraction = 0.0; ///< worst error as a fraction of its bound; exact laws: 0
  std::string detail;    ///< violated: what was found and what would be right; not applicable: why
  bool hung = false;     ///< violated by a run that did not end
  bool suspicious = false; ///< holds, with an element far outside the statistical expectation
};

struct Invariant {
  std::string_view id;
  Kind kind;
  Needs needs;
  Oracle oracle;
  Stranger stranger;
  std::string_view says;    ///< one sentence
  std::string_view formula; ///< what is compared
  Outcome (*check)(const Case&);
};

std::span<const Invariant> all_invariants();
/// Throws std::invalid_argument naming the ids there are.
const Invariant& find_invariant(std::string_view id);
std::string_view name_of(Kind kind);

/// One case, with the questions every law shares asked first (does the kernel give what the law
/// needs?).
Outcome check_case(const Invariant& invariant, const reference::Recipe& recipe,
                   const kernels::Kernel& kernel);

/// Many generated cases of one law on one kernel.
struct LawResult {
  const Invariant* invariant = nullptr;
  const kernels::Kernel* kernel = nullptr;
  int held = 0, not_applicable = 0;
  int suspicious = 0;            ///< of those held
  std::string suspicious_recipe; ///< of the first of them
  double worst_fraction = 0.0;
  std::string worst_recipe; ///< of the worst fraction
  bool violated = false;
  std::string violation;      ///< detail of the shrunk case
  std::string shrunk_recipe;  ///< smallest recipe found that still violates the law
  std::string reproduce;      ///< RapidCheck's own string for RC_PARAMS="reproduce=..."
  std::string replay() const; ///< the line to paste
};

/// `cases` recipes drawn by RapidCheck for this kernel's shapes, until one violates the law; that one is
/// shrunk unless the first will do.
LawResult check(const Invariant& invariant, const kernels::Kernel& kernel, int cases,
                std::uint64_t seed, bool shrinks = true);

/// The line that repeats one finding: ./fa1lab repro '<recipe>' --kernel ID [--invariant LAW], or
/// --plugin LIB.so in the place of --kernel.
std::string replay_line(std::string_view recipe, const kernels::Kernel& kernel,
                        std::string_view invariant = {});

} // namespace fa1::properties
