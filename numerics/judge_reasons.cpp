#include "numerics/judge_reasons.hpp"

#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

namespace fa1::numerics {
namespace {

using reference::FileError;
using reference::Problem;
using reference::State;
using reference::Tensor;
using reference::Truth;

// ---------------------------------------------------------------------------------------------------
// NaN and Inf
// ---------------------------------------------------------------------------------------------------

std::vector<double> row_of(const Heads& heads, std::int64_t batch, std::int64_t head,
                           std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(heads.columns));
  read_rows(heads, batch, head, std::span(&row, 1), values);
  return values;
}

/// What of the inputs of one element of O can make it NaN or Inf.
struct Causes {
  std::vector<std::string> found;
  double largest_dot = 0.0, largest_value = 0.0;
};

Causes causes_of(const Quartet& files, const Mask& mask, const Place& at) {
  Causes causes;
  const Runs permitted = mask.permitted(at.batch, at.head, at.row);
  if (permitted.empty()) {
    causes.found.emplace_back("the softmax of no score: its row has no permitted key");
    return causes;
  }
  const std::int64_t kv_head = at.head / files.group();
  const auto say = [&](const char* tensor, std::int64_t head, std::int64_t row, std::int64_t column,
                       double value, const char* reaches) {
    causes.found.push_back(fmt::format(
        "{}{} is {}: {}", tensor, to_string(Place{at.batch, head, row, column}), value, reaches));
  };
  const std::vector<double> q = row_of(files.Q, at.batch, at.head, at.row);
  for (std::size_t i = 0; i < q.size(); ++i)
    if (!std::isfinite(q[i])) {
      say("Q", at.head, at.row, static_cast<std::int64_t>(i), q[i], "it reaches this row");
      break;
    }
  bool said_K = false, said_V = false;
  for (std::int64_t j = 0; j < files.K.rows; ++j) {
    const std::vector<double> k = row_of(files.K, at.batch, kv_head, j);
    const bool forbidden = !contains(permitted, j);
    double dot = 0.0;
    for (std::size_t i = 0; i < k.size(); ++i) {
      if (!std::isfinite(k[i]) && !std::exchange(said_K, true))
        say("K", kv_head, j, static_cast<std::int64_t>(i), k[i],
            forbidden ? "the mask forbids that key, but NaN or Inf + -inf is NaN"
                      : "it reaches every row that may see the key");
      dot += std::fabs(q[i] * k[i]);
    }
    causes.largest_dot = std::max(causes.largest_dot, dot);
    const double v = row_of(files.V, at.batch, kv_head, j)[static_cast<std::size_t>(at.column)];
    if (!std::isfinite(v) && !std::exchange(said_V, true))
      say("V", kv_head, j, at.column, v,
          forbidden ? "the mask forbids that key, but 0 times NaN or Inf is NaN"
                    : "it reaches this column of every row that may see the key");
    causes.largest_value = std::max(causes.largest_value, std::fabs(v));
  }
  return causes;
}

// ---------------------------------------------------------------------------------------------------
// Other readings of the files
// ---------------------------------------------------------------------------------------------------

/// What a row without a permitted key gets in the place of its convention.
enum class InEmptyRow : std::uint8_t { nothing, attention, mean };

struct Reading {
  std::string says;
  JudgeInput input;
  MaskOptions mask;
  Layout layout = Layout::bhnd;
  bool interleaved = false;                      ///< query head h meets KV head h mod KV heads
  bool transposed = false;                       ///< head and row of an element change places
  InEmptyRow in_empty_row = InEmptyRow::nothing; ///< of every key
};

/// The same bytes read as if the last two axes were stored the other way.
reference::Array strides_ignored(reference::Array array) {
  const std::size_t rank = array.shape.size();
  auto& a = array.strides[rank - 2];
  auto& b = array.strides[rank - 1];
  const std::int64_t item = std::min(a, b);
  const bool rows_fastest = a < b;
  a = rows_fastest ? item * array.shape[rank - 1] : item;
  b = rows_fastest ? item : item * array.shape[rank - 2];
  return array;
}

std::vector<Reading> other_readings(const Case& judged, const Place& worst) {
  const JudgeInput& input = judged.input;
  const Quartet& files = judged.files;
  const Layout layout = judged.layout;
  std::vector<Reading> readings;
  const auto add = [&](std::string says) -> Reading& {
    readings.push_back({std::move(says), judged.input, judged.asked, judged.layout});
    return readings.back();
  };
  if (input.Q.shape.size() == 4) {
    const bool heads_first = layout == Layout::bhnd;
    Reading& other =
        add(fmt::format("the layout is [{}]: it is right with --layout {}",
                        heads_first ? "b, n, h, d" : "b, h, n, d", heads_first ? "bnhd" : "bhnd"));
    other.layout = heads_first ? Layout::bnhd : Layout::bhnd;
    other.transposed = true;
  }
  if (files.group() > 1 && files.K.heads > 1)
    add("KV heads are shared the other way: query head h meets KV head h mod the number of KV "
        "heads")
        .interleaved = true;
  const auto exchanged = [&](const char* names, auto&& exchange) {
    exchange(
        add(fmt::format("{} have changed places: it is right with them exchanged", names)).input);
  };
  exchanged("Q and K", [](JudgeInput& x) { std::swap(x.Q, x.K); });
  exchanged("K and V", [](JudgeInput& x) { std::swap(x.K, x.V); });
  exchanged("Q and V", [](JudgeInput& x) { std::swap(x.Q, x.V); });
  const auto ignored = [&](const char* name, reference::Array JudgeInput::*which) {
    JudgeInput& x = add(fmt::format("the strides of {} were ignored: its last two axes are read as "
                                    "if they were stored the other way",
                                    name))
                        .input;
    x.*which = strides_ignored(x.*which);
  };
  if (layout == Layout::bhnd || input.Q.shape.size() < 4) {
    ignored("Q", &JudgeInput::Q);
    ignored("K", &JudgeInput::K);
    ignored("V", &JudgeInput::V);
  }
  for (OtherMask& other : other_masks(judged.mask))
    add(std::move(other.says)).mask = std::move(other.options);
  if (judged.mask.permitted(worst.batch, worst.head, worst.row).empty()) {
    const bool zero = judged.asked.empty_row == EmptyRow::zero;
    add(fmt::format("a row without a permitted key is {}: it is right with --empty-row {}",
                    zero ? "NaN" : "0", zero ? "nan" : "zero"))
        .mask.empty_row = zero ? EmptyRow::nan : EmptyRow::zero;
    add("forbidden scores get a finite number instead of -inf: where no key is permitted, the "
        "softmax undoes it and the row attends to every key")
        .in_empty_row = InEmptyRow::attention;
    add("forbidden scores get a finite number, such as -FLT_MAX, beside which the scores vanish: "
        "where no key is permitted, the row is the mean of V")
        .in_empty_row = InEmptyRow::mean;
  }
  return readings;
}

/// The ends, the middle and their neighbours.
std::set<std::int64_t> some_of(std::int64_t count) {
  std::set<std::int64_t> some;
  for (const std::int64_t at :
       {std::int64_t{0}, std::int64_t{1}, count / 4, count / 2, count - 2, count - 1})
    if (at >= 0 && at < count)
      some.insert(at);
  return some;
}

/// Is every row asked right? The worst one is among them. A row that has no permitted key only in this reading tells
/// nothing: its convention is unknown.
bool explains(const Reading& reading, const Case& judged, std::size_t output, const Place& worst) {
  Quartet files;
  std::optional<Mask> mask;
  try {
    files = quartet_of(reading.input, reading.layout);
    mask.emplace(reading.mask,
                 Mask::Extents{files.Q.batches, files.Q.heads, files.Q.rows, files.K.rows});
  } catch (const FileError&) {
    return false;
  }
  Place at = worst;
  if (reading.transposed)
    std::swap(at.head, at.row);
  const Heads& O = files.O[output];
  std::vector<Place> places{at};
  for (const std::int64_t h : {std::int64_t{0}, O.heads / 2, O.heads - 1})
    for (const std::int64_t r : some_of(O.rows))
      places.push_back({at.batch, h, r, 0});
  const bool same_places = !reading.transposed;
  bool differs = false;
  std::int64_t ignored = 0;
  for (const Place& place : places) {
    Runs runs = mask->permitted(place.batch, place.head, place.row);
    const Runs usual =
        same_places ? judged.mask.permitted(place.batch, place.head, place.row) : runs;
    if (runs.empty() && !usual.empty())
      continue;
    const bool filled = runs.empty() && reading.in_empty_row != InEmptyRow::nothing;
    if (filled)
      runs = {{0, files.K.rows}};
    differs = differs || reading.mask.changes_scores() || runs != usual ||
              (place.row == at.row && place.head == at.head);
    const std::int64_t kv =
        reading.interleaved ? place.head % files.K.heads : place.head / files.group();
    const bool plain_mean = filled && reading.in_empty_row == InEmptyRow::mean;
    Problem whole;
    whole.shape = {1, 1, files.K.rows, files.Q.columns, files.V.columns};
    whole.scale = plain_mean ? 0.0f : judged.scale;
    whole.Q = read_floats(files.Q, place.batch, place.head, std::span(&place.row, 1), ignored);
    whole.K = read_floats(files.K, place.batch, kv, all_rows(files.K.rows), ignored);
    whole.V = read_floats(files.V, place.batch, kv, all_rows(files.V.rows), ignored);
    const Problem problem = with_keys(whole, runs);
    State state = reference::start_state(problem.shape);
    state.O = read_floats(O, place.batch, place.head, std::span(&place.row, 1), ignored);
    const ScoreChange change = plain_mean ? ScoreChange{}
                                          : change_of(*mask, place.batch, std::span(&place.head, 1),
                                                      std::span(&place.row, 1), runs, judged.scale);
    const Truth truth = certify(problem, change, reading.mask.empty_row);
    const Judgement judgement =
        judge(problem, state, truth, judged.bounds_of(problem, truth, change), false).judgement;
    if (judgement == Judgement::proved_wrong || judgement == Judgement::undecided)
      return false;
  }
  return differs;
}

// ---------------------------------------------------------------------------------------------------
// Known faults
// ---------------------------------------------------------------------------------------------------

BoundsOf unchanged(const Case& judged) {
  return [&](const Problem& problem, const Truth& truth) {
    return judged.bounds_of(problem, truth, {});
  };
}

template <class Number>
void copy_head(const Tensor<Number>& from, Tensor<Number>& to, std::int64_t head) {
  for (std::int64_t r = 0; r < from.rows(); ++r)
    std::ranges::copy(from.row(0, r), to.row(head, r).begin());
}

/// Rows of a head that may see the same keys, as one problem.
std::vector<std::string> known_faults_under(const Case& judged, std::size_t output,
                                            const Judged& worst) {
  constexpr std::size_t kMostRows = 64;
  const Quartet& files = judged.files;
  const Place& at = worst.at;
  const Runs runs = judged.mask.permitted(at.batch, at.head, at.row);
  const std::int64_t columns = files.Q.columns + files.V.columns;
  if (runs.empty() || judged.asked.changes_scores() ||
      files.K.rows > kDiagnosisEntries / std::max<std::int64_t>(1, columns))
    return {};
  std::vector<std::int64_t> rows{at.row};
  for (std::int64_t r = 0; r < files.Q.rows && rows.size() < kMostRows; ++r)
    if (r != at.row && judged.mask.permitted(at.batch, at.head, r) == runs)
      rows.push_back(r);
  const std::int64_t kv = at.head / files.group();
  std::int64_t ignored = 0;
  Problem whole;
  whole.shape = {1, static_cast<std::int64_t>(rows.size()), files.K.rows, files.Q.columns,
                 files.V.columns};
  whole.scale = judged.scale;
  whole.Q = read_floats(files.Q, at.batch, at.head, rows, ignored);
  whole.K = read_floats(files.K, at.batch, kv, all_rows(files.K.rows), ignored);
  whole.V = read_floats(files.V, at.batch, kv, all_rows(files.V.rows), ignored);
  const Problem problem = with_keys(whole, runs);
  State state = reference::start_state(problem.shape);
  state.O = read_floats(files.O[output], at.batch, at.head, rows, ignored);
  std::vector<std::string> says;
  for (const Suspect& suspect : suspects_of(problem, state, false, {}, unchanged(judged)))
    if (suspect.name != "causal") // its rows are others here
      says.push_back(to_string(suspect));
  return says;
}

/// Heads as one problem, KV heads repeated where they are shared; the worst head alone where all are too many.
std::vector<std::string> known_faults(const Quartet& files, std::size_t output, const Judged& worst,
                                      float scale, bool base2_LSE, const BoundsOf& bounds_of) {
  const Heads& Q = files.Q;
  const std::int64_t of_head =
      Q.rows * (Q.columns + files.V.columns) + files.K.rows * (Q.columns + files.V.columns);
  const bool all = Q.batches * Q.heads <= kDiagnosisEntries / std::max<std::int64_t>(1, of_head);
  if (!all && of_head > kDiagnosisEntries)
    return {"not searched for known faults: a head has more than 2^24 numbers"};
  const std::int64_t heads = all ? Q.batches * Q.heads : 1;
  Problem problem;
  problem.shape = {heads, Q.rows, files.K.rows, Q.columns, files.V.columns};
  problem.scale = scale;
  problem.Q = Tensor<float>(heads, Q.rows, Q.columns);
  problem.K = Tensor<float>(heads, files.K.rows, Q.columns);
  problem.V = Tensor<float>(heads, files.K.rows, files.V.columns);
  State state = reference::start_state(problem.shape);
  const bool with_LSE = files.LSE && output == 0;
  std::int64_t ignored = 0;
  Element element;
  element.row = worst.at.row;
  for (std::int64_t at = 0; at < heads; ++at) {
    const std::int64_t b = all ? at / Q.heads : worst.at.batch;
    const std::int64_t h = all ? at % Q.heads : worst.at.head;
    const std::int64_t kv = h / files.group();
    if (b == worst.at.batch && h == worst.at.head)
      element.batch_head = at;
    copy_head(read_floats(Q, b, h, all_rows(Q.rows), ignored), problem.Q, at);
    copy_head(read_floats(files.K, b, kv, all_rows(files.K.rows), ignored), problem.K, at);
    copy_head(read_floats(files.V, b, kv, all_rows(files.V.rows), ignored), problem.V, at);
    copy_head(read_floats(files.O[output], b, h, all_rows(Q.rows), ignored), state.O, at);
    if (with_LSE) {
      const Tensor<float> lse = read_floats(*files.LSE, b, h, all_rows(Q.rows), ignored);
      for (std::int64_t r = 0; r < Q.rows; ++r) {
        const auto row = static_cast<std::size_t>(at * Q.rows + r);
        state.m[row] = base2_LSE ? lse(0, r, 0) * std::numbers::ln2_v<float> : lse(0, r, 0);
        state.l[row] = 1.0f;
      }
    }
  }
  std::vector<std::string> says;
  for (const Suspect& suspect : suspects_of(problem, state, with_LSE, element, bounds_of))
    says.push_back(to_string(suspect) + (suspect.name == "LSE_in_base_two" && !base2_LSE
                                             ? "; --base2-lse reads it so"
                                             : ""));
  return says;
}

} // namespace

