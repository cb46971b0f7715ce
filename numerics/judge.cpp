#include "numerics/judge.hpp"

#include "numerics/emulation.hpp"
#include "numerics/judge_files.hpp"
#include "numerics/judge_map.hpp"
#include "numerics/judge_reasons.hpp"
#include "numerics/judge_sums.hpp"
#include "numerics/masks.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/finite.hpp"
#include "reference/parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>
#include <utility>

namespace fa1::numerics {
namespace {

using reference::Dtype;
using reference::Problem;
using reference::State;
using reference::Tensor;
using reference::Truth;

// ---------------------------------------------------------------------------------------------------
// Formats
// ---------------------------------------------------------------------------------------------------

double ulp_of(Dtype dtype, double x) {
  if (!std::isfinite(x))
    return std::numeric_limits<double>::quiet_NaN();
  if (dtype == Dtype::f64)
    return std::ldexp(1.0, std::max(x == 0.0 ? -1022 : std::ilogb(x), -1022) - 52);
  const Format& format = numerics::format_of(format_of(dtype));
  const int exponent = x == 0.0 ? format.least_exponent() : std::ilogb(x);
  return std::ldexp(1.0, std::max(exponent, format.least_exponent()) - format.fraction_bits);
}

const Declared& guessed(const JudgeInput& input) {
  // The fewest bits decide: products take the coarser operand.
  FormatId coarsest = FormatId::fp32;
  for (const reference::Array* array : {&input.Q, &input.K, &input.V}) {
    const FormatId id = format_of(array->dtype);
    if (numerics::format_of(id).fraction_bits < numerics::format_of(coarsest).fraction_bits)
      coarsest = id;
  }
  for (const Declared& declared : all_declared())
    if (declared.inputs == coarsest && !declared.truncates)
      return declared;
  return all_declared().front();
}

/// What rounding f64 inputs to fp32 adds: an input that was rounded already may be rounded again.
void add_rounding(Rounding& of, bool rounded) {
  if (!rounded)
    return;
  of.relative = (1.0 + of.relative) * (1.0 + kU) - 1.0;
  of.tiny += 0x1p-149;
}

// ---------------------------------------------------------------------------------------------------
// Judging
// ---------------------------------------------------------------------------------------------------

struct RowOf {
  std::int64_t head, row; ///< query head
};

class Trial {
public:
  Trial(const Quartet& files, const JudgeOptions& options, float scale, const Declared& declared,
        const Mask& mask, const JudgeWatch& watch)
      : files_(files), options_(options), scale_(scale), declared_(declared), mask_(mask),
        watch_(watch) {
    for (const Heads& O : files.O)
      outputs_.emplace_back(O.array.name);
  }

  /// The rows are judged in problems of those that may see the same keys and whose q is finite, and of the others: a
  /// NaN in one row excuses no other.
  void judge(std::int64_t batch, std::int64_t kv_head, const std::vector<RowOf>& rows) {
    Problem whole;
    whole.shape = {1, 0, files_.K.rows, files_.Q.columns, files_.V.columns};
    whole.scale = scale_;
    std::int64_t rounded_K = 0, rounded_V = 0;
    whole.K = read_floats(files_.K, batch, kv_head, all_rows(files_.K.rows), rounded_K);
    whole.V = read_floats(files_.V, batch, kv_head, all_rows(files_.V.rows), rounded_V);
    rounded_inputs_[1] += rounded_K;
    rounded_inputs_[2] += rounded_V;
    std::map<std::pair<bool, Runs>, std::vector<RowOf>> alike;
    for (const RowOf& row : rows) {
      std::int64_t ignored = 0;
      const Tensor<float> q =
          read_floats(files_.Q, batch, row.head, std::span(&row.row, 1), ignored);
      Runs runs = mask_.permitted(batch, row.head, row.row);
      empty_rows_ += runs.empty() ? 1 : 0;
      alike[{!reference::all_finite(q.elements()), std::move(runs)}].push_back(row);
    }
    const auto fill = [&](Part& part, Problem problem, const Runs& runs, std::vector<RowOf> some) {
      part.problem = std::move(problem);
      part.rows = std::move(some);
      part.problem.shape.n_q = static_cast<std::int64_t>(part.rows.size());
      part.rounded = {0, rounded_K, rounded_V};
      part.problem.Q = gather(files_.Q, batch, part.rows, part.rounded[0]);
      rounded_inputs_[0] += part.rounded[0];
      std::vector<std::int64_t> heads, row_numbers;
      for (const RowOf& row : part.rows) {
        heads.push_back(row.head);
        row_numbers.push_back(row.row);
      }
      part.change = change_of(mask_, batch, heads, row_numbers, runs, scale_);
    };
    if (alike.size() == 1 && alike.begin()->first.second == Runs{{0, files_.K.rows}}) {
      std::vector<Part> one(1);
      fill(one[0], std::move(whole), alike.begin()->first.second, std::move(alike.begin()->second));
      judge_parts(one, batch, false);
      return;
    }
    // Many small problems are shared out among the threads, a few at a time; few large ones share the threads.
    const bool many = alike.size() > options_.threads;
    const std::size_t at_once = many ? std::size_t{4} * options_.threads : 1;
    std::vector<Part> parts;
    for (auto& [alike_in, some] : alike) {
      const Runs& runs = alike_in.second;
      fill(parts.emplace_back(), with_keys(whole, runs), runs, std::move(some));
      if (parts.size() == at_once) {
        judge_parts(parts, batch, many);
        parts.clear();
      }
    }
    judge_parts(parts, batch, many);
  }

