#include "numerics/diagnosis.hpp"

#include "numerics/bounds.hpp"
#include "numerics/diagnosis_faults.hpp"
#include "numerics/trace.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using reference::Problem;
using reference::State;

/// Multiply-adds that the search for the smallest problem may spend besides bisecting.
constexpr double kWorkBesides = 0x1p28;
constexpr std::int64_t kWidestGuess = 256;

/// One run, judged.
struct Run {
  State state;
  reference::Truth truth;
  Bounds bounds;
  Verdict verdict;
};

Run judged(const Problem& problem, const Kernel& kernel, State state) {
  Run run{std::move(state),
          reference::certify(problem),
          online_softmax(problem, kernel.arithmetic),
          {}};
  run.verdict = judge(problem, run.state, run.truth, run.bounds, kernel.gives_l_and_m);
  return run;
}

// ---------------------------------------------------------------------------------------------------
// The smallest problem
// ---------------------------------------------------------------------------------------------------

Problem first_components(const Problem& problem, std::int64_t count) {
  const reference::Shape& full = problem.shape;
  Problem part{full, problem.scale, reference::Tensor<float>(full.batch_heads, full.n_q, count),
               reference::Tensor<float>(full.batch_heads, full.n_kv, count), problem.V};
  part.shape.d = count;
  for (std::int64_t bh = 0; bh < full.batch_heads; ++bh) {
    for (std::int64_t r = 0; r < full.n_q; ++r)
      std::ranges::copy(problem.Q.row(bh, r).first(static_cast<std::size_t>(count)),
                        part.Q.row(bh, r).begin());
    for (std::int64_t j = 0; j < full.n_kv; ++j)
      std::ranges::copy(problem.K.row(bh, j).first(static_cast<std::size_t>(count)),
                        part.K.row(bh, j).begin());
  }
  return part;
}

/// Is the row of the worst element proved wrong in smaller problems?
class Subject {
public:
  /// The row alone, if alone it is wrong.
  Subject(const Problem& problem, const Kernel& kernel, QueryRow at)
      : kernel_(kernel), at_(at), row_(row_problem(problem, at)), whole_(&problem) {
    alone_ = problem.shape.batch_heads * problem.shape.n_q == 1;
    if (!alone_) {
      whole_ = &row_;
      alone_ = is_wrong(row_, row_);
      if (!alone_)
        whole_ = &problem;
    }
  }

  bool alone() const { return alone_; }
  double spent() const { return spent_; }

  bool with_keys(std::int64_t count) {
    return is_wrong(reference::slice_keys(*whole_, 0, count),
                    reference::slice_keys(row_, 0, count));
  }
  bool with_components(std::int64_t count) {
    return is_wrong(first_components(*whole_, count), first_components(row_, count));
  }

private:
  bool is_wrong(const Problem& problem, const Problem& row) {
    const reference::Shape& s = problem.shape;
    spent_ += static_cast<double>(s.batch_heads * s.n_q * s.n_kv * (s.d + s.dv + 8));
    State state;
    try {
      state = kernels::run(kernel_, problem, launch_for(kernel_, problem));
    } catch (const kernels::UnsupportedShape&) {
      return false;
    } catch (const kernels::KernelFault& fault) {
      if (fault.hung())
        throw;
      return true;
    } catch (const simt::ExecutorError&) {
      return true;
    }
    if (whole_ != &row_)
      state = row_state(state, problem.shape, at_);
    return judged(row, kernel_, std::move(state)).verdict.judgement == Judgement::proved_wrong;
  }

  const Kernel& kernel_;
  QueryRow at_;
  Problem row_;
  const Problem* whole_;
  bool alone_ = false;
  double spent_ = 0.0;
};

/// Answers to "is it wrong with so many?", each asked once.
class Answers {
public:
  Answers(std::int64_t count, std::function<bool(std::int64_t)> wrong) : wrong_(std::move(wrong)) {
    all_[count] = true;
  }

