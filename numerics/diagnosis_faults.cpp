#include "numerics/diagnosis_faults.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fa1::numerics {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------------------------------------------
// The recurrence, right or with parts left out
// ---------------------------------------------------------------------------------------------------

double as_it_is(double x) { return x; }
double power_of_e(double x) { return std::exp(x); }
double power_of_two(double x) { return std::exp2(x); }

struct Recurrence {
  std::int64_t Bc = std::numeric_limits<std::int64_t>::max(); ///< one tile
  bool alpha_on_l = true, alpha_on_O = true;
  bool divides = true;                  ///< O by l after every tile
  bool old_max = false;                 ///< p against the maximum before the tile
  bool own_max = false;                 ///< p against the tile's own maximum
  double (*power)(double) = power_of_e; ///< that makes p; alpha stays natural
  double (*of_p)(double) = as_it_is;    ///< what p becomes before it meets V
  double (*of_O)(double) = as_it_is;    ///< what O becomes before it is handed on
};

/// Scores s; `value(j, c)` is what p_j meets in column c.
template <class Value>
WrongRow recur(std::span<const double> s, std::int64_t dv, const Value& value,
               const Recurrence& with = {}) {
  const auto n = static_cast<std::int64_t>(s.size());
  const auto columns = static_cast<std::size_t>(dv);
  WrongRow row{std::vector<double>(columns), std::vector<double>(columns)};
  double m = -kInf, l = 0.0;
  for (std::int64_t first = 0; first < n;) {
    const std::int64_t end = n - first > with.Bc ? first + with.Bc : n;
    const auto tile =
        s.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
    const double own = std::ranges::max(tile), m_new = std::max(m, own);
    const double m_of_p = with.own_max ? own : with.old_max && m != -kInf ? m : m_new;
    const double alpha = std::exp(m - m_new), carried = with.alpha_on_O ? alpha : 1.0;
    // W = l O, the numerator
    for (std::size_t c = 0; c < columns; ++c) {
      row.O[c] *= carried * l;
      row.size[c] *= carried * l;
    }
    l *= with.alpha_on_l ? alpha : 1.0;
    for (std::int64_t j = first; j < end; ++j) {
      const double p = with.power(s[static_cast<std::size_t>(j)] - m_of_p), p_of_v = with.of_p(p);
      l += p;
      for (std::size_t c = 0; c < columns; ++c) {
        const double v = value(j, static_cast<std::int64_t>(c));
        row.O[c] += p_of_v * v;
        row.size[c] += p_of_v * std::fabs(v);
      }
    }
    const double divisor = with.divides ? l : 1.0;
    for (std::size_t c = 0; c < columns; ++c) {
      row.O[c] = with.of_O(row.O[c] / divisor);
      row.size[c] /= divisor;
    }
    m = m_new;
    first = end;
  }
  row.LSE = m + std::log(l);
  return row;
}

std::int64_t keys_of(const Asked& asked) { return asked.problem.shape.n_kv; }

/// q . k_j for every key j, each entry passed through `of` first.
template <class Of>
std::vector<double> dots_between(const reference::Problem& problem, QueryRow q,
                                 std::int64_t batch_head_of_K, const Of& of) {
  const auto query = problem.Q.row(q.batch_head, q.row);
  std::vector<double> dots(static_cast<std::size_t>(problem.shape.n_kv));
  for (std::int64_t j = 0; j < problem.shape.n_kv; ++j) {
    const auto key = problem.K.row(batch_head_of_K, j);
    for (std::size_t i = 0; i < query.size(); ++i)
      dots[static_cast<std::size_t>(j)] += of(double{query[i]}) * of(double{key[i]});
  }
  return dots;
}

std::vector<double> times(std::span<const double> dots, double scale) {
  std::vector<double> s(dots.begin(), dots.end());
  for (double& x : s)
    x *= scale;
  return s;
}

std::vector<double> scores_of(const Asked& asked) {
  return times(asked.dots, double{asked.problem.scale});
}

auto values_of(const Asked& asked) {
  return [&V = asked.problem.V, bh = asked.at.batch_head](std::int64_t j, std::int64_t c) {
    return double{V(bh, j, c)};
  };
}

