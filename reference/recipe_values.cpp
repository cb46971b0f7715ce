// The values of a recipe: every entry a pure function of seed and place.
#include "reference/key_stream.hpp"
#include "reference/parallel.hpp"
#include "reference/recipe_parts.hpp"
#include "reference/recorded.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace fa1::reference {
namespace {

/// Words that elements need beyond their first come from further streams of the same counter.
enum class Stream : std::uint32_t { entry, coin, outlier, dominant, rows };

using Words = std::array<std::uint32_t, 4>;

struct Place {
  std::uint64_t seed;
  std::uint32_t batch_head;
  Matrix matrix;
};

/// Four words for the elements 4 * block .. 4 * block + 3 of a row-major matrix.
Words words(const Place& place, Stream stream, std::uint64_t block) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), place.batch_head,
       static_cast<std::uint32_t>(place.matrix) | static_cast<std::uint32_t>(stream) << 8}};
  const r123::Philox4x32::ukey_type key = {
      {static_cast<std::uint32_t>(place.seed), static_cast<std::uint32_t>(place.seed >> 32)}};
  const r123::Philox4x32::ctr_type result = r123::Philox4x32_R<10>()(counter, key);
  return {result[0], result[1], result[2], result[3]};
}

/// ln x for 2^-33 <= x <= 1/2 from +, -, *, / alone: libm differs from machine to machine, these do
/// not.
double portable_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (mantissa > 0x1.6a09e667f3bcdp0) { // sqrt 2: keeps |t| <= 0.172
    mantissa *= 0.5;
    exponent += 1;
  }
  const double t = (mantissa - 1.0) / (mantissa + 1.0); // ln mantissa = 2 atanh t
  const double t2 = t * t;
  double series = 1.0 / 19;
  for (const double odd : {17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0})
    series = series * t2 + 1.0 / odd;
  return static_cast<double>(exponent) * 0x1.62e42fefa39efp-1 + 2.0 * t * series;
}

/// c[0] + c[1] r + ... + c[7] r^7 by Horner's rule.
double polynomial(const std::array<double, 8>& c, double r) {
  double sum = c[7];
  for (std::size_t i = 7; i-- > 0;)
    sum = sum * r + c[i];
  return sum;
}

/// The normal number whose distribution function is (word + 1/2) / 2^32, to about 1e-15: the
/// rational approximations of Wichura, Algorithm AS 241 (PPND16), 1988. Its far tail,
/// below 1.4e-11, is never met.
double normal_of(std::uint32_t word) {
  constexpr std::array<double, 8> kCentreAbove{3.3871328727963666080e0, 1.3314166789178437745e2,
                                               1.9715909503065514427e3, 1.3731693765509461125e4,
                                               4.5921953931549871457e4, 6.7265770927008700853e4,
                                               3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr std::array<double, 8> kCentreBelow{1.0,
                                               4.2313330701600911252e1,
                                               6.8718700749205790830e2,
                                               5.3941960214247511077e3,
                                               2.1213794301586595867e4,
                                               3.9307895800092710610e4,
                                               2.8729085735721942674e4,
                                               5.2264952788528545610e3};
  constexpr std::array<double, 8> kTailAbove{1.42343711074968357734e0,  4.63033784615654529590e0,
                                             5.76949722146069140550e0,  3.64784832476320460504e0,
                                             1.27045825245236838258e0,  2.41780725177450611770e-1,
                                             2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr std::array<double, 8> kTailBelow{1.0,
                                             2.05319162663775882187e0,
                                             1.67638483018380384940e0,
                                             6.89767334985100004550e-1,
                                             1.48103976427480074590e-1,
                                             1.51986665636164571966e-2,
                                             5.47593808499534494600e-4,
                                             1.05075007164441684324e-9};

  const double q = (static_cast<double>(word) - 0x1p31 + 0.5) * 0x1p-32; // exact, in (-1/2, 1/2)
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentreAbove, r) / polynomial(kCentreBelow, r);
  }
  const double tail = (static_cast<double>(std::min(word, ~word)) + 0.5) * 0x1p-32;
  const double r = std::sqrt(-portable_log(tail)) - 1.6;
  return std::copysign(polynomial(kTailAbove, r) / polynomial(kTailBelow, r), q);
}

float normal(std::uint32_t word) { return static_cast<float>(normal_of(word)); }

float uniform(std::uint32_t word) { // 2^24 equidistant values of [-1, 1)
  return static_cast<float>(static_cast<std::int32_t>(word >> 8) - (1 << 23)) * 0x1p-23f;
}

float one_to_two(std::uint32_t word) { return std::bit_cast<float>(0x3f800000u | word >> 9); }