std::vector<std::string> triage(const Quartet& files, const Mask& mask, reference::Dtype output,
                                const NotFinite& O, const NotFinite& Q, const NotFinite& K,
                                const NotFinite& V) {
  std::vector<std::string> says;
  const auto count = [&](const char* name, const NotFinite& found) {
    if (found.count > 0)
      says.push_back(fmt::format("{} holds {} NaN or Inf, the first at {}: {}", name, found.count,
                                 to_string(*found.first), found.value));
  };
  count("O", O);
  count("Q", Q);
  count("K", K);
  count("V", V);
  if (O.count == 0)
    return says;
  const Causes causes = causes_of(files, mask, *O.first);
  for (const std::string& cause : causes.found)
    says.push_back("it can come from " + cause);
  if (!causes.found.empty())
    return says;
  constexpr double kFloatMax = std::numeric_limits<float>::max();
  if (causes.largest_dot >= kFloatMax)
    says.push_back(fmt::format("it can come from the scores: sum |q k| reaches {:.3g} in its row, "
                               "beyond fp32",
                               causes.largest_dot));
  else if (causes.largest_value * static_cast<double>(files.K.rows) >= kFloatMax)
    says.push_back(fmt::format("it can come from sum p v: {} keys with |v| up to {:.3g} in its "
                               "column reach beyond fp32",
                               files.K.rows, causes.largest_value));
  else if (const Format& format = format_of(format_of(output));
           causes.largest_value > format.largest())
    says.push_back(fmt::format("it can come from the output's format: |v| reaches {:.6g} in its "
                               "column, the largest number of {} is {:.6g}",
                               causes.largest_value, format.id, format.largest()));
  else
    says.emplace_back("no input of this element is NaN or Inf, and nothing overflows fp32: the "
                      "kernel made it");
  return says;
}

std::vector<std::string> reasons(const Case& judged, std::size_t output, const Judged& worst) {
  std::vector<std::string> says;
  if (worst.output == "O")
    for (const Reading& reading : other_readings(judged, worst.at))
      if (explains(reading, judged, output, worst.at))
        says.push_back(reading.says);
  if (says.empty() && judged.asked.any())
    says = known_faults_under(judged, output, worst);
  else if (says.empty() && judged.files.K.rows > 0)
    says = known_faults(judged.files, output, worst, judged.scale, judged.base2_LSE,
                        unchanged(judged));
  if (says.empty())
    says.emplace_back(kNoKnownPattern);
  return says;
}

} // namespace fa1::numerics