  bool wrong(std::int64_t n) {
    if (!all_.contains(n))
      all_[n] = wrong_(n);
    return all_[n];
  }
  const std::map<std::int64_t, bool>& all() const { return all_; }

  /// The smallest wrong one in (low, high], where low is right and high wrong, if what is wrong
  /// stays wrong.
  std::int64_t bisect(std::int64_t low, std::int64_t high) {
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (wrong(middle) ? high : low) = middle;
    }
    return high;
  }

private:
  std::function<bool(std::int64_t)> wrong_;
  std::map<std::int64_t, bool> all_;
};

/// Numbers worth asking in [1, last]: all that are small, around powers of two and, where there are
/// tiles, around some of their borders.
std::set<std::int64_t> worth_asking(std::int64_t last, std::int64_t Bc) {
  std::set<std::int64_t> numbers;
  for (std::int64_t n = 1; n <= std::min(last, kEveryNumber); ++n)
    numbers.insert(n);
  for (std::int64_t n = kEveryNumber; n <= last; n *= 2)
    for (const std::int64_t near : {n - 1, n, n + 1})
      numbers.insert(near);
  constexpr std::int64_t kBorders = 8;
  const std::int64_t tiles = last / Bc;
  for (std::int64_t k = 1; k <= std::min(tiles, kBorders); ++k)
    for (const std::int64_t tile : {k, tiles - k + 1})
      for (const std::int64_t near : {tile * Bc - 1, tile * Bc, tile * Bc + 1})
        numbers.insert(near);
  numbers.erase(0);
  while (!numbers.empty() && *numbers.rbegin() > last)
    numbers.erase(std::prev(numbers.end()));
  return numbers;
}

/// Downwards from a wrong `at`, then upwards to `count`; the smallest wrong number found.
std::int64_t look_around(Answers& answers, std::int64_t at, std::int64_t count, std::int64_t Bc,
                         const std::function<bool()>& affordable) {
  std::int64_t right = 0;
  for (const std::int64_t n : worth_asking(at - 1, Bc)) {
    if (!affordable())
      break;
    if (answers.wrong(n)) {
      at = answers.bisect(right, n);
      break;
    }
    right = n;
  }
  for (const std::int64_t n : worth_asking(count, Bc))
    if (n > at && affordable())
      answers.wrong(n);
  return at;
}

/// The tile widths that a fault of this kernel may have.
std::vector<std::int64_t> widths_of(const Kernel& kernel, std::int64_t keys) {
  if (kernel.arithmetic.known)
    return {std::max(1, kernel.Bc)};
  std::vector<std::int64_t> widths;
  if (kernel.Bc > 1)
    widths.push_back(kernel.Bc);
  for (std::int64_t Bc = 1; Bc <= kWidestGuess && Bc < 2 * keys; Bc *= 2)
    if (Bc != kernel.Bc || Bc == 1)
      widths.push_back(Bc);
  return widths;
}

/// The width B for which exactly the numbers asked that are no multiple of it are wrong; 0: none.
std::int64_t period_of(const std::map<std::int64_t, bool>& asked, const Kernel& kernel) {
  for (const std::int64_t B : widths_of(kernel, kWidestGuess)) {
    const auto as_if = [B](const auto& one) {
      return one.first == 0 || one.second == (one.first % B != 0);
    };
    const auto multiples = std::ranges::count_if(
        asked, [B](const auto& one) { return one.first > 0 && one.first % B == 0; });
    if (B > 1 && multiples >= 2 && std::ranges::all_of(asked, as_if))
      return B;
  }
  return 0;
}

std::string border_text(std::int64_t at, const Kernel& kernel) {
  if (kernel.arithmetic.known) {
    const std::int64_t Bc = kernel.Bc;
    return Bc > 1 && at > 1 && (at - 1) % Bc == 0
               ? fmt::format(": the border of tile {} (of {} keys, counted from 0)", at / Bc, Bc)
               : "";
  }
  constexpr std::int64_t kTellsOfTiles = 8;
  const std::int64_t power = (at - 1) & (1 - at); // largest power of two that divides at - 1
  return power >= kTellsOfTiles ? fmt::format(": {} is a multiple of {}", at - 1, power) : "";
}

