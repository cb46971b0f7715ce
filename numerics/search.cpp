#include "numerics/search.hpp"

#include "numerics/error.hpp"
#include "numerics/ulp.hpp"
#include "numerics/verdict.hpp"
#include "reference/certified.hpp"
#include "reference/parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace fa1::numerics {
namespace {

using reference::Matrix;
using reference::Recipe;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::size_t kParents = 8;
constexpr std::size_t kFirstGenerations = 32; ///< of recipes, in the first round
constexpr std::size_t kRecipeGenerations = 16, kEntryGenerations = 48; ///< of each later round

bool within(const reference::Problem& problem, const SearchLimits& limits) {
  const bool values = std::ranges::all_of(problem.V.elements(), [&](float v) {
    const double size = std::fabs(double{v});
    return size == 0.0 || (limits.smallest_value <= size && size <= limits.largest_value);
  });
  return values && largest_score(problem) <= limits.largest_score; // false for NaN
}

std::int64_t rows_of(const reference::Problem& problem, Matrix matrix) {
  return matrix == Matrix::Q ? problem.shape.n_q : problem.shape.n_kv;
}
std::int64_t columns_of(const reference::Problem& problem, Matrix matrix) {
  return matrix == Matrix::V ? problem.shape.dv : problem.shape.d;
}

/// The float so many steps of the last bit away from 0 (or towards it); zeros and what would be no
/// finite number stay.
float stepped(float x, std::int64_t ulps) {
  const auto bits = std::int64_t{std::bit_cast<std::uint32_t>(std::fabs(x))} + ulps;
  if (x == 0.0f || bits <= 0 || bits >= 0x7f800000)
    return x;
  return std::copysign(std::bit_cast<float>(static_cast<std::uint32_t>(bits)), x);
}

/// The values of `recipes`, each on the kernel beside it.
std::vector<double> values_of(std::span<const std::pair<Recipe, std::string>> candidates,
                              const Score& score, unsigned threads) {
  std::vector<double> values(candidates.size());
  reference::in_parallel(candidates.size(), threads, [&](std::size_t i) {
    values[i] = score(candidates[i].first, candidates[i].second);
  });
  return values;
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// One candidate
// ---------------------------------------------------------------------------------------------------

bool JudgedRun::counts() const {
  return bounds.obstacle.empty() &&
         std::ranges::all_of(bounds.eta, [](double eta) { return eta < kNoDigit; });
}

JudgedRun judged_run(const reference::Problem& problem, const kernels::Kernel& kernel) {
  return {kernels::run(kernel, problem), reference::certify(problem),
          online_softmax(problem, kernel.arithmetic)};
}

std::optional<Peak> peak_of(const Recipe& recipe, const kernels::Kernel& kernel,
                            Objective objective, const SearchLimits& limits) {
  const reference::Problem problem = reference::make_problem(recipe);
  if (!within(problem, limits))
    return std::nullopt;
  const JudgedRun run = judged_run(problem, kernel);
  if (!run.counts())
    return std::nullopt;
  Peak peak;
  for (std::size_t e = 0; e < run.truth.O.elements().size(); ++e) {
    const float got = run.state.O.elements()[e];
    const double unit = kU * run.bounds.weighted.elements()[e], bound = run.bounds.O.elements()[e];
    double error = std::fabs(error_of(got, run.truth.O.elements()[e]));
    if (!std::isfinite(got))
      error = kInfinity;
    if (error == 0.0)
      continue;
    const Peak here{error / unit, error / bound, bound / unit};
    if (peak.error == 0.0 || here.of(objective) > peak.of(objective))
      peak = here;
  }
  return peak;
}

// ---------------------------------------------------------------------------------------------------
// Recipes
// ---------------------------------------------------------------------------------------------------

namespace {

/// Points between two neighbours along an axis; the last axis is the fastest.
std::uint64_t stride_of(const Grid& grid, std::size_t axis) {
  std::uint64_t stride = 1;
  for (std::size_t a = grid.axes().size(); --a > axis;)
    stride *= grid.axes()[a].values.size();
  return stride;
}

constexpr std::uint64_t kSeeds = std::uint64_t{1} << 32; ///< short enough to be read

Candidate drawn_from(const Grid& grid, Dice& dice) {
  const std::uint64_t point = dice.below(grid.points());
  return {point, dice.below(kSeeds)};
}

GridPoint point_at(const Grid& grid, const Candidate& candidate) {
  GridPoint point = grid.point(candidate.point);
  point.recipe.seed = candidate.seed;
  if (point.recipe.order != reference::Order::dominant)
    point.recipe.gap = Recipe{}.gap; // of no effect, so not to be read
  return point;
}

} // namespace

std::uint64_t digit_of(const Grid& grid, std::uint64_t point, std::size_t axis) {
  return point / stride_of(grid, axis) % grid.axes()[axis].values.size();
}

std::uint64_t with_digit(const Grid& grid, std::uint64_t point, std::size_t axis,
                         std::uint64_t digit) {
  const std::uint64_t stride = stride_of(grid, axis);
  return point - digit_of(grid, point, axis) * stride + digit * stride;
}

Evolution::Evolution(const Grid& grid, Score score, std::uint64_t seed)
    : grid_(grid), score_(std::move(score)), dice_(seed) {}

GridPoint Evolution::at(const Candidate& candidate) const { return point_at(grid_, candidate); }

/// A new seed, or one or two axes a step or a jump on.
Candidate Evolution::mutated(Candidate candidate) {
  candidate.value = -kInfinity;
  const std::uint64_t axes = grid_.axes().size();
  if (axes == 0 || dice_.one_in(2)) {
    candidate.seed = dice_.below(kSeeds);
    if (axes == 0 || dice_.one_in(2))
      return candidate;
  }
  for (std::uint64_t times = 1 + dice_.below(2); times-- > 0;) {
    const auto which = static_cast<std::size_t>(dice_.below(axes));
    const std::uint64_t size = grid_.axes()[which].values.size();
    const std::uint64_t step = dice_.one_in(2)   ? dice_.below(size) // anywhere
                               : dice_.one_in(2) ? 1                 // the next
                                                 : size - 1;         // the one before
    const std::uint64_t digit = digit_of(grid_, candidate.point, which);
    candidate.point = with_digit(grid_, candidate.point, which, (digit + step) % size);
  }
  return candidate;
}

void Evolution::generation(unsigned threads, std::size_t count) {
  std::vector<Candidate> born;
  std::vector<std::pair<Recipe, std::string>> recipes;
  for (std::size_t i = 0; i < kGeneration; ++i) {
    const bool anew = best_.empty() || dice_.one_in(4);
    born.push_back(anew ? drawn_from(grid_, dice_) : mutated(best_[dice_.below(best_.size())]));
  }
  born.resize(std::min(count, born.size()));
  for (const Candidate& candidate : born) {
    GridPoint point = at(candidate);
    recipes.emplace_back(std::move(point.recipe), std::move(point.kernel));
  }

  const std::vector<double> values = values_of(recipes, score_, threads);

  for (std::size_t i = 0; i < born.size(); ++i) {
    if (std::isnan(values[i]))
      continue;
    ++counted_;
    born[i].value = values[i];
    best_.push_back(born[i]);
  }
  std::ranges::stable_sort(best_, std::ranges::greater{}, &Candidate::value);
  const auto twice = [](const Candidate& a, const Candidate& b) {
    return a.point == b.point && a.seed == b.seed;
  };
  best_.erase(std::unique(best_.begin(), best_.end(), twice), best_.end());
  best_.resize(std::min(best_.size(), kParents));
}

std::vector<double> random_values(const Grid& grid, const Score& score, std::uint64_t seed,
                                  std::size_t count, unsigned threads) {
  Dice dice(seed);
  std::vector<std::pair<Recipe, std::string>> recipes;
  for (std::size_t i = 0; i < count; ++i) {
    GridPoint point = point_at(grid, drawn_from(grid, dice));
    recipes.emplace_back(std::move(point.recipe), std::move(point.kernel));
  }
  return values_of(recipes, score, threads);
}

// ---------------------------------------------------------------------------------------------------
// Entries
// ---------------------------------------------------------------------------------------------------

EntryMoves::EntryMoves(const Recipe& start, double value, Score score, std::uint64_t seed)
    : recipe_(start), problem_(reference::make_problem(start)), value_(value),
      score_(std::move(score)), dice_(seed) {}

float EntryMoves::entry(const Place& place) const {
  const auto& [matrix, row, column] = place;
  const reference::Tensor<float>& tensor = matrix == Matrix::Q   ? problem_.Q
                                           : matrix == Matrix::K ? problem_.K
                                                                 : problem_.V;
  return tensor(0, row, column);
}

EntryMoves::Place EntryMoves::any_place() {
  const auto matrix = static_cast<Matrix>(dice_.below(3));
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(dice_.below(static_cast<std::uint64_t>(n)));
  };
  const std::int64_t row = below(rows_of(problem_, matrix));
  return {matrix, row, below(columns_of(problem_, matrix))};
}

float EntryMoves::moved(const Place& place) {
  const float x = entry(place);
  const std::int64_t sign = dice_.one_in(2) ? 1 : -1;
  switch (dice_.below(8)) {
  case 0:
  case 1: // a few ulp
    return stepped(x, sign * static_cast<std::int64_t>(1 + dice_.below(8)));
  case 2: // a power of two of ulp, up to a binade
    return stepped(x, sign * (std::int64_t{1} << dice_.below(24)));
  case 3: // a power of two
    return std::ldexp(x, static_cast<int>(sign) * static_cast<int>(1 + dice_.below(3)));
  case 4:
    return -x;
  case 5: { // the value of another entry of the same matrix
    Place other = any_place();
    while (std::get<Matrix>(other) != std::get<Matrix>(place))
      other = any_place();
    return entry(other);
  }
  case 6: // fewer bits
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) &
                                (~std::uint32_t{0} << dice_.below(24)));
  default:
    return dice_.one_in(4) ? 0.0f : x == 0.0f ? 1.0f : stepped(x, sign << 23);
  }
}