template <class Value>
WrongRow attend(const Asked& asked, const Value& value, const Recurrence& with = {}) {
  return recur(scores_of(asked), asked.problem.shape.dv, value, with);
}

WrongRow recurrence(const Asked& asked, Recurrence with) {
  with.Bc = asked.Bc;
  return attend(asked, values_of(asked), with);
}

// ---------------------------------------------------------------------------------------------------
// Recurrence
// ---------------------------------------------------------------------------------------------------

WrongRow no_alpha_on_l(const Asked& asked) { return recurrence(asked, {.alpha_on_l = false}); }
WrongRow no_alpha_on_O(const Asked& asked) { return recurrence(asked, {.alpha_on_O = false}); }
WrongRow no_alpha(const Asked& asked) {
  return recurrence(asked, {.alpha_on_l = false, .alpha_on_O = false});
}
WrongRow old_max(const Asked& asked) { return recurrence(asked, {.old_max = true}); }
WrongRow weights_in_base_two(const Asked& asked) {
  return recurrence(asked, {.power = power_of_two});
}
WrongRow own_max(const Asked& asked) { return recurrence(asked, {.own_max = true}); }

/// O = l o, with l at the maximum of all scores: an accumulator that nobody divided.
WrongRow no_division(const Asked& asked) {
  WrongRow row = attend(asked, values_of(asked));
  const double l = std::exp(row.LSE - std::ranges::max(scores_of(asked)));
  for (std::size_t c = 0; c < row.O.size(); ++c) {
    row.O[c] *= l;
    row.size[c] *= l;
  }
  return row;
}

/// What FA1 makes of it: the undivided O is multiplied by l again in the next tile.
WrongRow no_division_in_any_tile(const Asked& asked) {
  return recurrence(asked, {.divides = false});
}

// ---------------------------------------------------------------------------------------------------
// Which keys take part
// ---------------------------------------------------------------------------------------------------

/// Padded columns with score 0 and value 0.
WrongRow pads_count(const Asked& asked) {
  auto s = scores_of(asked);
  const std::int64_t n = keys_of(asked);
  s.resize(static_cast<std::size_t>((n + asked.Bc - 1) / asked.Bc * asked.Bc), 0.0);
  const auto value = [real = values_of(asked), n](std::int64_t j, std::int64_t c) {
    return j < n ? real(j, c) : 0.0;
  };
  return recur(s, asked.problem.shape.dv, value);
}

/// The first `count` keys alone; without any, what the outputs start with.
WrongRow first_keys(const Asked& asked, std::int64_t count) {
  const auto dv = static_cast<std::size_t>(asked.problem.shape.dv);
  if (count <= 0)
    return {std::vector<double>(dv), std::vector<double>(dv), -kInf};
  return recur(
      times(asked.dots.first(static_cast<std::size_t>(count)), double{asked.problem.scale}),
      asked.problem.shape.dv, values_of(asked));
}

WrongRow tail_dropped(const Asked& asked) {
  return first_keys(asked, keys_of(asked) / asked.Bc * asked.Bc);
}
WrongRow last_key_dropped(const Asked& asked) { return first_keys(asked, keys_of(asked) - 1); }

/// Row r sees the keys up to r.
WrongRow causal_from_the_top(const Asked& asked) {
  return first_keys(asked, std::min(keys_of(asked), asked.at.row + 1));
}
/// The last row sees every key.
WrongRow causal_to_the_bottom(const Asked& asked) {
  const reference::Shape& shape = asked.problem.shape;
  return first_keys(asked, std::min(shape.n_kv, asked.at.row + 1 + shape.n_kv - shape.n_q));
}

WrongRow mean_of_values(const Asked& asked) {
  WrongRow row = recur(times(asked.dots, 0.0), asked.problem.shape.dv, values_of(asked));
  row.LSE = kNaN;
  return row;
}

// ---------------------------------------------------------------------------------------------------
// Scale
// ---------------------------------------------------------------------------------------------------