/// An integer of [0, count) by multiplication; the bias of at most count / 2^32 does not matter
/// here.
std::int32_t below(std::uint32_t word, std::uint32_t count) {
  return static_cast<std::int32_t>(std::uint64_t{word} * count >> 32);
}

float power_of_two(
    std::uint32_t word) { // the top bit is the sign, the other 31 choose the exponent
  const std::int32_t exponent = below(word << 1, 17) - 8;
  return std::bit_cast<float>((word & 0x80000000u) | static_cast<std::uint32_t>(exponent + 127)
                                                         << 23);
}

float subnormal(std::uint32_t word) { // every one of the 2 * (2^23 - 1), never zero
  return std::bit_cast<float>((word & 0x80000000u) |
                              (1u + static_cast<std::uint32_t>(below(word << 1, (1u << 23) - 1))));
}

/// Elements [begin, end) of a row-major matrix; of_block(block) gives elements 4 * block .. 4 *
/// block + 3.
template <class OfBlock>
void fill_blocks(std::uint64_t begin, std::uint64_t end, float* out, const OfBlock& of_block) {
  std::uint64_t element = begin;
  while (element < end) {
    const std::array<float, 4> values = of_block(element / 4);
    const std::uint64_t stop = std::min(end, (element / 4 + 1) * 4);
    for (; element < stop; ++element)
      *out++ = values[element % 4];
  }
}

/// The same where an element is a function of its one word.
template <class OfWord>
void fill_words(const Place& place, std::uint64_t begin, std::uint64_t end, float* out,
                const OfWord& of_word) {
  fill_blocks(begin, end, out, [&](std::uint64_t block) -> std::array<float, 4> {
    const Words w = words(place, Stream::entry, block);
    return {of_word(w[0]), of_word(w[1]), of_word(w[2]), of_word(w[3])};
  });
}

/// N(0,1) + N(0,100) * Bernoulli(0.001), 100 being the variance; the sum is rounded once.
void fill_outliers(const Place& place, std::uint64_t begin, std::uint64_t end, float* out) {
  constexpr std::uint32_t kThreshold = 4294967; // 0.001 * 2^32
  fill_blocks(begin, end, out, [&](std::uint64_t block) {
    const Words entry = words(place, Stream::entry, block);
    const Words coin = words(place, Stream::coin, block);
    std::array<float, 4> values;
    for (std::size_t i = 0; i < 4; ++i) {
      double value = normal_of(entry[i]);
      if (coin[i] < kThreshold)
        value += 10.0 * normal_of(words(place, Stream::outlier, block)[i]);
      values[i] = static_cast<float>(value);
    }
    return values;
  });
}

void fill_family(Family family, float constant, const Place& place, std::int64_t columns,
                 std::int64_t first, std::int64_t rows, float* out) {
  const auto begin = static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(columns);
  const std::uint64_t end =
      begin + static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns);
  float* const out_end = out + (end - begin);
  switch (family) {
  case Family::normal:
    return fill_words(place, begin, end, out, normal);
  case Family::uniform:
    return fill_words(place, begin, end, out, uniform);
  case Family::outliers:
    return fill_outliers(place, begin, end, out);
  case Family::pow2:
    return fill_words(place, begin, end, out, power_of_two);
  case Family::ints:
    return fill_words(place, begin, end, out,
                      [](std::uint32_t word) { return static_cast<float>(below(word, 9) - 4); });
  case Family::subnormal:
    return fill_words(place, begin, end, out, subnormal);
  case Family::zero:
    return std::fill(out, out_end, 0.0f);
  case Family::positive:
    return fill_words(place, begin, end, out, one_to_two);
  case Family::alternating:
    fill_words(place, begin, end, out, one_to_two);
    for (std::int64_t j = 0; j < rows; ++j)
      if ((first + j) % 2 == 1)
        for (std::int64_t c = 0; c < columns; ++c)
          out[j * columns + c] = -out[j * columns + c];
    return;
  case Family::index:
  case Family::index1:
    for (std::int64_t j = 0; j < rows; ++j)
      std::fill_n(out + j * columns, columns,
                  static_cast<float>(first + j + (family == Family::index1 ? 1 : 0)));
    return;
  case Family::constant:
    return std::fill(out, out_end, constant);
  }
}

void fill_list(const std::vector<Run>& runs, std::int64_t begin, std::int64_t end, float* out) {
  std::int64_t start = 0;
  for (const Run& run : runs) {
    const std::int64_t stop = run.count < 0 ? end : std::min(start + run.count, end);
    const std::int64_t from = std::max(start, begin);
    if (from < stop)
      std::fill(out + (from - begin), out + (stop - begin), run.value);
    start = std::max(start, stop);
    if (start >= end)
      return;
  }
}