/// One entry, or up to eight.
EntryMoves::Changes EntryMoves::proposal() {
  Changes changes;
  const std::uint64_t most = std::uint64_t{1} << dice_.below(4);
  for (std::uint64_t times = 1 + dice_.below(most); times-- > 0;) {
    const Place place = any_place();
    changes[place] = moved(place);
  }
  return changes;
}

Recipe EntryMoves::with(const Changes& changes) const {
  Changes all;
  for (const reference::Put& put : recipe_.put)
    all[{put.matrix, put.row, put.column}] = put.value;
  for (const auto& [place, value] : changes)
    all[place] = value;
  Recipe recipe = recipe_;
  recipe.put.clear();
  for (const auto& [place, value] : all)
    recipe.put.push_back({std::get<0>(place), std::get<1>(place), std::get<2>(place), value});
  return recipe;
}

void EntryMoves::generation(unsigned threads, std::size_t count) {
  std::vector<std::pair<Recipe, std::string>> recipes;
  for (std::size_t i = 0; i < kGeneration; ++i)
    recipes.emplace_back(with(proposal()), "");
  recipes.resize(std::min(count, recipes.size()));

  const std::vector<double> values = values_of(recipes, score_, threads);

  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] >= (best == values.size() ? value_ : values[best])) // false for NaN
      best = i;
  if (best == values.size())
    return;
  recipe_ = recipes[best].first;
  value_ = values[best];
  problem_ = reference::make_problem(recipe_);
}

