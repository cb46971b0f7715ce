#include "numerics/judge_reasons.hpp"

#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
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

Causes causes_of(const Quartet& files, const Place& at) {
  Causes causes;
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
    double dot = 0.0;
    for (std::size_t i = 0; i < k.size(); ++i) {
      if (!std::isfinite(k[i]) && !std::exchange(said_K, true))
        say("K", kv_head, j, static_cast<std::int64_t>(i), k[i],
            "it reaches every row of the head");
      dot += std::fabs(q[i] * k[i]);
    }
    causes.largest_dot = std::max(causes.largest_dot, dot);
    const double v = row_of(files.V, at.batch, kv_head, j)[static_cast<std::size_t>(at.column)];
    if (!std::isfinite(v) && !std::exchange(said_V, true))
      say("V", kv_head, j, at.column, v, "it reaches this column of every row");
    causes.largest_value = std::max(causes.largest_value, std::fabs(v));
  }
  return causes;
}

// ---------------------------------------------------------------------------------------------------
// Other readings of the files
// ---------------------------------------------------------------------------------------------------

struct Reading {
  std::string says;
  JudgeInput input;
  Layout layout = Layout::bhnd;
  bool interleaved = false; ///< query head h meets KV head h mod KV heads
  bool transposed = false;  ///< head and row of an element change places
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

std::vector<Reading> other_readings(const JudgeInput& input, const Quartet& files, Layout layout) {
  std::vector<Reading> readings;
  const auto add = [&](std::string says) -> Reading& {
    readings.push_back({std::move(says), input, layout});
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
  return readings;
}

/// Is every row asked right? The worst one is among them.
bool explains(const Reading& reading, std::size_t output, const Place& worst, float scale,
              const BoundsOf& bounds_of) {
  Quartet files;
  try {
    files = quartet_of(reading.input, reading.layout);
  } catch (const FileError&) {
    return false;
  }
  Place at = worst;
  if (reading.transposed)
    std::swap(at.head, at.row);
  const Heads& O = files.O[output];
  std::vector<Place> places{at};
  for (const std::int64_t h : {std::int64_t{0}, O.heads / 2, O.heads - 1})
    for (const std::int64_t r : {std::int64_t{0}, O.rows / 2, O.rows - 1})
      places.push_back({at.batch, h, r, 0});
  std::int64_t ignored = 0;
  for (const Place& place : places) {
    const std::int64_t kv =
        reading.interleaved ? place.head % files.K.heads : place.head / files.group();
    Problem problem;
    problem.shape = {1, 1, files.K.rows, files.Q.columns, files.V.columns};
    problem.scale = scale;
    problem.Q = read_floats(files.Q, place.batch, place.head, std::span(&place.row, 1), ignored);
    problem.K = read_floats(files.K, place.batch, kv, all_rows(files.K.rows), ignored);
    problem.V = read_floats(files.V, place.batch, kv, all_rows(files.V.rows), ignored);
    State state = reference::start_state(problem.shape);
    state.O = read_floats(O, place.batch, place.head, std::span(&place.row, 1), ignored);
    const Truth truth = reference::certify(problem);
    const Judgement judgement =
        judge(problem, state, truth, bounds_of(problem, truth), false).judgement;
    if (judgement == Judgement::proved_wrong || judgement == Judgement::undecided)
      return false;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------
// Known faults
// ---------------------------------------------------------------------------------------------------

template <class Number>
void copy_head(const Tensor<Number>& from, Tensor<Number>& to, std::int64_t head) {
  for (std::int64_t r = 0; r < from.rows(); ++r)
    std::ranges::copy(from.row(0, r), to.row(head, r).begin());
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

std::vector<std::string> triage(const Quartet& files, reference::Dtype output, const NotFinite& O,
                                const NotFinite& Q, const NotFinite& K, const NotFinite& V) {
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
  const Causes causes = causes_of(files, *O.first);
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

std::vector<std::string> reasons(const JudgeInput& input, const Quartet& files, std::size_t output,
                                 const Judged& worst, Layout layout, float scale, bool base2_LSE,
                                 const BoundsOf& bounds_of) {
  std::vector<std::string> says;
  if (worst.output == "O")
    for (const Reading& reading : other_readings(input, files, layout))
      if (explains(reading, output, worst.at, scale, bounds_of))
        says.push_back(reading.says);
  if (says.empty() && files.K.rows > 0)
    says = known_faults(files, output, worst, scale, base2_LSE, bounds_of);
  if (says.empty())
    says.emplace_back(kNoKnownPattern);
  return says;
}

} // namespace fa1::numerics