  Bounds bounds_of(const Problem& problem, const Truth& truth, Dtype output,
                   const std::array<bool, 3>& rounded, bool output_rounded, unsigned threads,
                   const ScoreChange& change) const {
    LowPrecision low = roundings_of(declared_, problem);
    low.keys_visited = files_.K.rows;
    add_rounding(low.q, rounded[0]);
    add_rounding(low.k, rounded[1]);
    add_rounding(low.v, rounded[2]);
    Bounds bounds = low_precision_bound(problem, low, true, threads, change);
    finish_output(bounds, truth, output, output_rounded);
    return bounds;
  }

  std::vector<JudgedOutput> outputs() const {
    std::vector<JudgedOutput> all;
    for (const OutputSums& output : outputs_)
      all.push_back(output.result());
    return all;
  }
  JudgedErrors plain() const { return plain_.result(); }
  RowStatistics rows() const { return rows_.result(); }
  const std::string& truth() const { return method_; }
  const std::array<std::int64_t, 3>& rounded_inputs() const { return rounded_inputs_; }
  std::int64_t rounded_outputs() const { return rounded_outputs_; }
  std::int64_t empty_rows() const { return empty_rows_; }

private:
  static void finish_output(Bounds& bounds, const Truth& truth, Dtype output, bool rounded) {
    round_output(bounds, truth, numerics::format_of(format_of(output)));
    if (rounded) // a double that is no float: half an ulp of the float it became
      for (std::size_t e = 0; e < bounds.O.elements().size(); ++e)
        bounds.O.elements()[e] +=
            kU * (std::fabs(truth.O.elements()[e].hi) + bounds.O.elements()[e]) + 0x1p-149;
  }

  /// Rows of one problem.
  struct Part {
    Problem problem;
    ScoreChange change;
    std::vector<RowOf> rows;
    std::array<std::int64_t, 3> rounded{}; ///< entries of Q, K and V
    Truth truth;
    Bounds bounds;
  };

  /// `many`: each on one thread.
  void judge_parts(std::vector<Part>& parts, std::int64_t batch, bool many) {
    const unsigned threads = many ? 1 : options_.threads;
    reference::in_parallel(parts.size(), options_.threads, [&](std::size_t at) {
      Part& part = parts[at];
      part.truth = certify(part.problem, part.change, options_.mask.empty_row, threads);
      const auto rounded = [&](std::size_t i) { return part.rounded[i] > 0; };
      part.bounds = bounds_of(part.problem, part.truth, Dtype::f32,
                              {rounded(0), rounded(1), rounded(2)}, false, threads, part.change);
    });
    for (const Part& part : parts)
      hear(part, batch);
  }