WrongRow with_scale(const Asked& asked, double scale) {
  WrongRow row = recur(times(asked.dots, scale), asked.problem.shape.dv, values_of(asked));
  const double right = std::fabs(double{asked.problem.scale});
  row.stretch = right > 0.0 ? std::max(1.0, std::fabs(scale) / right) : kInf;
  return row;
}

double scale_of(const Asked& asked) { return double{asked.problem.scale}; }
double d_of(const Asked& asked) {
  return static_cast<double>(std::max<std::int64_t>(1, asked.problem.shape.d));
}

WrongRow scale_missing(const Asked& asked) { return with_scale(asked, 1.0); }
WrongRow scale_squared(const Asked& asked) {
  return with_scale(asked, scale_of(asked) * scale_of(asked));
}
WrongRow scale_inverse_d(const Asked& asked) { return with_scale(asked, 1.0 / d_of(asked)); }
WrongRow scale_inverse_root_d(const Asked& asked) {
  return with_scale(asked, 1.0 / std::sqrt(d_of(asked)));
}
WrongRow scale_inverse_root_D(const Asked& asked) {
  return with_scale(asked,
                    1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, asked.D))));
}

/// The maximum is that of the natural scores: m + ln l is M + ln sum 2^(s - M).
WrongRow two_to_the_score(const Asked& asked) {
  WrongRow row = with_scale(asked, scale_of(asked) * std::numbers::ln2);
  row.LSE += std::ranges::max(scores_of(asked)) * (1.0 - std::numbers::ln2);
  return row;
}
WrongRow e_to_the_log2_score(const Asked& asked) {
  WrongRow row = with_scale(asked, scale_of(asked) * std::numbers::log2e);
  row.LSE = kNaN;
  return row;
}

// ---------------------------------------------------------------------------------------------------
// l and m handed out in another unit; O is right
// ---------------------------------------------------------------------------------------------------

WrongRow log2_of_the_sum(const Asked& asked) {
  WrongRow row = attend(asked, values_of(asked));
  row.LSE *= std::numbers::log2e;
  return row;
}
WrongRow max_in_base_two(const Asked& asked) {
  WrongRow row = attend(asked, values_of(asked));
  row.LSE += std::ranges::max(scores_of(asked)) * (std::numbers::log2e - 1.0);
  return row;
}
WrongRow max_not_scaled(const Asked& asked) {
  WrongRow row = attend(asked, values_of(asked));
  const double M = std::ranges::max(scores_of(asked));
  row.LSE += scale_of(asked) != 0.0 ? M / scale_of(asked) - M : kNaN;
  return row;
}

// ---------------------------------------------------------------------------------------------------
// Indices
// ---------------------------------------------------------------------------------------------------

/// p_j meets the V row `other(j)`.
template <class Other> WrongRow meets(const Asked& asked, const Other& other) {
  return attend(asked, [&](std::int64_t j, std::int64_t c) {
    return double{asked.problem.V(asked.at.batch_head, other(j), c)};
  });
}

WrongRow next_value_of_tile(const Asked& asked) {
  return meets(asked, [n = keys_of(asked), Bc = asked.Bc](std::int64_t j) {
    const std::int64_t first = j / Bc * Bc, columns = std::min(Bc, n - first);
    return first + (j - first + 1) % columns;
  });
}
WrongRow next_value(const Asked& asked) {
  return meets(asked, [n = keys_of(asked)](std::int64_t j) { return (j + 1) % n; });
}
WrongRow previous_value(const Asked& asked) {
  return meets(asked, [n = keys_of(asked)](std::int64_t j) { return (j + n - 1) % n; });
}
WrongRow values_a_tile_behind(const Asked& asked) {
  return meets(asked, [Bc = asked.Bc](std::int64_t j) { return j >= Bc ? j - Bc : j; });
}
WrongRow values_a_tile_ahead(const Asked& asked) {
  return meets(asked, [n = keys_of(asked), Bc = asked.Bc](std::int64_t j) {
    return j + Bc < n ? j + Bc : j;
  });
}