// ---------------------------------------------------------------------------------------------------
// Both
// ---------------------------------------------------------------------------------------------------

double Account::share() const {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_;
  const double of_evaluations =
      static_cast<double>(evaluations_) / static_cast<double>(budget_.evaluations);
  return std::min(1.0, std::max(time.count() / budget_.seconds, of_evaluations));
}

std::size_t Account::next() const {
  if (!(share() < 1.0))
    return 0;
  return static_cast<std::size_t>(
      std::min(budget_.evaluations - evaluations_, static_cast<std::int64_t>(kGeneration)));
}

void Account::spend(std::size_t count) {
  evaluations_ += static_cast<std::int64_t>(count);
  if (budget_.on_spent)
    budget_.on_spent(share() - std::exchange(told_, share()));
}

Score score_of(const WorstSearch& search) {
  return [&search](const Recipe& recipe, std::string_view) {
    const auto peak = peak_of(recipe, *search.kernel, search.objective, search.limits);
    return peak ? peak->of(search.objective) : kNaN;
  };
}

std::vector<Axis> open_axes(std::string_view base) {
  std::vector<Axis> axes;
  const std::string words = fmt::format(" {}", base);
  for (const char* axis : {"dist=normal,uniform,ints,pow2,outliers", "sigma=0.0625..16:17",
                           "order=free,ascending,descending,tied,dominant", "gap=1..32",
                           "v=normal,uniform,positive,alternating,ints,pow2,outliers,index1"}) {
    Axis parsed = parse_axis(axis);
    const bool replaced = parsed.key != "sigma" && words.find(" recorded=") != std::string::npos;
    if (!replaced && words.find(fmt::format(" {}=", parsed.key)) == std::string::npos)
      axes.push_back(std::move(parsed));
  }
  return axes;
}