  void hear(const Part& part, std::int64_t batch) {
    if (method_.empty() || part.problem.shape.n_kv > 0)
      method_ = part.truth.method;
    if (!part.change.any()) { // neither knows of changed scores
      hear_rows(part, batch);
      emulate_plain(part.problem, part.truth, part.bounds);
    }
    for (std::size_t o = 0; o < files_.O.size(); ++o)
      judge_output(o, part.problem, part.truth, part.bounds, batch, part.rows);
    if (files_.LSE)
      judge_LSE(part.problem, part.truth, part.bounds, batch, part.rows);
  }

  void hear_rows(const Part& part, std::int64_t batch) {
    rows_.add(part.problem, part.truth, part.bounds, [&](std::int64_t r, JudgedRow of) {
      const RowOf& row = part.rows[static_cast<std::size_t>(r)];
      of.batch = batch;
      of.head = row.head;
      of.row = row.row;
      if (watch_.row)
        watch_.row(of);
    });
  }

  static Tensor<float> gather(const Heads& heads, std::int64_t batch,
                              const std::vector<RowOf>& rows, std::int64_t& rounded) {
    Tensor<float> out(1, static_cast<std::int64_t>(rows.size()), heads.columns);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Tensor<float> row =
          read_floats(heads, batch, rows[r].head, std::span(&rows[r].row, 1), rounded);
      std::ranges::copy(row.elements(), out.row(0, static_cast<std::int64_t>(r)).begin());
    }
    return out;
  }

  void judge_output(std::size_t which, const Problem& problem, const Truth& truth, Bounds bounds,
                    std::int64_t batch, const std::vector<RowOf>& rows) {
    const Heads& file = files_.O[which];
    State state = reference::start_state(problem.shape);
    std::int64_t rounded = 0;
    state.O = gather(file, batch, rows, rounded);
    rounded_outputs_ += rounded;
    finish_output(bounds, truth, file.array.dtype, rounded > 0);
    const auto element = [&](std::int64_t r, std::int64_t c) {
      const RowOf& row = rows[static_cast<std::size_t>(r)];
      Judged one{"O", {batch, row.head, row.row, c}, double{state.O(0, r, c)}, truth.O(0, r, c)};
      one.bound = bounds.O(0, r, c);
      return measured(one, file.array.dtype);
    };
    const Verdict verdict = numerics::judge(problem, state, truth, bounds, false);
    OutputSums& output = outputs_[which];
    output.hear(verdict, element(verdict.worst.row, verdict.worst.column));
    const Tensor<Judgement> each = judge_each_O(state, truth, bounds);
    for (std::int64_t r = 0; r < problem.shape.n_q; ++r)
      for (std::int64_t c = 0; c < problem.shape.dv; ++c) {
        const Judged one = element(r, c);
        if (each(0, r, c) == Judgement::proved_wrong)
          output.wrong(one);
        if (std::isfinite(one.truth.hi))
          output.add(one, bounds.weighted(0, r, c));
        if (watch_.element)
          watch_.element(which, one);
      }
  }

  /// LSE is judged as an output of one column.
  void judge_LSE(const Problem& problem, const Truth& truth, const Bounds& bounds,
                 std::int64_t batch, const std::vector<RowOf>& rows) {
    const Heads& file = *files_.LSE;
    const Dtype dtype = file.array.dtype;
    Problem narrow{problem.shape, problem.scale, {}, {}, {}};
    narrow.shape.dv = 1;
    Truth lse;
    lse.O = Tensor<reference::Enclosed>(1, problem.shape.n_q, 1);
    std::ranges::copy(truth.LSE, lse.O.data());
    Bounds allowed = bounds;
    allowed.O = allowed.expected = allowed.weighted = Tensor<double>(1, problem.shape.n_q, 1);
    std::ranges::copy(bounds.LSE, allowed.O.data());
    State state = reference::start_state(narrow.shape);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double value = 0.0;
      read_rows(file, batch, rows[r].head, std::span(&rows[r].row, 1), std::span(&value, 1));
      if (options_.base2_LSE)
        value *= std::numbers::ln2;
      state.O.data()[r] = static_cast<float>(value);
      if (double{state.O.data()[r]} != value) // rounded here; twice that with the product
        allowed.O.data()[r] += 2.0 * kU * std::fabs(value) + 0x1p-149;
    }
    round_output(allowed, lse, numerics::format_of(format_of(dtype)));
    const auto element = [&](std::int64_t r) {
      const RowOf& row = rows[static_cast<std::size_t>(r)];
      Judged one{"LSE", {batch, row.head, row.row, 0}, double{state.O(0, r, 0)}, lse.O(0, r, 0)};
      one.bound = allowed.O(0, r, 0);
      return measured(one, dtype);
    };
    const Verdict verdict = numerics::judge(narrow, state, lse, allowed, false);
    outputs_[0].hear(verdict, element(verdict.worst.row));
    const Tensor<Judgement> each = judge_each_O(state, lse, allowed);
    for (std::int64_t r = 0; r < narrow.shape.n_q; ++r)
      if (each(0, r, 0) == Judgement::proved_wrong)
        outputs_[0].wrong(element(r));
  }