/// The tile of K, D columns to a key, read as [D][Bc].
WrongRow transposed(const Asked& asked, std::int64_t D) {
  const reference::Problem& problem = asked.problem;
  const std::int64_t n = keys_of(asked), bh = asked.at.batch_head;
  std::vector<double> dots(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t first = j / asked.Bc * asked.Bc;
    for (std::int64_t i = 0; i < problem.shape.d; ++i) {
      const std::int64_t place = i * asked.Bc + j - first, key = first + place / D,
                         column = place % D;
      if (key < n && column < problem.shape.d)
        dots[static_cast<std::size_t>(j)] +=
            double{problem.Q(bh, asked.at.row, i)} * double{problem.K(bh, key, column)};
    }
  }
  return recur(times(dots, scale_of(asked)), problem.shape.dv, values_of(asked));
}
WrongRow transposed_tile(const Asked& asked) {
  return transposed(asked, std::max<std::int64_t>(1, asked.problem.shape.d));
}
WrongRow transposed_padded_tile(const Asked& asked) { return transposed(asked, asked.D); }

/// Q of one place against K and V of two others.
WrongRow elsewhere(const Asked& asked, QueryRow q, std::int64_t batch_head_of_K,
                   std::int64_t batch_head_of_V) {
  const reference::Problem& problem = asked.problem;
  std::vector<double> dots(asked.dots.begin(), asked.dots.end());
  if (!(q == asked.at && batch_head_of_K == asked.at.batch_head))
    dots = dots_between(problem, q, batch_head_of_K, as_it_is);
  return recur(times(dots, scale_of(asked)), problem.shape.dv, [&](std::int64_t j, std::int64_t c) {
    return double{problem.V(batch_head_of_V, j, c)};
  });
}

WrongRow of_query(const Asked& asked, std::int64_t row) {
  const std::int64_t bh = asked.at.batch_head;
  return elsewhere(asked, {bh, std::clamp<std::int64_t>(row, 0, asked.problem.shape.n_q - 1)}, bh,
                   bh);
}
WrongRow next_query(const Asked& asked) { return of_query(asked, asked.at.row + 1); }
WrongRow previous_query(const Asked& asked) { return of_query(asked, asked.at.row - 1); }
WrongRow first_query_of_block(const Asked& asked) {
  return of_query(asked, asked.at.row / asked.Br * asked.Br);
}
WrongRow first_query(const Asked& asked) { return of_query(asked, 0); }

WrongRow first_head(const Asked& asked) { return elsewhere(asked, {0, asked.at.row}, 0, 0); }
WrongRow queries_of_first_head(const Asked& asked) {
  return elsewhere(asked, {0, asked.at.row}, asked.at.batch_head, asked.at.batch_head);
}
WrongRow keys_of_first_head(const Asked& asked) {
  return elsewhere(asked, asked.at, 0, asked.at.batch_head);
}
WrongRow values_of_first_head(const Asked& asked) {
  return elsewhere(asked, asked.at, asked.at.batch_head, 0);
}
WrongRow keys_and_values_of_first_head(const Asked& asked) {
  return elsewhere(asked, asked.at, 0, 0);
}

// ---------------------------------------------------------------------------------------------------
// Precision
// ---------------------------------------------------------------------------------------------------

struct Format {
  int bits;            ///< after the leading one
  int lowest_exponent; ///< of a normal number
  double largest;
};
constexpr Format kTF32{10, -126, 0x1.ffcp+127}, kBF16{7, -126, 0x1.fep+127},
    kFP16{10, -14, 0x1.ffcp+15};

/// Ties to even; Inf beyond the largest number.
template <Format F> double rounded(double x) {
  if (x == 0.0 || !std::isfinite(x))
    return x;
  const int exponent = std::max(std::ilogb(x), F.lowest_exponent);
  const double step = std::ldexp(1.0, exponent - F.bits);
  const double y = std::nearbyint(x / step) * step;
  return std::fabs(y) > F.largest ? std::copysign(kInf, x) : y;
}

/// What is rounded.
struct Rounds {
  bool QK = false, V = false, p = false, O = false;
};

