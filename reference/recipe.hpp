/// One line of text that makes a Problem, the same on every machine.
///
///     n_q=37 n_kv=1000 d=64 dist=normal sigma=4 order=ascending seed=7
///
/// Keys (all optional; the value in brackets is the default)
///   bh n_q n_kv d dv   extents [1 1 1 1 d]; n_q, n_kv, bh may be 0; d, dv at most 256
///   rows               so many of the n_q query rows, chosen by seed, in their order [all]; the
///                      problem is these rows alone, and that is exact, as rows are independent.
///                      Rows of Q in lists and puts count as if all were there
///   scale              fp32 number, or `auto` = fp32(1/sqrt(d)), 1 for d = 0 [auto]; NaN and Inf
///                      are errors
///   seed               0 .. 2^64 - 1 [1]
///   recorded           a head of a real model, by its name (recorded.hpp): Q, K and V are its first n_q
///                      and n_kv rows and first d and dv columns, the same in every batch-head; sizes
///                      that are not given are the recorded ones, larger ones are errors. Replaces dist,
///                      order, gap, v and scores, which may not be given beside it; sigma, scale, lists and puts
///                      go on from it [none]
///   dist               family of Q and K [normal]
///     normal           N(0,1)                      uniform    U[-1,1)
///     outliers         N(0,1) + N(0,100) * Bernoulli(0.001), 100 being the variance
///     pow2             +-2^e, e uniform in -8..8   ints       integers -4..4 (exact arithmetic)
///     subnormal        +-subnormal, uniform in the bits, never 0
///     zero             0: every score ties at 0
///   sigma              factor on every entry of Q [1]; with dist=normal and scale=auto the scores
///                      have standard deviation sigma
///   order              how the scores run over the keys, for every query row [free]
///     free             as they fall
///     ascending        Q = |entries|, K rises with j (K[j][i] in [j, j+1) / n_kv, rounded)
///     descending       the same, falling
///     tied             every key equals key 0
///     dominant         one key (chosen by seed and batch-head) leads all others by at least `gap`:
///                      Q = |entries| but Q[r][0] = 1, that key is (gap / scale, 0, ..., 0), and
///                      the others are -|entries| (+ where scale < 0), so that their scores are
///                      at most 0
///   gap                lead of the dominant key [120]
///   v                  family of V [normal]
///     normal uniform outliers pow2 ints subnormal zero   as above, no sigma
///     positive         U[1,2)             alternating  (-1)^j * U[1,2): sums cancel
///     index            V[j][c] = j        index1       V[j][c] = j + 1
///     constant:X       every entry X
///   Q K V              explicit entries, row-major, the same in every batch-head: `1,2,0x1p-149`;
///                      `x*n` repeats, `x*` fills the rest; replaces family, sigma and order of
///                      that matrix. n_q, n_kv stay as given
///   scores             shorthand for d=1 scale=1 Q=1* K=<list>; sets n_kv to the list's length
///   put                single entries after all else: `put=K:3,1:nan;V:2,0:-inf` (row, column; in
///                      every batch-head)
///
/// Entry (tensor, batch-head, row, column) of a family is a pure function of (seed, tensor,
/// batch-head, row, column) and the number of columns by Random123's Philox4x32-10, so any row is
/// made without the others.
/// parse(print(r)) == r for every recipe, and print(parse(t)) is the canonical text (keys in the
/// order above, defaults left out, `n_q` and `n_kv` always present). Lists print as they were
/// written, run by run. A key may be given once.
///
/// Requires  shapes that can be run and judged within kMaxBytes with kMinKeysAtOnce keys at once
///           (key_stream.hpp), for make_problem with all keys at once; larger ones are an error
///           before any allocation
/// Errors    RecipeError; the message names the key, what was found and what would be right
#pragma once

#include "reference/problem.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reference {

inline constexpr std::int64_t kMaxBytes = std::int64_t{8} << 30;
inline constexpr std::int64_t kMinKeysAtOnce = 1024;
inline constexpr std::int64_t kMaxHeadDimension = 256;

class RecipeError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Family {
  normal,
  uniform,
  outliers,
  pow2,
  ints,
  subnormal,
  zero,
  positive,
  alternating,
  index,
  index1,
  constant
};
enum class Order { free, ascending, descending, tied, dominant };
enum class Matrix { Q, K, V };

/// `count` times the same value in an explicit list; count = -1 fills what is left.
struct Run {
  float value = 0.0f;
  std::int64_t count = 1;
};

/// One entry overwritten on request.
struct Put {
  Matrix matrix = Matrix::K;
  std::int64_t row = 0;
  std::int64_t column = 0;
  float value = 0.0f;
};

struct Recipe {
  std::int64_t batch_heads = 1, n_q = 1, n_kv = 1, d = 1;
  std::optional<std::int64_t> rows; ///< absent: all n_q
  std::optional<std::int64_t> dv;   ///< absent: d
  std::optional<float> scale;       ///< absent: fp32(1/sqrt(d))
  std::uint64_t seed = 1;
  std::string recorded;         ///< empty: none
  Family dist = Family::normal; ///< the first seven families only
  float sigma = 1.0f;
  Order order = Order::free;
  float gap = 120.0f;
  Family v = Family::normal;
  float v_constant = 0.0f;  ///< with v = constant; 0 otherwise
  std::vector<Run> Q, K, V; ///< explicit entries; empty: the family
  std::vector<Put> put;
};

/// Bitwise comparison of every field (NaN equals NaN, -0 differs from +0).
bool operator==(const Recipe& a, const Recipe& b);

Recipe parse_recipe(std::string_view text);
std::string to_string(const Recipe& recipe);

/// Sizes and scale that the recipe stands for; throws RecipeError where they are out of range.
/// n_q is the number of sampled rows.
Shape shape_of(const Recipe& recipe);
float scale_of(const Recipe& recipe);

/// Can the problem be made, run and judged within kMaxBytes, with so many keys at once?
bool fits_memory(const Shape& shape, std::int64_t keys_at_once);

/// Throws RecipeError where it cannot; `advice` ends the message.
void require_memory(const Shape& shape, std::int64_t keys_at_once, const char* advice);

/// The numbers, among all n_q, of the query rows that make the problem.
std::vector<std::int64_t> query_rows(const Recipe& recipe);

/// Rows [first, first + rows) of one matrix of one batch-head, written to `out` row-major; of Q, all
/// rows are there.
void make_rows(const Recipe& recipe, Matrix matrix, std::int64_t batch_head, std::int64_t first,
               std::int64_t rows, float* out);

Problem make_problem(const Recipe& recipe);

/// Names for tables and messages: `normal`, `ascending`, ...
std::string_view name_of(Family family);
std::string_view name_of(Order order);

} // namespace fa1::reference