  static Judged measured(Judged one, Dtype dtype) {
    const bool same = one.got == one.truth.hi || (std::isnan(one.got) && std::isnan(one.truth.hi));
    one.error =
        same && !std::isfinite(one.truth.hi) ? 0.0 : (one.got - one.truth.hi) - one.truth.lo;
    one.ulps = one.error == 0.0 ? 0.0 : std::fabs(one.error) / ulp_of(dtype, one.truth.hi);
    one.fraction = one.error == 0.0 ? 0.0 : std::fabs(one.error) / one.bound;
    return one;
  }

  /// Scores, softmax of whole rows, then P V, each in the declared arithmetic.
  void emulate_plain(const Problem& problem, const Truth& truth, const Bounds& bounds) {
    if (!bounds.obstacle.empty())
      return;
    const Dtype dtype = files_.O[0].array.dtype;
    Configuration plain;
    const auto set = [&](Stage stage, FormatId format) {
      plain.formats[static_cast<std::size_t>(stage)] = format;
    };
    set(Stage::inputs, declared_.inputs);
    set(Stage::p, declared_.inputs);
    set(Stage::output, format_of(dtype));
    plain.one_tile = plain.normalised = true;
    const std::int64_t Bc = std::max<std::int64_t>(1, problem.shape.n_kv);
    const State state = emulate(prepare(problem, plain, Bc), plain, Bc);
    for (std::int64_t r = 0; r < problem.shape.n_q; ++r)
      for (std::int64_t c = 0; c < problem.shape.dv; ++c) {
        Judged one{"O", {}, double{state.O(0, r, c)}, truth.O(0, r, c)};
        one.bound = bounds.O(0, r, c);
        one = measured(one, dtype);
        if (std::isfinite(one.error))
          plain_.add(one.error, bounds.weighted(0, r, c), one.ulps, one.fraction);
      }
  }

  const Quartet& files_;
  const JudgeOptions& options_;
  float scale_;
  const Declared& declared_;
  const Mask& mask_;
  const JudgeWatch& watch_;
  std::vector<OutputSums> outputs_;
  ErrorSums plain_;
  RowSums rows_;
  std::string method_;
  std::array<std::int64_t, 3> rounded_inputs_{};
  std::int64_t rounded_outputs_ = 0, empty_rows_ = 0;
};

/// So many of [0, count), evenly spaced, first and last among them.
std::vector<std::int64_t> evenly(std::int64_t count, std::int64_t most) {
  if (most >= count)
    return all_rows(count);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < most; ++i)
    rows.push_back(most == 1 ? 0 : i * (count - 1) / (most - 1));
  return rows;
}

constexpr double kWideScore = 16.0; ///< of MPFR, in multiply-adds of certify

std::int64_t rows_of_each_head(const Quartet& files, std::int64_t asked, bool changed_scores) {
  if (asked > 0)
    return asked;
  const double row = static_cast<double>(files.K.rows) *
                     static_cast<double>(files.Q.columns + files.V.columns + 1) *
                     static_cast<double>(files.Q.batches) * static_cast<double>(files.Q.heads);
  return static_cast<std::int64_t>(
      std::clamp(kJudgeWork / std::max(1.0, changed_scores ? kWideScore * row : row), 2.0, 0x1p40));
}