std::string parting_text(std::int64_t at, const Answers& answers, std::int64_t count,
                         const Kernel& kernel) {
  if (at == 0)
    return "wrong without any key already";
  std::int64_t below = 0, above = 0;
  std::int64_t right_again = 0;
  for (const auto& [n, wrong] : answers.all()) {
    below += n < at;
    above += n > at;
    if (n > at && !wrong && right_again == 0)
      right_again = n;
  }
  std::string text = at == 1       ? "wrong from the first key on"
                     : below == at ? fmt::format("right up to {} key{}, wrong from {}", at - 1,
                                                 at == 2 ? "" : "s", at)
                                   : fmt::format("right up to {} keys ({} of these numbers tried), "
                                                 "wrong from {}",
                                                 at - 1, below, at);
  text += border_text(at, kernel);
  if (const std::int64_t B = period_of(answers.all(), kernel); B > 0)
    return text + fmt::format("; wrong where the number of keys is no multiple of {}", B);
  if (right_again > 0)
    return text + fmt::format("; right again with {}", right_again);
  if (above > 0 && at < count)
    text += fmt::format("; wrong with all {} larger numbers tried", above);
  return text;
}

void find_parting(const Problem& problem, const Kernel& kernel, Diagnosis& diagnosis) {
  const Element& worst = diagnosis.verdict.worst;
  Subject subject(problem, kernel, {worst.batch_head, worst.row});
  const std::int64_t Bc = kernel.arithmetic.known ? std::max(1, kernel.Bc) : 1;
  const std::int64_t count = problem.shape.n_kv;
  Answers answers(count, [&](std::int64_t n) { return subject.with_keys(n); });
  std::int64_t at = 0;
  if (!answers.wrong(0)) {
    at = answers.bisect(0, count);
    const double most = subject.spent() + kWorkBesides;
    at = look_around(answers, at, count, Bc, [&] { return subject.spent() < most; });
  }
  diagnosis.keys = at;
  diagnosis.parts_at = parting_text(at, answers, count, kernel);
  if (problem.shape.d > 1 && at > 0) {
    Answers components(problem.shape.d, [&](std::int64_t n) { return subject.with_components(n); });
    const std::int64_t d = components.wrong(1) ? 1 : components.bisect(1, problem.shape.d);
    // Elsewhere the number is an accident of the scores, which change with every component.
    constexpr std::int64_t kVector = 8;
    if (d > 1 && (d - 1) % kVector == 0)
      diagnosis.parts_at +=
          fmt::format("; right with the first {} components of Q and K, wrong from {}", d - 1, d);
  }
  if (!subject.alone())
    diagnosis.parts_at += "; the row is wrong only in the company of the others";
}

// ---------------------------------------------------------------------------------------------------
// Rows and columns
// ---------------------------------------------------------------------------------------------------

/// A set of numbers in [0, count) in words: what they have in common.
std::string in_words(const std::set<std::int64_t>& set, std::int64_t count, std::string_view one,
                     std::string_view many, const std::vector<std::int64_t>& blocks) {
  const auto size = static_cast<std::int64_t>(set.size());
  const std::int64_t first = *set.begin(), last = *set.rbegin();
  if (size == count)
    return count == 1 ? fmt::format("the only {}", one) : fmt::format("every {}", one);
  if (size == 1 && first == count - 1)
    return fmt::format("the last {} ({})", one, last);
  if (size == 1)
    return fmt::format("{} {}", one, first);
  if (size == count - 1 && first == 1)
    return fmt::format("every {} but the first", one);
  for (const std::int64_t B : blocks) {
    if (B < 2 || count < 2 * B)
      continue;
    const auto exactly = [&](const auto& belongs) {
      for (std::int64_t n = 0; n < count; ++n)
        if (belongs(n) != set.contains(n))
          return false;
      return true;
    };
    if (exactly([B](std::int64_t n) { return n % B == B - 1; }))
      return fmt::format("the last {} of each block of {}", one, B);
    if (exactly([B](std::int64_t n) { return n % B != 0; }))
      return fmt::format("every {} but the first of each block of {}", one, B);
    if (exactly([B](std::int64_t n) { return n % B == 0; }))
      return fmt::format("the first {} of each block of {}", one, B);
    if (count % B != 0 && exactly([B, count](std::int64_t n) { return n >= count / B * B; }))
      return fmt::format("the {} of the last block of {}, which is not full", many, B);
  }
  if (size == last - first + 1)
    return last == count - 1 ? fmt::format("the {} from {} on", many, first)
                             : fmt::format("{} {} to {}", many, first, last);
  return fmt::format("{} of {} {}", size, count, many);
}

