/// Somebody else's tensors: is this O the attention of these Q, K and V?
///
/// Computes  judge_files: for every query head and the rows that are asked, the certified truth, the bound of
///           low_precision.hpp for the declared arithmetic and the roundings of the files' own formats, the verdict
///           (verdict.hpp), and what helps to understand it. Several outputs of the same inputs are judged against
///           one truth, and compared with the first bit by bit
/// Shapes    rank 2 [n, d], one head; rank 3 [bh, n, d]; rank 4 [b, h, n, d] (Layout::bhnd) or [b, n, h, d]. Query
///           heads may be a multiple of the KV heads: query head h meets KV head h / (query heads / KV heads). d of V
///           may differ. LSE: the same without the last axis, [b, h, n] whatever the layout, or [b, n, h] where only
///           that fits
/// Masks     masks.hpp: each row is judged in the problem of the keys that it may see
/// Inputs    enter as fp32 numbers. Entries of f64 arrays that are none are rounded to nearest and counted, and the
///           bound covers that rounding, so a kernel that took them either way is judged rightly; beyond the range
///           of fp32 they are refused. The same for f64 outputs
/// Rows      0: of every query head as many, evenly spaced from the first to the last, as kJudgeWork allows; rows
///           whose O holds NaN or Inf come on top (the first kBadRows of them), because every O is looked at
/// Errors    reference::FileError, one line: an array that cannot be read, shapes that do not fit
/// Memory    one head's K and V and its judged rows of Q and O; suspects are looked for in at most
///           kDiagnosisEntries floats
#pragma once

#include "numerics/diagnosis.hpp"
#include "numerics/low_precision.hpp"
#include "numerics/masks.hpp"
#include "numerics/verdict.hpp"
#include "reference/files/array.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fa1::numerics {

inline constexpr double kJudgeWork = 0x1p30; ///< multiply-adds of scores and outputs
inline constexpr std::size_t kBadRows = 64;
inline constexpr std::size_t kWorstShown = 10;
inline constexpr std::int64_t kDiagnosisEntries = std::int64_t{1} << 24;

enum class Layout { bhnd, bnhd };

struct JudgeInput {
  reference::Array Q, K, V;
  std::vector<reference::Array> O; ///< at least one
  std::optional<reference::Array> LSE;
};

struct JudgeOptions {
  std::optional<Layout> layout = {};  ///< bhnd where nothing is said
  std::optional<float> scale = {};    ///< fp32(1/sqrt d) where nothing is said
  const Declared* declared = nullptr; ///< guessed from the arrays' types where nothing is said
  std::int64_t rows = 0; ///< of each query head; 0: see above; more than there are: all
  bool base2_LSE = false;
  MaskOptions mask = {};
  unsigned threads = 1;
  std::function<void(double part)> done = {}; ///< called with what has been done of 1
};

struct Place {
  std::int64_t batch = 0, head = 0, row = 0, column = 0;
};
std::string to_string(const Place& place); ///< `[0,3,17,5]`: batch, query head, row, column

/// An element of O or LSE, in its own precision.
struct Judged {
  std::string output; ///< O or LSE
  Place at;
  double got = 0.0;
  reference::Enclosed truth;
  double error = 0.0, bound = 0.0;
  double ulps = 0.0; ///< of the output's format
  double fraction = 0.0;
};

/// Of O over the judged rows; relative: in u sum p|v|, u = 2^-24.
struct JudgedErrors {
  std::int64_t elements = 0;
  double max_relative = 0.0, rms_relative = 0.0, mean_relative = 0.0;
  double max_ulp = 0.0; ///< of the output's format
  double max_fraction = 0.0;
};

struct JudgedOutput {
  std::string name;
  Judgement judgement = Judgement::proved_right;
  std::string why;               ///< of the worst element
  std::optional<Judged> worst;   ///< the element that decided, else the one closest to its bound
  std::optional<Judged> wrong_O; ///< of O alone, the farthest of those proved wrong
  std::array<std::int64_t, 4> elements{}; ///< in the order of Judgement
  JudgedErrors errors;
  std::vector<Judged> worst_ten;       ///< proved wrong, the farthest from their bound first
  std::vector<std::string> not_finite; ///< NaN triage, one sentence each
  std::vector<std::string> looks_like; ///< a diagnosis in words; empty where nothing is wrong
  std::int64_t bits_differ = 0;        ///< elements that are not those of the first output
  std::optional<Place> first_difference;
};

struct Spread {
  double low = 0.0, median = 0.0, high = 0.0;
};

/// Of the judged rows whose scores are finite.
struct RowStatistics {
  std::int64_t rows = 0;
  Spread max_score;
  Spread entropy;   ///< - sum p ln p, nats
  Spread condition; ///< max over columns of sum p|v| / |o|
};

struct JudgeRecord {
  std::vector<std::string> assumed; ///< one sentence each
  std::int64_t batches = 0, query_heads = 0, kv_heads = 0, n_q = 0, n_kv = 0, d = 0, dv = 0;
  float scale = 1.0f;
  const Declared* declared = nullptr;
  std::int64_t rows_judged = 0; ///< of batches * query_heads * n_q
  std::int64_t empty_rows = 0;  ///< of those judged: no key is permitted
  std::string truth;            ///< how it was made
  RowStatistics rows;
  JudgedErrors plain; ///< of a plain implementation in the declared arithmetic, on the same rows
  std::vector<JudgedOutput> outputs;

  bool wrong() const;
};

JudgeRecord judge_files(const JudgeInput& input, const JudgeOptions& options);

} // namespace fa1::numerics
