/// Looking for the worst: the problem on which one kernel errs most.
///
/// Measured   of O alone, the largest over its elements of
///              Objective::error   |error| / (u sum_j p_j |v_j|)
///              Objective::bound   |error| / bound
/// Counts     only a problem whose bound holds (no obstacle) and whose scores carry a digit (eta <
///            kNoDigit). Otherwise any ill-conditioned input would win. Beyond that a search keeps to
///            SearchLimits, for the same reason: the error grows with the scores without end
/// Recipes    Evolution: (mu + lambda) over the points of a Grid and the recipes' seeds. A quarter of
///            each generation is drawn anew, the rest are mutations of the best
/// Entries    EntryMoves: from one recipe on, some entries of Q, K and V at a time move by ulp, by
///            powers of two, to another entry, to 0, to their negative, or to fewer bits; the best of a
///            generation is kept where it is not worse. What was moved stands in the recipe's `put`, so
///            that what is found is a recipe again
/// Both       Worst: rounds of generations of recipes, then of entries. Entries go on from where they
///            stood, unless a recipe is ahead of them or a whole round brought nothing: then they start
///            from the best recipe they have not started from
///            In the end what was moved and does not matter is taken back, which no budget counts
/// Same       candidates depend on the seed alone, results neither on the number of threads nor on the
///            budget, which only cuts the sequence off
/// Why none of the optimisers of NLopt: most keys are words, and the error as a function of an entry's
/// bits has no slope to follow
/// Errors     SweepError and RecipeError as in sweep.hpp; KernelError where no instance serves the shape
#pragma once

#include "kernels/kernel.hpp"
#include "numerics/bounds.hpp"
#include "numerics/sweep.hpp"
#include "reference/problem.hpp"
#include "reference/recipe.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace fa1::numerics {

enum class Objective { error, bound };
constexpr std::string_view name_of(Objective objective) {
  return objective == Objective::error ? "error" : "bound";
}

/// One run with what judges it.
struct JudgedRun {
  reference::State state;
  reference::Truth truth;
  Bounds bounds;
  bool counts() const; ///< the bound holds and the scores carry a digit
};
JudgedRun judged_run(const reference::Problem& problem, const kernels::Kernel& kernel);

/// The element of O that decides. NaN and Inf in O are an error of Inf.
struct Peak {
  double error = 0.0;    ///< in u sum p|v|
  double fraction = 0.0; ///< of the bound
  double bound = 0.0;    ///< in u sum p|v|
  double of(Objective objective) const { return objective == Objective::error ? error : fraction; }
};

struct SearchLimits {
  double largest_score = 32.0; ///< of |scale| sum_i |q_i k_ji|, over all queries and keys
  double smallest_value = 0x1p-16, largest_value = 0x1p16; ///< of an entry of V that is not 0
};

/// Nothing where the problem does not count or is beyond the limits.
std::optional<Peak> peak_of(const reference::Recipe& recipe, const kernels::Kernel& kernel,
                            Objective objective, const SearchLimits& limits);

/// What is made as large as possible; NaN: the candidate does not count. `kernel` is the value of the
/// axis of that name, empty where there is none. Called from several threads at once.
using Score = std::function<double(const reference::Recipe&, std::string_view kernel)>;

/// Random numbers that are the same everywhere, as the distributions of <random> are not.
class Dice {
public:
  explicit Dice(std::uint64_t seed) : bits_(seed) {}
  std::uint64_t below(std::uint64_t n) { return bits_() % n; } ///< n is far below 2^64
  bool one_in(std::uint64_t n) { return below(n) == 0; }

private:
  std::mt19937_64 bits_;
};

inline constexpr std::size_t kGeneration = 16; ///< candidates of one generation

/// A point of the grid, with a seed.
struct Candidate {
  std::uint64_t point = 0, seed = 0;
  double value = -std::numeric_limits<double>::infinity();
};

/// Which value of an axis a point of the grid has, and the point that has another.
std::uint64_t digit_of(const Grid& grid, std::uint64_t point, std::size_t axis);
std::uint64_t with_digit(const Grid& grid, std::uint64_t point, std::size_t axis,
                         std::uint64_t digit);

class Evolution {
public:
  Evolution(const Grid& grid, Score score, std::uint64_t seed);

  /// The next `count` candidates, of kGeneration at most; fewer only to end the search.
  void generation(unsigned threads, std::size_t count = kGeneration);

  /// The best so far, the best first; empty where none has counted.
  std::span<const Candidate> best() const { return best_; }
  GridPoint at(const Candidate& candidate) const; ///< its recipe has the candidate's seed
  std::int64_t counted() const { return counted_; }

private:
  Candidate mutated(Candidate candidate);

  const Grid& grid_;
  Score score_;
  Dice dice_;
  std::vector<Candidate> best_;
  std::int64_t counted_ = 0;
};

/// The values of `count` candidates drawn at random, in the order drawn; NaN where one does not count.
std::vector<double> random_values(const Grid& grid, const Score& score, std::uint64_t seed,
                                  std::size_t count, unsigned threads);

class EntryMoves {
public:
  EntryMoves(const reference::Recipe& start, double value, Score score, std::uint64_t seed);

  void generation(unsigned threads, std::size_t count = kGeneration);
  const reference::Recipe& recipe() const { return recipe_; }
  double value() const { return value_; }

private:
  using Place = std::tuple<reference::Matrix, std::int64_t, std::int64_t>; ///< row, column
  using Changes = std::map<Place, float>;
  float entry(const Place& place) const;
  Place any_place();
  float moved(const Place& place);
  Changes proposal();
  reference::Recipe with(const Changes& changes) const;

  reference::Recipe recipe_;
  reference::Problem problem_;
  double value_;
  Score score_;
  Dice dice_;
};

struct Budget {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t evaluations = std::numeric_limits<std::int64_t>::max();
  std::function<void(double share)> on_spent; ///< told what part of it each generation took
};

/// Time and evaluations spent; a search asks before each generation.
class Account {
public:
  explicit Account(const Budget& budget) : budget_(budget) {}
  /// Candidates that the next generation may have; 0 ends the search.
  std::size_t next() const;
  void spend(std::size_t count);
  std::int64_t evaluations() const { return evaluations_; }

private:
  double share() const; ///< of the budget, from 0 to 1

  Budget budget_;
  std::int64_t evaluations_ = 0;
  double told_ = 0.0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Worst {
  reference::Recipe recipe;                                ///< with what was moved in `put`
  double value = -std::numeric_limits<double>::infinity(); ///< minus infinity: none has counted
  std::int64_t evaluations = 0;
};

struct WorstSearch {
  std::string base;       ///< a recipe, of one batch-head and all rows
  std::vector<Axis> axes; ///< keys that vary, the seed not among them
  const kernels::Kernel* kernel = nullptr;
  Objective objective = Objective::error;
  SearchLimits limits;
  std::uint64_t seed = 1;
  std::optional<reference::Recipe> from; ///< entries start here
};

/// What the search makes large; `search` outlives it.
Score score_of(const WorstSearch& search);

/// The axes that `base` leaves open: those of its keys dist, sigma, order, gap and v that it does not
/// name.
std::vector<Axis> open_axes(std::string_view base);

/// `on_round` is called after each round that found something worse, with that, and at the end.
Worst find_worst(const WorstSearch& search, const Budget& budget, unsigned threads,
                 const std::function<void(const Worst&)>& on_round = {});

} // namespace fa1::numerics
