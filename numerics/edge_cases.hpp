/// The catalogue of numerical edge cases: named, replayable, each with the right answer and what a
/// kernel gives.
///
/// One table (edge_cases.cpp) serves ctest, `fa1lab repro ID`, the report and `fa1lab list cases`.
///
/// contract   the kernel must give the truth: within its own bound, and the recorded values where
/// they are listed limit      the FA1 recurrence itself cannot: the recorded outcome must come out,
/// bit for bit, and the report says why Values     published digits are those of the catalogue;
/// certify() is held against them in
///            numerics/tests/edge_cases_test.cpp, so the catalogue itself is proved
/// Outcomes   recorded per arithmetic: plain (no a*b+c fused), contracted (fused), and CUDA where
/// it differs from both;
///            a contracted kernel that has no row of its own must give the one for every kernel
/// Source     each row's `why`; the recurrence in kernels/fa1.cuh
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/verdict.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::numerics {

enum class EdgeKind { contract, limit };
std::string_view name_of(EdgeKind kind);

/// Which kernels a recipe is about: those of one Bc, those at least so wide, or all (Bc is then the
/// one shown).
struct EdgeTile {
  enum class Reach { any, only, at_least };
  int Bc = 32;
  Reach reach = Reach::any;

  bool admits(int other) const {
    return reach == Reach::any || other == Bc || (reach == Reach::at_least && other > Bc);
  }
};

/// One right value as the catalogue prints it. `exact`: the truth is this very number; otherwise it
/// rounds to it.
struct Published {
  std::string_view output; ///< O, l, m or LSE
  std::string_view digits; ///< decimal, hexadecimal, nan, inf
  bool exact = false;
  std::int64_t row = 0, column = 0; ///< batch-head 0
};

/// What a kernel gives. O holds every element or one value for all of them; empty: not recorded.
struct Recorded {
  enum class Of { every, plain, contracted, cuda };
  Of of = Of::every;
  std::vector<float> O;
  std::optional<float> l, m; ///< the same in every row
};

struct EdgeExample {
  std::string_view recipe;
  EdgeTile tile;
  std::vector<Published> published;
  std::vector<Recorded> recorded;
  /// Where certifying the recipe itself takes minutes: a short recipe that has the same exact O.
  /// The outcome is then held against its recorded bits and not against a bound.
  std::string_view same_O_as{};
};

/// What one example gave.
struct EdgeObservation {
  reference::Problem problem;
  reference::State state;
  reference::Truth truth;
  Verdict verdict;
  std::string complaint; ///< what is not as catalogued; empty: nothing
};

struct EdgeCase {
  std::string_view id;
  std::string_view section;
  EdgeKind kind;
  std::string_view why; ///< one sentence
  std::vector<EdgeExample> examples;
  /// What no recipe can say (poisoned memory behind the tensors, old outputs, a row that must not
  /// change).
  void (*probe)(const EdgeExample&, const kernels::Kernel&, EdgeObservation&) = nullptr;
  /// The kernels a row is about; empty: every one, but fa1 alone where it is a limit.
  std::vector<std::string_view> variants{};
  /// Kernels that have a row of their own in the place of this one.
  std::vector<std::string_view> except{};

  std::string_view recipe() const { return examples.front().recipe; }
  const EdgeTile& tile() const { return examples.front().tile; }
};

struct EdgeOutcome {
  bool as_catalogued = false;
  std::string truth_text;  ///< of the first example that is not as catalogued, else of the first
  std::string kernel_text; ///< likewise
  Verdict verdict;         ///< likewise
  std::string detail;      ///< what was found and what would be right; empty when as catalogued
  std::optional<std::int64_t> first_bad_tile; ///< where truth and kernel part (trace.hpp)
  std::string why_bad;                        ///< why there
};

std::span<const EdgeCase> all_edge_cases();
/// Throws std::invalid_argument naming the nearest ids.
const EdgeCase& find_edge_case(std::string_view id);

/// True where the kernel has a tile and a head dimension for at least one example, and K and V
/// padded to that dimension stay within 256 MiB (2^25 keys: D = 1). Limits are those of the FA1
/// recurrence, so only fa1 (and its mutants) can express them, unless the row names others.
bool can_express(const EdgeCase& edge_case, const kernels::Kernel& kernel);

/// The kernel that a case is shown on: the fa1 instance (or that of the first variant the row names) of
/// `backend` with the case's Bc and the
/// smallest D, no products fused where there is a choice. Throws kernels::KernelError where this
/// build or machine has none.
const kernels::Kernel& kernel_for(const EdgeCase& edge_case,
                                  kernels::Backend backend = kernels::Backend::cpu);

/// Runs every example that the kernel can express; throws kernels::KernelError where there is none.
/// `locate`: look for the first bad tile as well, which costs a run and a certified truth per tile.
EdgeOutcome run_edge_case(const EdgeCase& edge_case, const kernels::Kernel& kernel,
                          bool locate = true);

} // namespace fa1::numerics