void compare_bits(const Quartet& files, std::size_t which, JudgedOutput& output) {
  const Heads &first = files.O[0], &other = files.O[which];
  std::vector<double> a, b;
  for (std::int64_t batch = 0; batch < first.batches; ++batch)
    for (std::int64_t h = 0; h < first.heads; ++h)
      for (std::int64_t row = 0; row < first.rows; ++row) {
        a.resize(static_cast<std::size_t>(first.columns));
        b.resize(a.size());
        read_rows(first, batch, h, std::span(&row, 1), a);
        read_rows(other, batch, h, std::span(&row, 1), b);
        for (std::size_t c = 0; c < a.size(); ++c) {
          const bool same = std::isnan(a[c]) ? std::isnan(b[c])
                                             : std::bit_cast<std::uint64_t>(a[c]) ==
                                                   std::bit_cast<std::uint64_t>(b[c]);
          if (same)
            continue;
          if (output.bits_differ++ == 0)
            output.first_difference = Place{batch, h, row, static_cast<std::int64_t>(c)};
        }
      }
}

void say_what_was_assumed(const JudgeInput& input, const JudgeOptions& options,
                          const Quartet& files, const Mask& mask, JudgeRecord& record) {
  auto& says = record.assumed;
  const std::size_t rank = input.Q.shape.size();
  if (rank == 2)
    says.emplace_back("layout: [n, d], one head");
  else if (rank == 3)
    says.emplace_back("layout: [bh, n, d]");
  else
    says.push_back(fmt::format("layout: {}{}",
                               options.layout == Layout::bnhd ? "[b, n, h, d]" : "[b, h, n, d]",
                               options.layout ? "" : " (assumed; --layout bnhd is the other)"));
  if (files.group() > 1)
    says.push_back(fmt::format("grouped heads: query heads {} k to {} k + {} meet KV head k",
                               files.group(), files.group(), files.group() - 1));
  says.push_back(
      fmt::format("scale: {:.9g}{}", record.scale,
                  options.scale ? "" : fmt::format(" (assumed: fp32(1/sqrt {}))", record.d)));
  says.push_back(fmt::format("arithmetic: {}: {}{}", record.declared->id, record.declared->says,
                             options.declared == nullptr ? " (guessed from the types)" : ""));
  std::ranges::copy(mask.says(), std::back_inserter(says));
  if (input.LSE)
    says.push_back(options.base2_LSE ? "LSE: to base 2" : "LSE: natural logarithm");
}

/// A complaint about shapes says so where the other layout would fit.
Quartet fitting(const JudgeInput& input, Layout layout) {
  try {
    return quartet_of(input, layout);
  } catch (const reference::FileError& error) {
    const bool heads_first = layout == Layout::bhnd;
    try {
      quartet_of(input, heads_first ? Layout::bnhd : Layout::bhnd);
    } catch (const reference::FileError&) {
      throw error;
    }
    throw reference::FileError(
        fmt::format("{}; --layout {} fits", error.what(), heads_first ? "bnhd" : "bhnd"));
  }
}

} // namespace

bool JudgeRecord::wrong() const {
  return std::ranges::any_of(
      outputs, [](const JudgedOutput& o) { return o.judgement == Judgement::proved_wrong; });
}

std::string to_string(const Place& place) {
  return fmt::format("[{},{},{},{}]", place.batch, place.head, place.row, place.column);
}

JudgeRecord judge_files(const JudgeInput& input, const JudgeOptions& options) {
  return judge_files(input, options, {});
}