namespace {

/// Takes back, one after the other, what was moved and does not matter.
void tidy(Worst& worst, const Recipe& base, const Score& score) {
  const auto asked_for = [&](const reference::Put& put) {
    return std::ranges::any_of(base.put, [&](const reference::Put& asked) {
      return asked.matrix == put.matrix && asked.row == put.row && asked.column == put.column;
    });
  };
  for (std::size_t i = 0; i < worst.recipe.put.size();) {
    Recipe without = worst.recipe;
    without.put.erase(without.put.begin() + static_cast<std::ptrdiff_t>(i));
    const double value = asked_for(worst.recipe.put[i]) ? kNaN : score(without, "");
    if (value >= worst.value) { // false for NaN
      worst.recipe = std::move(without);
      worst.value = value;
    } else {
      ++i;
    }
  }
}

} // namespace

Worst find_worst(const WorstSearch& search, const Budget& budget, unsigned threads,
                 const std::function<void(const Worst&)>& on_round) {
  const Grid grid(search.base, search.axes);
  const Recipe base = reference::parse_recipe(search.base);
  const reference::Shape shape = reference::shape_of(base);
  if (std::min({shape.n_q, shape.n_kv, shape.d, shape.dv}) < 1)
    throw SweepError("worst: want n_q, n_kv, d and dv of at least 1");
  if (base.batch_heads != 1 || base.rows)
    throw SweepError("worst: bh and rows: want one batch-head and all rows, each is on its own");
  const Score score = score_of(search);
  Account account(budget);
  Dice seeds(search.seed);
  Evolution recipes(grid, score, seeds.below(kSeeds));
  std::optional<EntryMoves> entries;
  std::set<std::pair<std::uint64_t, std::uint64_t>> started;
  Worst worst;

  const auto generations = [&](auto& stage, std::size_t count) {
    for (std::size_t g = 0; g < count; ++g) {
      const std::size_t candidates = account.next();
      if (candidates == 0)
        return;
      stage.generation(threads, candidates);
      account.spend(candidates);
    }
  };
  const auto keep = [&](const Recipe& recipe, double value) {
    if (value > worst.value) {
      worst.recipe = recipe;
      worst.value = value;
    }
  };
  if (search.from && account.next() > 0) {
    account.spend(1);
    const double value = score(*search.from, "");
    if (!std::isnan(value)) {
      entries.emplace(*search.from, value, score, seeds.below(kSeeds));
      keep(*search.from, value);
    }
  }
  bool stalled = false;
  for (std::size_t round = 0; account.next() > 0; ++round) {
    const double before = worst.value;
    generations(recipes, round == 0 ? kFirstGenerations : kRecipeGenerations);
    for (const Candidate& best : recipes.best()) {
      const bool ahead = !entries || stalled || best.value > entries->value();
      if (!ahead || !started.emplace(best.point, best.seed).second)
        continue;
      const Recipe recipe = recipes.at(best).recipe;
      entries.emplace(recipe, best.value, score, seeds.below(kSeeds));
      keep(recipe, best.value);
      break;
    }
    if (entries) {
      const double start = entries->value();
      generations(*entries, kEntryGenerations);
      stalled = !(entries->value() > start);
      keep(entries->recipe(), entries->value());
    }
    worst.evaluations = account.evaluations();
    if (on_round && worst.value > before)
      on_round(worst);
  }
  worst.evaluations = account.evaluations();
  tidy(worst, base, score);
  if (on_round && worst.value > -kInfinity)
    on_round(worst);
  return worst;
}

} // namespace fa1::numerics