std::string where_text(const Run& run, const Kernel& kernel) {
  const reference::Tensor<Judgement> each = judge_each_O(run.state, run.truth, run.bounds);
  std::set<std::int64_t> heads, rows, columns;
  std::int64_t wrong = 0;
  for (std::int64_t bh = 0; bh < each.batch_heads(); ++bh)
    for (std::int64_t r = 0; r < each.rows(); ++r)
      for (std::int64_t c = 0; c < each.columns(); ++c)
        if (each(bh, r, c) == Judgement::proved_wrong) {
          heads.insert(bh);
          rows.insert(r);
          columns.insert(c);
          ++wrong;
        }
  if (wrong == 0)
    return fmt::format("O is nowhere proved wrong, {} is", run.verdict.worst.output);
  std::vector<std::int64_t> blocks{kernel.Br};
  if (!kernel.arithmetic.known)
    blocks.insert(blocks.end(), {4, 8, 16, 32, 64, 128});
  std::string text = in_words(rows, each.rows(), "row", "rows", blocks);
  if (each.batch_heads() > 1)
    text += " of " + in_words(heads, each.batch_heads(), "batch-head", "batch-heads", {});
  text += ", " + in_words(columns, each.columns(), "column", "columns", {});
  return text + fmt::format(": {} of {} elements of O", wrong, each.size());
}

// ---------------------------------------------------------------------------------------------------
// Faults whose wrong answer is known
// ---------------------------------------------------------------------------------------------------

/// How a wrong answer in closed form compares with what the kernel gave, element by element.
class Comparison {
public:
  /// `tolerance` is absolute, `bound` the unit in which errors count.
  void add(double got, double wrong, double right, double tolerance, double bound) {
    constexpr double kLargest = 0x1.fffffep+127;
    if (!std::isfinite(got)) {
      const bool same =
          std::isnan(got) ? std::isnan(wrong) : got * wrong > 0.0 && std::fabs(wrong) > kLargest;
      near_ = near_ && same;
      explains_ = explains_ || std::isfinite(right);
      return;
    }
    near_ = near_ && std::fabs(got - wrong) <= tolerance;
    if (!(bound > 0.0) || !std::isfinite(right))
      return;
    left_ += std::pow((got - wrong) / bound, 2);
    error_ += std::pow((got - right) / bound, 2);
    explains_ = explains_ || std::fabs(got - right) > bound;
  }
  bool near() const { return near_; }
  bool fits() const { return near_ && explains_ && unexplained() <= kUnexplained; }
  double unexplained() const { return error_ > 0.0 ? std::sqrt(left_ / error_) : 0.0; }

private:
  double left_ = 0.0, error_ = 0.0;
  bool near_ = true, explains_ = false;
};

struct Exhibit {
  const Problem& problem;
  const Kernel& kernel;
  const Run& run;
  std::vector<QueryRow> rows; ///< those compared
  std::vector<std::vector<double>> dots;

  bool has_LSE() const { return kernel.gives_l_and_m; }
};