template <Format F, Rounds R> WrongRow low_precision(const Asked& asked) {
  const reference::Problem& problem = asked.problem;
  std::vector<double> dots(asked.dots.begin(), asked.dots.end());
  if (R.QK)
    dots = dots_between(problem, asked.at, asked.at.batch_head, rounded<F>);
  const auto value = [real = values_of(asked)](std::int64_t j, std::int64_t c) {
    return R.V ? rounded<F>(real(j, c)) : real(j, c);
  };
  Recurrence with;
  if (R.p || R.O)
    with.Bc = asked.Bc;
  if (R.p)
    with.of_p = rounded<F>;
  if (R.O)
    with.of_O = rounded<F>;
  WrongRow row = recur(times(dots, scale_of(asked)), problem.shape.dv, value, with);
  if (R.p || R.O)
    row.grain = std::ldexp(1.0, -F.bits);
  return row;
}

constexpr Rounds kQK{.QK = true}, kV{.V = true}, kQKV{.QK = true, .V = true}, kP{.p = true},
    kPV{.V = true, .p = true}, kQKPV{.QK = true, .V = true, .p = true}, kO{.O = true};

// ---------------------------------------------------------------------------------------------------
// The table
// ---------------------------------------------------------------------------------------------------

constexpr bool kOfTiles = true, kOfKeys = false;

