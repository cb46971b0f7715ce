#include "numerics/shrink.hpp"

#include "numerics/diagnosis.hpp"
#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <exception>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using reference::Problem;
using reference::State;
using reference::Tensor;
using Indices = std::vector<std::int64_t>;

// ---------------------------------------------------------------------------------------------------
// What kind of fault
// ---------------------------------------------------------------------------------------------------

/// Addresses and sizes in a message change with the problem.
std::string without_numbers(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }, '#');
  text.erase(
      std::unique(text.begin(), text.end(), [](char a, char b) { return a == '#' && b == '#'; }),
      text.end());
  return text;
}

bool is_wrong(const Verdict& verdict) { return verdict.judgement == Judgement::proved_wrong; }

/// What is asked of one problem: its answers to a kind that is known, or whatever kind it shows.
class Inquiry {
public:
  Inquiry(const Problem& problem, const Kernel& kernel) : problem_(problem), kernel_(kernel) {
    try {
      state_ = kernels::run(kernel, problem);
    } catch (const kernels::UnsupportedShape&) {
      declined_ = std::current_exception();
    } catch (const kernels::KernelFault& fault) {
      if (fault.hung())
        throw;
      failure_ = without_numbers(fault.what());
    } catch (const simt::ExecutorError& error) {
      failure_ = without_numbers(error.what());
    }
  }

  /// Throws UnsupportedShape where the kernel declined.
  void require_answer() const {
    if (declined_)
      std::rethrow_exception(declined_);
  }

  /// The kind it shows.
  std::optional<WrongRun> any() {
    if (declined_)
      return {};
    if (!failure_.empty())
      return failed();
    truth_ = reference::certify(problem_);
    std::optional<WrongRun> found = held_to(HeldTo::any_kernel, "O");
    if (!found)
      found = held_to(HeldTo::own_arithmetic, "O");
    if (!found)
      found = held_to(HeldTo::any_kernel, kCarries);
    if (!found)
      found = held_to(HeldTo::own_arithmetic, kCarries);
    if (!found)
      return {};
    const std::vector<Suspect> suspects = names(*found);
    if (!suspects.empty())
      found->kind.name = suspects.front().name;
    return found;
  }

  /// The run, if it is wrong in this way.
  std::optional<WrongRun> like(const FaultKind& kind) {
    if (declined_ || failure_.empty() == kind.failed())
      return {};
    if (kind.failed())
      return failure_ == kind.how ? std::optional(failed()) : std::nullopt;
    truth_ = reference::certify(problem_);
    if (kind.output != "O" &&
        (held_to(HeldTo::any_kernel, "O") || held_to(HeldTo::own_arithmetic, "O")))
      return {};
    std::optional<WrongRun> found = held_to(kind.held_to, kind.output);
    if (!found || found->kind.how != kind.how)
      return {};
    if (!kind.name.empty()) {
      const std::vector<Suspect> suspects = names(*found);
      if (std::ranges::find(suspects, kind.name, &Suspect::name) == suspects.end())
        return {};
      found->kind.name = kind.name;
    }
    return found;
  }

private:
  static constexpr const char* kCarries = "l, m";

  WrongRun failed() {
    WrongRun run;
    run.kind.how = failure_;
    run.truth = reference::certify(problem_);
    run.bounds = bounds_for(HeldTo::any_kernel);
    return run;
  }

  const Bounds& bounds_for(HeldTo which) {
    std::optional<Bounds>& bounds = which == HeldTo::any_kernel ? widest_ : own_;
    if (!bounds) {
      kernels::Arithmetic arithmetic = kernel_.arithmetic;
      arithmetic.known = arithmetic.known && which == HeldTo::own_arithmetic;
      bounds = online_softmax(problem_, arithmetic);
    }
    return *bounds;
  }