void compare_row(const Exhibit& exhibit, QueryRow at, const WrongRow& wrong,
                 Comparison& comparison) {
  const Run& run = exhibit.run;
  const auto row = static_cast<std::size_t>(at.batch_head * exhibit.problem.shape.n_q + at.row);
  const auto allowed = [&wrong](double bound, double enlarged) {
    return kNearness * bound * std::max(1.0, enlarged) * wrong.stretch;
  };
  for (std::int64_t c = 0; c < exhibit.problem.shape.dv; ++c) {
    const auto column = static_cast<std::size_t>(c);
    const double bound = run.bounds.O(at.batch_head, at.row, c),
                 weighted = run.bounds.weighted(at.batch_head, at.row, c),
                 size = wrong.size[column];
    comparison.add(double{run.state.O(at.batch_head, at.row, c)}, wrong.O[column],
                   run.truth.O(at.batch_head, at.row, c).hi,
                   allowed(bound, weighted > 0.0 ? size / weighted : 1.0) + wrong.grain * size,
                   bound);
  }
  if (exhibit.has_LSE() && !std::isnan(wrong.LSE)) {
    const double bound = run.bounds.LSE[row];
    comparison.add(double{run.state.m[row]} + std::log(double{run.state.l[row]}), wrong.LSE,
                   run.truth.LSE[row].hi, allowed(bound, 1.0) + kU * std::fabs(wrong.LSE), bound);
  }
}

Comparison compare(const Exhibit& exhibit, const FaultPattern& fault, std::int64_t Bc) {
  const Kernel& kernel = exhibit.kernel;
  Comparison comparison;
  for (std::size_t i = 0; i < exhibit.rows.size() && comparison.near(); ++i)
    compare_row(exhibit, exhibit.rows[i],
                fault.answer({exhibit.problem, exhibit.rows[i], exhibit.dots[i], Bc,
                              std::max(1, kernel.Br), std::max(1, kernel.D)}),
                comparison);
  return comparison;
}

/// The worst row and others, evenly spaced, as many as may be compared.
std::vector<QueryRow> rows_to_compare(const Problem& problem, const Run& run) {
  const reference::Shape& s = problem.shape;
  const std::int64_t all = s.batch_heads * s.n_q;
  const std::int64_t most = std::clamp<std::int64_t>(
      kWorkPerFault / std::max<std::int64_t>(1, s.n_kv * (s.d + s.dv)), 1, all);
  std::set<std::int64_t> numbers{run.verdict.worst.batch_head * s.n_q + run.verdict.worst.row};
  for (std::int64_t i = 0; i < most; ++i)
    numbers.insert(i * all / most);
  std::vector<QueryRow> rows;
  for (const std::int64_t n : numbers)
    if (run.bounds.eta[static_cast<std::size_t>(n)] < kNoDigit)
      rows.push_back({n / s.n_q, n % s.n_q});
  return rows;
}

void name_faults(const Problem& problem, const Kernel& kernel, const Run& run,
                 std::vector<Suspect>& suspects) {
  if (!run.bounds.obstacle.empty() || problem.shape.n_kv == 0)
    return;
  Exhibit exhibit{problem, kernel, run, rows_to_compare(problem, run), {}};
  for (const QueryRow at : exhibit.rows)
    exhibit.dots.push_back(dots_of(problem, at));
  const std::vector<std::int64_t> widths = widths_of(kernel, problem.shape.n_kv);
  for (const FaultPattern& fault : all_faults())
    for (const std::int64_t Bc : widths) {
      const Comparison found = compare(exhibit, fault, Bc);
      if (found.fits()) {
        Suspect suspect{std::string(fault.name), std::string(fault.says), found.unexplained()};
        if (fault.of_tiles && !kernel.arithmetic.known)
          suspect.says += fmt::format(" (tiles of {} key{})", Bc, Bc == 1 ? "" : "s");
        const auto same = std::ranges::find(suspects, suspect.name, &Suspect::name);
        if (same == suspects.end())
          suspects.push_back(std::move(suspect));
        else if (suspect.unexplained < same->unexplained)
          *same = std::move(suspect);
      }
      if (!fault.of_tiles)
        break;
    }
  std::ranges::stable_sort(suspects, {}, &Suspect::unexplained);
}