/// K[j][i] in [j, j+1) / n_kv, or the same mirrored. Rounding is monotone, so the order survives
/// it.
void fill_ramp(const Recipe& recipe, const Place& place, std::int64_t columns, std::int64_t first,
               std::int64_t rows, float* out) {
  const auto n = static_cast<double>(recipe.n_kv);
  fill_family(Family::positive, 0.0f, place, columns, first, rows, out);
  for (std::int64_t j = 0; j < rows; ++j) {
    const std::int64_t rank =
        recipe.order == Order::ascending ? first + j : recipe.n_kv - 1 - (first + j);
    for (std::int64_t i = 0; i < columns; ++i) {
      float& entry = out[j * columns + i];
      const double fraction = static_cast<double>(entry) - 1.0; // [0, 1)
      entry = static_cast<float>((static_cast<double>(rank) + fraction) / n);
    }
  }
}

/// The key that the largest entry of an `order=dominant` row needs: scale * key >= gap, rounded
/// away.
float dominant_key(const Recipe& recipe) {
  const double scale = static_cast<double>(scale_of(recipe));
  const double exact = static_cast<double>(recipe.gap) / scale;
  auto key = static_cast<float>(exact);
  const float away =
      std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(scale));
  // The product of two floats is exact in double, so this comparison decides the claim itself.
  while (static_cast<double>(key) * scale < static_cast<double>(recipe.gap))
    key = std::nextafter(key, away);
  return key;
}

void fill_dominant_keys(const Recipe& recipe, const Place& place, std::int64_t columns,
                        std::int64_t first, std::int64_t rows, float* out) {
  const float sign = scale_of(recipe) < 0.0f ? 1.0f : -1.0f;
  for (std::int64_t e = 0; e < rows * columns; ++e)
    out[e] = std::copysign(out[e], sign);
  const Words draw = words(place, Stream::dominant, 0);
  const auto leader = static_cast<std::int64_t>(
      std::uint64_t{draw[0]} * static_cast<std::uint64_t>(recipe.n_kv) >> 32);
  if (leader >= first && leader < first + rows) {
    float* const row = out + (leader - first) * columns;
    std::fill_n(row, columns, 0.0f);
    row[0] = dominant_key(recipe);
  }
}

void fill_queries(const Recipe& recipe, std::int64_t columns, std::int64_t rows, float* out) {
  const bool positive = recipe.order == Order::ascending || recipe.order == Order::descending ||
                        recipe.order == Order::dominant;
  for (std::int64_t e = 0; e < rows * columns; ++e) {
    const float value = recipe.sigma * out[e];
    out[e] = positive ? std::fabs(value) : value;
  }
  if (recipe.order == Order::dominant)
    for (std::int64_t r = 0; r < rows; ++r)
      out[r * columns] = 1.0f;
}

void fill_recorded(const Recipe& recipe, Matrix matrix, std::int64_t columns, std::int64_t first,
                   std::int64_t rows, float* out) {
  const RecordedHead& head = recorded_head(recipe.recorded);
  const Tensor<float>& all = head.of(matrix);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(all.row(0, first + r).data(), columns, out + r * columns);
  if (matrix == Matrix::Q)
    for (std::int64_t e = 0; e < rows * columns; ++e)
      out[e] *= recipe.sigma;
}

void make_valid_rows(const Recipe& recipe, const Shape& shape, Matrix matrix,
                     std::int64_t batch_head, std::int64_t first, std::int64_t rows, float* out) {
  const std::int64_t columns = columns_of(shape, matrix);
  if (rows == 0 || columns == 0)
    return;
  const Place place{recipe.seed, static_cast<std::uint32_t>(batch_head), matrix};
  if (const std::vector<Run>& list = list_of(recipe, matrix); !list.empty()) {
    fill_list(list, first * columns, (first + rows) * columns, out);
  } else if (!recipe.recorded.empty()) {
    fill_recorded(recipe, matrix, columns, first, rows, out);
  } else if (matrix == Matrix::V) {
    fill_family(recipe.v, recipe.v_constant, place, columns, first, rows, out);
  } else if (matrix == Matrix::Q) {
    fill_family(recipe.dist, 0.0f, place, columns, first, rows, out);
    fill_queries(recipe, columns, rows, out);
  } else if (recipe.order == Order::ascending || recipe.order == Order::descending) {
    fill_ramp(recipe, place, columns, first, rows, out);
  } else if (recipe.order == Order::tied) {
    fill_family(recipe.dist, 0.0f, place, columns, 0, 1, out);
    for (std::int64_t j = 1; j < rows; ++j)
      std::copy_n(out, columns, out + j * columns);
  } else {
    fill_family(recipe.dist, 0.0f, place, columns, first, rows, out);
    if (recipe.order == Order::dominant)
      fill_dominant_keys(recipe, place, columns, first, rows, out);
  }
  for (const Put& put : recipe.put)
    if (put.matrix == matrix && put.row >= first && put.row < first + rows)
      out[(put.row - first) * columns + put.column] = put.value;
}

} // namespace