  std::optional<WrongRun> held_to(HeldTo which, const std::string& output) {
    if (which == HeldTo::own_arithmetic && !kernel_.arithmetic.known)
      return {};
    if (output != "O" && !kernel_.gives_l_and_m)
      return {};
    const Bounds& bounds = bounds_for(which);
    Verdict verdict = judge(problem_, state_, truth_, bounds, output != "O");
    if (!is_wrong(verdict))
      return {};
    return WrongRun{{output, verdict.why, "", which}, state_, truth_, bounds, std::move(verdict)};
  }

  /// As diagnose() would name it, by the bounds of the kernel's own arithmetic.
  std::vector<Suspect> names(const WrongRun& run) {
    const Bounds& bounds = bounds_for(HeldTo::own_arithmetic);
    return suspects_of(problem_, kernel_, {state_, truth_, bounds, run.verdict});
  }

  const Problem& problem_;
  const Kernel& kernel_;
  State state_;
  std::string failure_;
  std::exception_ptr declined_;
  reference::Truth truth_;
  std::optional<Bounds> widest_, own_;
};

// ---------------------------------------------------------------------------------------------------
// Parts of a problem
// ---------------------------------------------------------------------------------------------------

enum class Part { heads, rows, keys, components, columns };
constexpr Part kParts[] = {Part::heads, Part::rows, Part::keys, Part::components, Part::columns};

std::int64_t extent(const reference::Shape& shape, Part part) {
  switch (part) {
  case Part::heads:
    return shape.batch_heads;
  case Part::rows:
    return shape.n_q;
  case Part::keys:
    return shape.n_kv;
  case Part::components:
    return shape.d;
  case Part::columns:
    break;
  }
  return shape.dv;
}

Indices all_of(std::int64_t count) {
  Indices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

Tensor<float> gathered(const Tensor<float>& from, const Indices& heads, const Indices& rows,
                       const Indices& columns) {
  Tensor<float> to(std::ssize(heads), std::ssize(rows), std::ssize(columns));
  float* at = to.data();
  for (const std::int64_t bh : heads)
    for (const std::int64_t r : rows)
      for (const std::int64_t c : columns)
        *at++ = from(bh, r, c);
  return to;
}

Problem with_only(const Problem& problem, Part part, const Indices& kept) {
  const auto indices = [&](Part one) {
    return one == part ? kept : all_of(extent(problem.shape, one));
  };
  const Indices heads = indices(Part::heads), rows = indices(Part::rows),
                keys = indices(Part::keys), components = indices(Part::components),
                columns = indices(Part::columns);
  return {{std::ssize(heads), std::ssize(rows), std::ssize(keys), std::ssize(components),
           std::ssize(columns)},
          problem.scale,
          gathered(problem.Q, heads, rows, components),
          gathered(problem.K, heads, keys, components),
          gathered(problem.V, heads, keys, columns)};
}

/// Entry number i of Q, then K, then V.
float& entry(Problem& problem, std::int64_t i) {
  for (Tensor<float>* tensor : {&problem.Q, &problem.K}) {
    if (i < tensor->size())
      return tensor->data()[i];
    i -= tensor->size();
  }
  return problem.V.data()[i];
}

bool is_plus_zero(float x) { return std::bit_cast<std::uint32_t>(x) == 0; }

Indices entries_not_zero(Problem problem) {
  Indices found;
  const std::int64_t count = problem.Q.size() + problem.K.size() + problem.V.size();
  for (std::int64_t i = 0; i < count; ++i)
    if (!is_plus_zero(entry(problem, i)))
      found.push_back(i);
  return found;
}

// ---------------------------------------------------------------------------------------------------
// Short values
// ---------------------------------------------------------------------------------------------------

constexpr int kBits = 24;

/// Smaller is simpler: significant bits, distance of the exponent from that of 1, sign.
std::tuple<int, int, bool> length_of(float x) {
  if (!std::isfinite(x))
    return {kBits + 1, 0, std::signbit(x)};
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(x), &exponent);
  const auto whole = static_cast<std::uint32_t>(std::ldexp(fraction, kBits));
  const int bits = whole == 0 ? 0 : kBits - std::countr_zero(whole);
  return {bits, std::abs(exponent - 1), std::signbit(x)};
}