// ---------------------------------------------------------------------------------------------------
// Experiments
// ---------------------------------------------------------------------------------------------------

bool same_outputs(const Kernel& kernel, const State& a, const State& b) {
  const auto same = [](std::span<const float> x, std::span<const float> y) {
    return std::ranges::equal(x, y, same_bits);
  };
  return same(a.O.elements(), b.O.elements()) &&
         (!kernel.gives_l_and_m || (same(a.l, b.l) && same(a.m, b.m)));
}

/// Launches that differ from the first in what must not matter.
void experiment(const Problem& problem, const Kernel& kernel, const Run& run,
                std::vector<Suspect>& suspects) {
  const auto found = [&](std::string_view name, std::string says) {
    suspects.push_back({std::string(name), std::move(says), 0.0});
  };
  bool again = same_outputs(kernel, run.state, kernels::run(kernel, problem));
  if (again) { // after another launch, too
    kernels::run(kernel, reference::slice_keys(problem, 0, problem.shape.n_kv / 2));
    again = same_outputs(kernel, run.state, kernels::run(kernel, problem));
  }
  if (!again) {
    found("not_repeatable", "the same launch again gives another answer: something is kept between "
                            "launches, or read before it is written");
    return; // whatever changes below may change by itself
  }
  if (kernel.backend == kernels::Backend::cpu &&
      !same_outputs(kernel, run.state,
                    kernels::run(kernel, problem, {.schedule = simt::parse_schedule("reverse")})))
    found(
        "thread_order",
        "another order of the threads between barriers gives another answer: a barrier is missing");
  const State clean = kernels::run_into(kernel, problem, reference::start_state(problem.shape));
  if (!same_outputs(kernel, run.state, clean)) {
    const bool cured = judged(problem, kernel, clean).verdict.judgement != Judgement::proved_wrong;
    found("uninitialised",
          fmt::format("the answer depends on what O, l and m held before the launch{}",
                      cured ? "; it is right where they hold the start values" : ""));
  }
}

/// What no key has ever touched: NaN where nothing in the problem makes one, or the start value.
void notice_untouched(const Kernel& kernel, const Run& run, std::vector<Suspect>& suspects) {
  const auto is_nan = [](float x) { return std::isnan(x); };
  if (std::ranges::any_of(run.state.O.elements(), is_nan) ||
      (kernel.gives_l_and_m &&
       (std::ranges::any_of(run.state.l, is_nan) || std::ranges::any_of(run.state.m, is_nan)))) {
    suspects.push_back({"uninitialised",
                        "NaN shows, which O, l and m hold before the launch: something is never "
                        "written, or read before it is (or overflows inside the kernel)",
                        0.0});
    return;
  }
  const reference::Tensor<Judgement> each = judge_each_O(run.state, run.truth, run.bounds);
  bool any = false, all_zero = true;
  for (std::size_t e = 0; e < each.elements().size(); ++e)
    if (each.elements()[e] == Judgement::proved_wrong) {
      any = true;
      all_zero = all_zero && run.state.O.elements()[e] == 0.0f;
    }
  if (any && all_zero)
    suspects.push_back({"not_computed",
                        "every wrong element of O is 0, the start value: no key has reached it",
                        0.0});
}

/// As many of the first keys as may be compared, and no fewer than show the fault.
std::int64_t keys_to_compare(const Problem& problem, std::int64_t parting) {
  const reference::Shape& s = problem.shape;
  const std::int64_t affordable = kWorkPerFault / std::max<std::int64_t>(1, s.d + s.dv);
  return std::min(s.n_kv, std::max(parting, affordable));
}

} // namespace