void make_rows(const Recipe& recipe, Matrix matrix, std::int64_t batch_head, std::int64_t first,
               std::int64_t rows, float* out) {
  const Shape shape = validated(recipe);
  if (batch_head < 0 || batch_head >= shape.batch_heads)
    throw RecipeError("recipe: batch-head " + std::to_string(batch_head) +
                      ": want one below bh = " + std::to_string(shape.batch_heads));
  const std::int64_t all = rows_of(shape, matrix);
  if (first < 0 || rows < 0 || first > all || rows > all - first)
    throw RecipeError("recipe: rows from " + std::to_string(first) + ", " + std::to_string(rows) +
                      " of them: want rows of " + std::string(name_of(matrix)) + " below " +
                      std::to_string(all));
  make_valid_rows(recipe, shape, matrix, batch_head, first, rows, out);
}

std::vector<std::int64_t> query_rows(const Recipe& recipe) {
  const Shape all = validated(recipe);
  const std::int64_t count = sampled(all, recipe).n_q;
  std::vector<std::int64_t> rows;
  if (count == all.n_q) {
    rows.resize(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    return rows;
  }
  // Floyd's sampling without replacement: each set of rows is equally likely.
  std::set<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t last = all.n_q - count + i; // n_q is at most 2^31
    const Words draw =
        words({recipe.seed, 0, Matrix::Q}, Stream::rows, static_cast<std::uint64_t>(i));
    const auto at = static_cast<std::int64_t>(
        std::uint64_t{draw[0]} * static_cast<std::uint64_t>(last + 1) >> 32);
    chosen.insert(chosen.contains(at) ? last : at);
  }
  rows.assign(chosen.begin(), chosen.end());
  return rows;
}

Problem make_problem(const Recipe& recipe) {
  const Shape shape = shape_of(recipe);
  require_memory(shape, shape.n_kv,
                 "; `fa1lab run` and `fa1lab sweep` take the keys in chunks and do with less");
  KeyStream stream(recipe, std::max<std::int64_t>(shape.n_kv, 1));
  return stream.chunk(0);
}

KeyStream::KeyStream(const Recipe& recipe, std::int64_t keys_at_once, unsigned threads)
    : recipe_(recipe), shape_(shape_of(recipe)), keys_at_once_(keys_at_once),
      threads_(threads), chunk_{shape_,
                                scale_of(recipe),
                                Tensor<float>(shape_.batch_heads, shape_.n_q, shape_.d),
                                {},
                                {}} {
  const Shape all = validated(recipe);
  const std::vector<std::int64_t> rows = query_rows(recipe);
  for (std::int64_t bh = 0; bh < shape_.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape_.n_q; ++r)
      make_valid_rows(recipe, all, Matrix::Q, bh, rows[static_cast<std::size_t>(r)], 1,
                      chunk_.Q.row(bh, r).data());
}

std::int64_t KeyStream::chunks() const {
  return std::max<std::int64_t>(1, (shape_.n_kv + keys_at_once_ - 1) / keys_at_once_);
}

const Problem& KeyStream::chunk(std::int64_t index) {
  if (index == made_)
    return chunk_;
  const std::int64_t first = index * keys_at_once_;
  const std::int64_t count = std::min(keys_at_once_, shape_.n_kv - first);
  if (made_ < 0 || chunk_.shape.n_kv != count) {
    chunk_.K = Tensor<float>(shape_.batch_heads, count, shape_.d);
    chunk_.V = Tensor<float>(shape_.batch_heads, count, shape_.dv);
    chunk_.shape.n_kv = count;
  }
  // Pieces of equal size, one job each.
  constexpr std::int64_t kPiece = 1024;
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  in_parallel(static_cast<std::size_t>(shape_.batch_heads * pieces), threads_, [&](std::size_t i) {
    const auto bh = static_cast<std::int64_t>(i) / pieces;
    const std::int64_t from = static_cast<std::int64_t>(i) % pieces * kPiece;
    const std::int64_t rows = std::min(kPiece, count - from);
    make_valid_rows(recipe_, shape_, Matrix::K, bh, first + from, rows,
                    chunk_.K.data() + (bh * count + from) * shape_.d);
    make_valid_rows(recipe_, shape_, Matrix::V, bh, first + from, rows,
                    chunk_.V.data() + (bh * count + from) * shape_.dv);
  });
  made_ = index;
  return chunk_;
}

} // namespace fa1::reference