/// To so many significant bits.
float rounded(float x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(double{x}, &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits));
}

// ---------------------------------------------------------------------------------------------------
// Shrinking
// ---------------------------------------------------------------------------------------------------

class Shrinker {
public:
  Shrinker(const Problem& problem, const Kernel& kernel, const ShrinkLimits& limits,
           const OnShrunk& on_shrunk)
      : kernel_(kernel), limits_(limits), on_shrunk_(on_shrunk), problem_(problem) {}

  std::optional<Shrunk> shrink() {
    Inquiry inquiry(problem_, kernel_);
    inquiry.require_answer();
    std::optional<WrongRun> first = inquiry.any();
    if (!first)
      return {};
    runs_ = 1;
    run_ = std::move(*first);
    if (!run_.kind.failed()) {
      jump();
      go_back();
    }
    for (bool smaller = true; smaller && !spent();) {
      const std::int64_t before = steps_;
      for (const Part part : kParts)
        reduce(part);
      zero_entries();
      shorten_all();
      shorten_each();
      smaller = steps_ > before;
      complete_ = !smaller;
    }
    return Shrunk{std::move(problem_), std::move(run_), runs_, complete_};
  }

private:
  bool spent() const { return runs_ >= limits_.runs; }

  /// Takes the candidate if it is wrong in the same way.
  bool take(Problem candidate) {
    if (spent())
      return false;
    ++runs_;
    std::optional<WrongRun> found = Inquiry(candidate, kernel_).like(run_.kind);
    if (on_shrunk_)
      on_shrunk_(found ? candidate : problem_, runs_);
    if (!found)
      return false;
    problem_ = std::move(candidate);
    run_ = std::move(*found);
    ++steps_;
    return true;
  }

  /// The worst element's head and row alone, where alone they are wrong: saves most of the work.
  void jump() {
    const Element worst = run_.verdict.worst;
    const Indices head{worst.batch_head}, row{worst.row};
    if (problem_.shape.batch_heads * problem_.shape.n_q > 1)
      take(with_only(with_only(problem_, Part::heads, head), Part::rows, row));
  }

  /// Where NaN or Inf are left of a number: to the keys with which the rows first go wrong, however they do.
  void go_back() {
    if (!std::isfinite(run_.verdict.worst.truth.hi) || std::isfinite(run_.verdict.worst.got))
      return;
    const Problem whole = problem_;
    std::int64_t right = 0, wrong = whole.shape.n_kv;
    while (wrong - right > 1 && !spent()) {
      const std::int64_t middle = right + (wrong - right) / 2;
      Problem candidate = reference::slice_keys(whole, 0, middle);
      std::optional<WrongRun> found = Inquiry(candidate, kernel_).any();
      ++runs_;
      (found ? wrong : right) = middle;
      if (found && !found->kind.failed() && found->kind.output == run_.kind.output &&
          (run_.kind.name.empty() || found->kind.name == run_.kind.name)) {
        problem_ = std::move(candidate);
        run_ = std::move(*found);
      }
    }
  }