constexpr FaultPattern kFaults[] = {
    {"no_alpha_on_O", "the carried O is not rescaled when the maximum rises", kOfTiles,
     no_alpha_on_O},
    {"no_alpha_on_l", "the carried l is not rescaled when the maximum rises", kOfTiles,
     no_alpha_on_l},
    {"no_alpha", "neither l nor O is rescaled when the maximum rises", kOfTiles, no_alpha},
    {"stale_max", "p is formed against the maximum before its tile", kOfTiles, old_max},
    {"tile_max",
     "p is formed against the maximum of its tile, without the correction to the running one",
     kOfTiles, own_max},
    {"no_division", "O is not divided by l", kOfKeys, no_division},
    {"no_division", "O is not divided by l, in any tile", kOfTiles, no_division_in_any_tile},
    {"pads_count", "columns past the last key take part with score 0", kOfTiles, pads_count},
    {"tail_dropped", "the keys beyond the last full tile are left out", kOfTiles, tail_dropped},
    {"last_key_dropped", "the last key is left out", kOfKeys, last_key_dropped},
    {"causal", "a causal mask is applied: row r sees the keys up to r", kOfKeys,
     causal_from_the_top},
    {"causal", "a causal mask is applied: the last row sees every key, each row before it one less",
     kOfKeys, causal_to_the_bottom},
    {"mean_of_V", "O is the mean of V: Q and K play no part", kOfKeys, mean_of_values},
    {"scale_missing", "scores are not scaled", kOfKeys, scale_missing},
    {"scale_squared", "scores are scaled twice", kOfKeys, scale_squared},
    {"scale_from_d", "the scale is 1/d", kOfKeys, scale_inverse_d},
    {"scale_from_d", "the scale is 1/sqrt(d), whatever was asked", kOfKeys, scale_inverse_root_d},
    {"scale_from_d", "the scale is 1/sqrt of the padded d", kOfKeys, scale_inverse_root_D},
    {"base_two", "the exponential is 2^x in the place of e^x", kOfKeys, two_to_the_score},
    {"base_two", "p is 2^x in the place of e^x, alpha is not", kOfTiles, weights_in_base_two},
    {"log2e_too_much", "scores are multiplied by log2 e and the exponential is e^x", kOfKeys,
     e_to_the_log2_score},
    {"LSE_in_base_two", "m + ln l is the logarithm to base 2 of the sum, not the natural one",
     kOfKeys, log2_of_the_sum},
    {"m_in_base_two", "m is in units of base 2 (times log2 e), l is not", kOfKeys, max_in_base_two},
    {"m_not_scaled", "m is the maximum of q.k before the scale", kOfKeys, max_not_scaled},
    {"neighbour_value", "p meets the V row of the next key of its tile", kOfTiles,
     next_value_of_tile},
    {"neighbour_value", "p meets the V row of the next key", kOfKeys, next_value},
    {"neighbour_value", "p meets the V row of the key before", kOfKeys, previous_value},
    {"tiles_out_of_step", "the V tile is the one before that of K", kOfTiles, values_a_tile_behind},
    {"tiles_out_of_step", "the V tile is the one after that of K", kOfTiles, values_a_tile_ahead},
    {"transposed_tile", "the K tile is read as if it were stored the other way", kOfTiles,
     transposed_tile},
    {"transposed_tile", "the K tile, padded in d, is read as if it were stored the other way",
     kOfTiles, transposed_padded_tile},
    {"wrong_row", "each row holds the answer to the query after it", kOfKeys, next_query},
    {"wrong_row", "each row holds the answer to the query before it", kOfKeys, previous_query},
    {"wrong_row", "each row holds the answer to the first query of its block", kOfKeys,
     first_query_of_block},
    {"wrong_row", "each row holds the answer to the first query", kOfKeys, first_query},
    {"wrong_head", "every batch-head holds the answer of the first", kOfKeys, first_head},
    {"wrong_head", "every batch-head reads the Q of the first", kOfKeys, queries_of_first_head},
    {"wrong_head", "every batch-head reads the K of the first", kOfKeys, keys_of_first_head},
    {"wrong_head", "every batch-head reads the V of the first", kOfKeys, values_of_first_head},
    {"wrong_head", "every batch-head reads the K and V of the first", kOfKeys,
     keys_and_values_of_first_head},
    {"tf32_inputs", "Q and K are rounded to TF32", kOfKeys, low_precision<kTF32, kQK>},
    {"bf16_inputs", "Q and K are rounded to bfloat16", kOfKeys, low_precision<kBF16, kQK>},
    {"fp16_inputs", "Q and K are rounded to fp16", kOfKeys, low_precision<kFP16, kQK>},
    {"tf32_inputs", "Q, K and V are rounded to TF32", kOfKeys, low_precision<kTF32, kQKV>},
    {"bf16_inputs", "Q, K and V are rounded to bfloat16", kOfKeys, low_precision<kBF16, kQKV>},
    {"fp16_inputs", "Q, K and V are rounded to fp16", kOfKeys, low_precision<kFP16, kQKV>},
    {"tf32_inputs", "Q, K, V and p are rounded to TF32", kOfTiles, low_precision<kTF32, kQKPV>},
    {"bf16_inputs", "Q, K, V and p are rounded to bfloat16", kOfTiles, low_precision<kBF16, kQKPV>},
    {"fp16_inputs", "Q, K, V and p are rounded to fp16", kOfTiles, low_precision<kFP16, kQKPV>},
    {"tf32_values", "V is rounded to TF32", kOfKeys, low_precision<kTF32, kV>},
    {"bf16_values", "V is rounded to bfloat16", kOfKeys, low_precision<kBF16, kV>},
    {"fp16_values", "V is rounded to fp16", kOfKeys, low_precision<kFP16, kV>},
    {"tf32_weights", "p is rounded to TF32 where it meets V", kOfTiles, low_precision<kTF32, kP>},
    {"bf16_weights", "p is rounded to bfloat16 where it meets V", kOfTiles,
     low_precision<kBF16, kP>},
    {"fp16_weights", "p is rounded to fp16 where it meets V", kOfTiles, low_precision<kFP16, kP>},
    {"tf32_weights", "p and V are rounded to TF32", kOfTiles, low_precision<kTF32, kPV>},
    {"bf16_weights", "p and V are rounded to bfloat16", kOfTiles, low_precision<kBF16, kPV>},
    {"fp16_weights", "p and V are rounded to fp16", kOfTiles, low_precision<kFP16, kPV>},
    {"bf16_output", "O is rounded to bfloat16", kOfTiles, low_precision<kBF16, kO>},
    {"fp16_output", "O is rounded to fp16", kOfTiles, low_precision<kFP16, kO>},
};

} // namespace

std::span<const FaultPattern> all_faults() { return kFaults; }

std::vector<double> dots_of(const reference::Problem& problem, QueryRow at) {
  return dots_between(problem, at, at.batch_head, as_it_is);
}

} // namespace fa1::numerics