JudgeRecord judge_files(const JudgeInput& input, const JudgeOptions& options,
                        const JudgeWatch& watch) {
  const Layout layout = options.layout.value_or(Layout::bhnd);
  const Quartet files = fitting(input, layout);
  JudgeRecord record;
  record.batches = files.Q.batches;
  record.query_heads = files.Q.heads;
  record.kv_heads = files.K.heads;
  record.n_q = files.Q.rows;
  record.n_kv = files.K.rows;
  record.d = files.Q.columns;
  record.dv = files.V.columns;
  record.scale = options.scale.value_or(automatic_scale(record.d));
  record.declared = options.declared == nullptr ? &guessed(input) : options.declared;
  const Mask mask(options.mask, {record.batches, record.query_heads, record.n_q, record.n_kv});
  say_what_was_assumed(input, options, files, mask, record);
  if (watch.begin)
    watch.begin(record, files.O.size());

  const NotFinite in_Q = scan(files.Q), in_K = scan(files.K), in_V = scan(files.V);
  std::vector<NotFinite> in_O;
  std::set<std::array<std::int64_t, 3>> bad_rows;
  for (const Heads& O : files.O) {
    in_O.push_back(scan(O));
    for (const Place& at : in_O.back().rows)
      bad_rows.insert({at.batch, at.head, at.row});
  }

  Trial trial(files, options, record.scale, *record.declared, mask, watch);
  const std::vector<std::int64_t> sample =
      evenly(record.n_q, rows_of_each_head(files, options.rows, options.mask.changes_scores()));
  const auto problems = static_cast<double>(record.batches * record.kv_heads);
  double done = 0.0;
  for (std::int64_t b = 0; b < record.batches; ++b)
    for (std::int64_t g = 0; g < record.kv_heads; ++g) {
      std::vector<RowOf> rows;
      for (std::int64_t h = g * files.group(); h < (g + 1) * files.group(); ++h) {
        std::set<std::int64_t> of_head(sample.begin(), sample.end());
        for (const auto& [batch, head, row] : bad_rows)
          if (batch == b && head == h)
            of_head.insert(row);
        for (const std::int64_t row : of_head)
          rows.push_back({h, row});
      }
      if (!rows.empty())
        trial.judge(b, g, rows);
      record.rows_judged += static_cast<std::int64_t>(rows.size());
      if (options.done)
        options.done(++done / problems);
    }

  record.truth = trial.truth();
  record.empty_rows = trial.empty_rows();
  record.rows = trial.rows();
  record.plain = trial.plain();
  record.outputs = trial.outputs();
  const std::int64_t all = record.batches * record.query_heads * record.n_q;
  record.assumed.push_back(
      record.rows_judged == all
          ? fmt::format("rows: all {}", all)
          : fmt::format("rows: {} of {}, evenly spaced (--rows all judges all)", record.rows_judged,
                        all));
  if (record.empty_rows > 0)
    record.assumed.push_back(fmt::format(
        "{} of these rows have no permitted key: {} is right there (--empty-row {} is the other)",
        record.empty_rows, options.mask.empty_row == EmptyRow::zero ? "O = 0, LSE = -inf" : "NaN",
        options.mask.empty_row == EmptyRow::zero ? "nan" : "zero"));
  for (std::size_t i = 0; i < 3; ++i)
    if (const std::int64_t count = trial.rounded_inputs()[i]; count > 0)
      record.assumed.push_back(
          fmt::format("{}: {} entries are no fp32 numbers; rounded, and the bound covers that",
                      std::array{"Q", "K", "V"}[i], count));
  if (trial.rounded_outputs() > 0)
    record.assumed.push_back(
        fmt::format("O: {} entries are no fp32 numbers; rounded, and the bound covers that",
                    trial.rounded_outputs()));

  for (std::size_t o = 0; o < record.outputs.size(); ++o) {
    JudgedOutput& output = record.outputs[o];
    if (!output.worst)
      output.why = "there is no output element";
    output.not_finite = triage(files, mask, files.O[o].array.dtype, in_O[o], in_Q, in_K, in_V);
    if (o > 0)
      compare_bits(files, o, output);
    if (output.judgement != Judgement::proved_wrong)
      continue;
    const auto bounds_of = [&](const Problem& problem, const Truth& truth,
                               const ScoreChange& change) {
      const auto& rounded = trial.rounded_inputs();
      return trial.bounds_of(problem, truth, files.O[o].array.dtype,
                             {rounded[0] > 0, rounded[1] > 0, rounded[2] > 0},
                             trial.rounded_outputs() > 0, options.threads, change);
    };
    output.looks_like = reasons(
        {input, files, mask, options.mask, layout, record.scale, options.base2_LSE, bounds_of}, o,
        output.wrong_O ? *output.wrong_O : *output.worst);
  }
  return record;
}

} // namespace fa1::numerics