  /// `kept` as short as `attempt` allows, and no shorter than `least`.
  void reduce(Indices kept, std::int64_t least,
              const std::function<bool(const Indices&)>& attempt) {
    const auto count = [&] { return std::ssize(kept); };
    // Pieces are powers of two: those of an odd number of keys must not all be odd, or a tail would go.
    const auto largest_piece = [&] {
      return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count() - 1)));
    };
    // One part of two, as long as one of them is enough.
    for (bool halved = true; halved && count() > 1;) {
      const auto middle = kept.begin() + largest_piece();
      halved = false;
      for (Indices half : {Indices(kept.begin(), middle), Indices(middle, kept.end())})
        if (!halved && attempt(half)) {
          kept = std::move(half);
          halved = true;
        }
    }
    // All but a piece.
    for (std::int64_t piece = count() > 1 ? largest_piece() : 1; piece >= 1; piece /= 2)
      for (std::int64_t start = 0; start < count();) {
        const std::int64_t end = std::min(count(), start + piece);
        Indices rest(kept.begin(), kept.begin() + start);
        rest.insert(rest.end(), kept.begin() + end, kept.end());
        if (std::ssize(rest) >= least && attempt(rest))
          kept = std::move(rest);
        else
          start += count() <= kFew ? 1 : piece;
      }
  }

  void reduce(Part part) {
    const std::int64_t count = extent(problem_.shape, part);
    if (count < 2)
      return;
    const Problem whole = problem_;
    reduce(all_of(count), 1,
           [&](const Indices& kept) { return take(with_only(whole, part, kept)); });
  }

  void zero_entries() {
    const Problem whole = problem_;
    const Indices all = entries_not_zero(whole);
    const auto attempt = [&](const Indices& kept) {
      Problem candidate = whole;
      for (const std::int64_t i : all)
        if (!std::ranges::binary_search(kept, i))
          entry(candidate, i) = 0.0f;
      return take(std::move(candidate));
    };
    if (!all.empty() && !attempt({}))
      reduce(all, 0, attempt);
  }

  /// Every value at once: saves runs where many are left.
  void shorten_all() {
    for (const int bits : {1, 2, 4, 8, 16}) {
      Problem candidate = problem_;
      bool changed = false;
      for (const std::int64_t i : entries_not_zero(problem_)) {
        float& x = entry(candidate, i);
        const float y = std::isfinite(x) ? rounded(x, bits) : x;
        if (std::isfinite(y) && y != x) {
          x = y;
          changed = true;
        }
      }
      if (changed && take(std::move(candidate)))
        return;
    }
  }

  void shorten_each() {
    const auto shorten = [&](auto&& place) {
      for (const float x : shorter(place(problem_))) {
        Problem candidate = problem_;
        place(candidate) = x;
        if (take(std::move(candidate)))
          return;
      }
    };
    shorten([](Problem& problem) -> float& { return problem.scale; });
    for (const std::int64_t i : entries_not_zero(problem_))
      shorten([i](Problem& problem) -> float& { return entry(problem, i); });
  }

  const Kernel& kernel_;
  ShrinkLimits limits_;
  const OnShrunk& on_shrunk_;
  Problem problem_;
  WrongRun run_;
  std::int64_t runs_ = 0, steps_ = 0;
  bool complete_ = false;
};

} // namespace

std::string to_string(const FaultKind& kind) {
  if (kind.failed())
    return "the kernel fails: " + kind.how;
  return fmt::format("{}: {}{}", kind.output, kind.how,
                     kind.name.empty() ? "" : "; looks like " + kind.name);
}

std::optional<WrongRun> wrong_run(const Problem& problem, const Kernel& kernel) {
  return Inquiry(problem, kernel).any();
}

std::optional<Shrunk> shrink(const Problem& problem, const Kernel& kernel,
                             const ShrinkLimits& limits, const OnShrunk& on_shrunk) {
  return Shrinker(problem, kernel, limits, on_shrunk).shrink();
}

std::vector<float> shorter(float x) {
  std::vector<float> candidates{1.0f, -1.0f};
  if (std::isfinite(x))
    for (int bits = 1; bits < kBits; ++bits) {
      candidates.push_back(rounded(x, bits));
      candidates.push_back(-rounded(x, bits));
    }
  if (std::isfinite(x) && std::fabs(x) < 0x1p24f) // whole numbers; their halves are short already
    candidates.push_back(std::nearbyint(x));
  std::erase_if(candidates, [x](float y) {
    return y == 0.0f || !std::isfinite(y) || !(length_of(y) < length_of(x));
  });
  std::ranges::stable_sort(candidates, {}, length_of);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  return candidates;
}

} // namespace fa1::numerics