Diagnosis diagnose(const Problem& problem, const Kernel& kernel) {
  Diagnosis diagnosis;
  const Run run = judged(problem, kernel, kernels::run(kernel, problem));
  diagnosis.verdict = run.verdict;
  if (!diagnosis.wrong())
    return diagnosis;
  diagnosis.where = where_text(run, kernel);
  experiment(problem, kernel, run, diagnosis.suspects);
  find_parting(problem, kernel, diagnosis);
  for (std::int64_t keys = keys_to_compare(problem, *diagnosis.keys);; keys = *diagnosis.keys) {
    if (keys == problem.shape.n_kv) {
      name_faults(problem, kernel, run, diagnosis.suspects);
      break;
    }
    const Problem part = reference::slice_keys(problem, 0, keys);
    const Run part_run = judged(part, kernel, kernels::run(kernel, part));
    if (part_run.verdict.judgement == Judgement::proved_wrong)
      name_faults(part, kernel, part_run, diagnosis.suspects);
    if (part_run.verdict.judgement == Judgement::proved_wrong || keys == *diagnosis.keys)
      break;
  }
  if (diagnosis.suspects.empty() && run.bounds.obstacle.empty())
    notice_untouched(kernel, run, diagnosis.suspects);
  return diagnosis;
}

std::vector<Suspect> suspects_of(const Problem& problem, const State& output, bool with_LSE,
                                 const Element& worst, const BoundsOf& bounds_of) {
  const reference::Shape& s = problem.shape;
  Kernel stranger;
  stranger.arithmetic.known = false;
  stranger.gives_l_and_m = with_LSE;
  stranger.D = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(s.d)));
  const auto rows = static_cast<std::size_t>(s.batch_heads * s.n_q);
  const std::vector<double> none(rows);
  const reference::Tensor<double> no_O(s.batch_heads, s.n_q, s.dv);
  Run run{output,
          {reference::Tensor<reference::Enclosed>(s.batch_heads, s.n_q, s.dv),
           {},
           {},
           std::vector<reference::Enclosed>(rows),
           {}},
          {no_O, no_O, none, none, none, none, none, no_O, {}},
          {}};
  run.verdict.worst = worst;
  for (const QueryRow at : rows_to_compare(problem, run)) {
    const Problem row = row_problem(problem, at);
    const reference::Truth truth = reference::certify(row);
    const Bounds bounds = bounds_of(row, truth);
    const auto number = static_cast<std::size_t>(at.batch_head * s.n_q + at.row);
    std::ranges::copy(truth.O.elements(), run.truth.O.row(at.batch_head, at.row).begin());
    std::ranges::copy(bounds.O.elements(), run.bounds.O.row(at.batch_head, at.row).begin());
    std::ranges::copy(bounds.weighted.elements(),
                      run.bounds.weighted.row(at.batch_head, at.row).begin());
    run.truth.LSE[number] = truth.LSE[0];
    run.bounds.LSE[number] = bounds.LSE[0];
    run.bounds.eta[number] = bounds.eta[0];
    if (run.bounds.obstacle.empty())
      run.bounds.obstacle = bounds.obstacle;
  }
  std::vector<Suspect> suspects;
  name_faults(problem, stranger, run, suspects);
  return suspects;
}

std::vector<Suspect> suspects_of(const Problem& problem, const Kernel& kernel,
                                 const SuspectRun& run) {
  std::vector<Suspect> suspects;
  name_faults(problem, kernel, {run.state, run.truth, run.bounds, run.verdict}, suspects);
  return suspects;
}

std::string to_string(const Suspect& suspect) {
  return suspect.unexplained > 0.0 ? fmt::format("{} (that leaves {:.1g} of the error unexplained)",
                                                 suspect.says, suspect.unexplained)
                                   : suspect.says;
}

std::vector<std::string> looks_like(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  if (!diagnosis.wrong())
    return lines;
  for (const Suspect& suspect : diagnosis.suspects)
    lines.push_back(to_string(suspect));
  if (lines.empty())
    lines.emplace_back(kNoKnownPattern);
  return lines;
}

} // namespace fa1::numerics
