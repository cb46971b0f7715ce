#include "reference/recipe_parts.hpp"
#include "reference/recorded.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace fa1::reference {
namespace {

// ---------------------------------------------------------------------------------------------------
// Names

struct FamilyName {
  Family family;
  std::string_view name;
};
constexpr std::array<FamilyName, 12> kFamilies{{
    {Family::normal, "normal"},
    {Family::uniform, "uniform"},
    {Family::outliers, "outliers"},
    {Family::pow2, "pow2"},
    {Family::ints, "ints"},
    {Family::subnormal, "subnormal"},
    {Family::zero, "zero"},
    {Family::positive, "positive"},
    {Family::alternating, "alternating"},
    {Family::index, "index"},
    {Family::index1, "index1"},
    {Family::constant, "constant"},
}};
constexpr std::size_t kScoreFamilies = 7; ///< the first seven can make Q and K

struct OrderName {
  Order order;
  std::string_view name;
};
constexpr std::array<OrderName, 5> kOrders{{
    {Order::free, "free"},
    {Order::ascending, "ascending"},
    {Order::descending, "descending"},
    {Order::tied, "tied"},
    {Order::dominant, "dominant"},
}};

constexpr std::string_view kKeys =
    "bh n_q n_kv d dv rows scale seed recorded dist sigma order gap v Q K V scores put";

/// `n_kv=-3: want an integer` with the value shortened, so that the message stays one readable
/// line.
[[noreturn]] void fail(std::string_view key, std::string_view found, const std::string& want) {
  constexpr std::size_t kShown = 60;
  std::string shown(found.substr(0, kShown));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = '?';
  if (found.size() > kShown)
    shown += "...";
  throw RecipeError("recipe: " + std::string(key) + "=" + shown + ": want " + want);
}

// ---------------------------------------------------------------------------------------------------
// Numbers to text and back; locale plays no part

std::string text_of(float value) {
  if (std::isnan(value))
    return "nan";
  std::array<char, 64> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : "?";
}

/// Decimal or hexadecimal (0x1p-149), nan, inf; nullopt if it is none or does not fit fp32.
std::optional<float> read_float(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto with_sign = [negative](float value) { return negative ? -value : value; };
  if (text == "nan")
    return std::numeric_limits<float>::quiet_NaN();
  if (text == "inf")
    return with_sign(std::numeric_limits<float>::infinity());
  std::chars_format format = std::chars_format::general;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    format = std::chars_format::hex;
  }
  // from_chars itself would take another sign, "infinity" and "nan(...)".
  const bool hexadecimal = format == std::chars_format::hex;
  const auto is_digit = [hexadecimal](char c) {
    return (c >= '0' && c <= '9') ||
           (hexadecimal && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
  };
  if (text.empty() || !(is_digit(text.front()) || text.front() == '.'))
    return std::nullopt;
  float value = 0.0f;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (error != std::errc{} || end != text.data() + text.size() || std::isinf(value))
    return std::nullopt;
  const std::string_view digits = text.substr(0, text.find_first_of(hexadecimal ? "pP" : "eE"));
  const bool written_as_zero = digits.find_first_not_of("0.") == std::string_view::npos;
  if (value == 0.0f && !written_as_zero) // below half the smallest subnormal
    return std::nullopt;
  return with_sign(value);
}

float finite_float(std::string_view key, std::string_view text) {
  const std::optional<float> value = read_float(text);
  if (!value || !std::isfinite(*value))
    fail(key, text, "a finite fp32 number");
  return *value;
}

float any_float(std::string_view key, std::string_view text) {
  const std::optional<float> value = read_float(text);
  if (!value)
    fail(key, text, "an fp32 number, nan, inf or -inf");
  return *value;
}

template <class Integer> std::optional<Integer> read_integer(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

constexpr std::int64_t kMaxRows = kMaxBytes / std::int64_t{sizeof(float)};

// What judging takes beside the tensors, in floats: truth, bound and expectation of an output;
// carries, truths and bounds of a row; scores, weights and their errors of a key. Q, K and V count
// twice: a kernel may pad them.
constexpr std::int64_t kFloatsAnOutput = 34;
constexpr std::int64_t kFloatsARow = 82;
constexpr std::int64_t kFloatsAKey = 32;

std::int64_t extent(std::string_view key, std::string_view text, std::int64_t most) {
  const auto value = read_integer<std::int64_t>(text);
  if (!value || *value < 0 || *value > most)
    fail(key, text, "an integer from 0 to " + std::to_string(most));
  return *value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

template <class Table> std::string names_in(const Table& table, std::size_t count) {
  std::string names;
  for (std::size_t i = 0; i < count; ++i)
    names += (i == 0 ? "" : " ") + std::string(table[i].name);
  return names;
}

// ---------------------------------------------------------------------------------------------------
// The keys that are more than one number

Family family_of(std::string_view key, std::string_view text, std::size_t allowed) {
  for (std::size_t i = 0; i < allowed; ++i)
    if (kFamilies[i].name == text)
      return kFamilies[i].family;
  fail(key, text,
       "one of " + names_in(kFamilies, allowed) + (allowed == kFamilies.size() ? ":X" : ""));
}

Order order_of(std::string_view text) {
  for (const OrderName& row : kOrders)
    if (row.name == text)
      return row.order;
  fail("order", text, "one of " + names_in(kOrders, kOrders.size()));
}

void read_v(Recipe& recipe, std::string_view text) {
  constexpr std::string_view kConstant = "constant:";
  if (text.starts_with(kConstant)) {
    recipe.v = Family::constant;
    recipe.v_constant = any_float("v", text.substr(kConstant.size()));
    return;
  }
  if (text == "constant")
    fail("v", text, "constant:X with X an fp32 number");
  recipe.v = family_of("v", text, kFamilies.size());
}

std::vector<Run> read_list(std::string_view key, std::string_view text) {
  std::vector<Run> runs;
  const std::vector<std::string_view> parts = split(text, ',');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t star = parts[i].find('*');
    Run run{any_float(key, parts[i].substr(0, star)), 1};
    if (star != std::string_view::npos) {
      const std::string_view count = parts[i].substr(star + 1);
      if (count.empty()) {
        if (i + 1 != parts.size())
          fail(key, parts[i], "`x*` (fill the rest) at the end of the list only");
        run.count = -1;
      } else {
        const auto value = read_integer<std::int64_t>(count);
        if (!value || *value < 1 || *value > kMaxRows)
          fail(key, parts[i], "`x*n` with n an integer from 1 to " + std::to_string(kMaxRows));
        run.count = *value;
      }
    }
    runs.push_back(run);
  }
  return runs;
}

/// Entries that a list names; at most kMaxRows + 1, so that no sum can overflow.
std::int64_t length_of(const std::vector<Run>& runs) {
  std::int64_t length = 0;
  for (const Run& run : runs)
    length = std::min(length + std::max(run.count, std::int64_t{0}), kMaxRows + 1);
  return length;
}

bool fills(const std::vector<Run>& runs) { return !runs.empty() && runs.back().count < 0; }

std::vector<Put> read_puts(std::string_view text) {
  const std::string want = "M:row,column:value with M one of Q K V, several joined by `;`";
  std::vector<Put> puts;
  for (const std::string_view part : split(text, ';')) {
    const std::vector<std::string_view> fields = split(part, ':');
    if (fields.size() != 3 || fields[0].size() != 1)
      fail("put", part, want);
    Put put;
    switch (fields[0].front()) {
    case 'Q':
      put.matrix = Matrix::Q;
      break;
    case 'K':
      put.matrix = Matrix::K;
      break;
    case 'V':
      put.matrix = Matrix::V;
      break;
    default:
      fail("put", part, want);
    }
    const std::vector<std::string_view> place = split(fields[1], ',');
    if (place.size() != 2)
      fail("put", part, want);
    const auto row = read_integer<std::int64_t>(place[0]);
    const auto column = read_integer<std::int64_t>(place[1]);
    if (!row || !column || *row < 0 || *column < 0)
      fail("put", part, want);
    put.row = *row;
    put.column = *column;
    const std::optional<float> value = read_float(fields[2]);
    if (!value)
      fail("put", part, "a value that is an fp32 number, nan, inf or -inf");
    put.value = *value;
    puts.push_back(put);
  }
  return puts;
}

std::string text_of(const std::vector<Run>& runs) {
  std::string text;
  for (const Run& run : runs) {
    if (!text.empty())
      text += ',';
    text += text_of(run.value);
    if (run.count < 0)
      text += '*';
    else if (run.count != 1)
      text += '*' + std::to_string(run.count);
  }
  return text;
}

std::string text_of(const std::vector<Put>& puts) {
  std::string text;
  for (const Put& put : puts) {
    if (!text.empty())
      text += ';';
    text += std::string(name_of(put.matrix)) + ':' + std::to_string(put.row) + ',' +
            std::to_string(put.column) + ':' + text_of(put.value);
  }
  return text;
}

// ---------------------------------------------------------------------------------------------------
// Meaning: extents and their limits

void require_extent(std::string_view key, std::int64_t value, std::int64_t most) {
  if (value < 0 || value > most)
    fail(key, std::to_string(value), "an integer from 0 to " + std::to_string(most));
}

void require_finite(std::string_view key, float value) {
  if (!std::isfinite(value))
    fail(key, text_of(value), "a finite fp32 number");
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool same(const std::vector<Run>& a, const std::vector<Run>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Run& x, const Run& y) {
    return same(x.value, y.value) && x.count == y.count;
  });
}

/// A recorded head is no larger than it was recorded, and leaves no family a say.
void require_recorded(const Recipe& recipe, const Shape& shape) {
  const RecordedHead& head = recorded_head(recipe.recorded);
  require_extent("n_q", shape.n_q, head.rows);
  require_extent("n_kv", shape.n_kv, head.rows);
  require_extent("d", shape.d, head.columns);
  require_extent("dv", shape.dv, head.columns);
  const Recipe standard;
  for (const auto& [key, given] :
       {std::pair("dist", recipe.dist != standard.dist),
        std::pair("order", recipe.order != standard.order),
        std::pair("gap", !same(recipe.gap, standard.gap)), std::pair("v", recipe.v != standard.v)})
    if (given)
      throw RecipeError(std::string("recipe: ") + key +
                        " beside recorded: want one of the two, recorded sets it");
}

/// Largest |entry| that a family of Q and K can make; normals come from 32 bits, hence |x| < 6.5.
double most_of(Family family) {
  switch (family) {
  case Family::normal:
    return 6.5;
  case Family::outliers:
    return 6.5 * 11;
  case Family::pow2:
    return 256;
  case Family::ints:
    return 4;
  default:
    return 1;
  }
}

double most_in_Q(const Recipe& recipe) {
  return recipe.recorded.empty() ? most_of(recipe.dist)
                                 : recorded_head(recipe.recorded).largest_in_Q;
}

void require_list(const std::vector<Run>& runs, std::string_view key, std::int64_t rows,
                  std::int64_t columns, const char* product) {
  if (runs.empty())
    return;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].count == 0 || runs[i].count < -1 || (runs[i].count == -1 && i + 1 != runs.size()))
      fail(key, text_of(runs), "counts of at least 1, and `x*` at the end only");
  const std::int64_t wanted = rows * columns;
  const std::int64_t length = length_of(runs);
  if (length > wanted || (length < wanted && !fills(runs)))
    fail(key, text_of(runs),
         std::string(product) + " = " + std::to_string(wanted) + " entries, not " +
             std::to_string(length));
}

} // namespace

std::string_view name_of(Matrix matrix) {
  switch (matrix) {
  case Matrix::Q:
    return "Q";
  case Matrix::K:
    return "K";
  case Matrix::V:
    return "V";
  }
  throw RecipeError("recipe: no such matrix");
}

bool fits_memory(const Shape& shape, std::int64_t keys_at_once) {
  // Extents are at most 2^31 and 2^8, so no term below passes 2^44; times batch-heads needs care.
  const std::int64_t floats = shape.n_q * (2 * shape.d + kFloatsAnOutput * shape.dv + kFloatsARow) +
                              keys_at_once * 2 * (shape.d + shape.dv);
  const std::int64_t most = kMaxRows - std::min(kMaxRows, keys_at_once * kFloatsAKey);
  return shape.batch_heads == 0 || floats <= most / shape.batch_heads;
}

void require_memory(const Shape& shape, std::int64_t keys_at_once, const char* advice) {
  if (!fits_memory(shape, keys_at_once))
    throw RecipeError("recipe: bh=" + std::to_string(shape.batch_heads) +
                      " n_q=" + std::to_string(shape.n_q) + " n_kv=" + std::to_string(shape.n_kv) +
                      " d=" + std::to_string(shape.d) + " dv=" + std::to_string(shape.dv) +
                      ": want a problem that can be made, run and judged within " +
                      std::to_string(kMaxBytes >> 30) + " GiB" + advice);
}

Shape validated(const Recipe& recipe) {
  const Shape shape{recipe.batch_heads, recipe.n_q, recipe.n_kv, recipe.d,
                    recipe.dv.value_or(recipe.d)};
  require_extent("bh", shape.batch_heads, kMaxRows);
  require_extent("n_q", shape.n_q, kMaxRows);
  require_extent("n_kv", shape.n_kv, kMaxRows);
  require_extent("d", shape.d, kMaxHeadDimension);
  require_extent("dv", shape.dv, kMaxHeadDimension);

  if (recipe.rows)
    require_extent("rows", *recipe.rows, kMaxRows);
  require_memory(sampled(shape, recipe), std::min(shape.n_kv, kMinKeysAtOnce), "");

  if (recipe.scale)
    require_finite("scale", *recipe.scale);
  require_finite("sigma", recipe.sigma);
  if (!recipe.recorded.empty())
    require_recorded(recipe, shape);
  if (static_cast<std::size_t>(recipe.dist) >= kScoreFamilies)
    fail("dist", name_of(recipe.dist), "one of " + names_in(kFamilies, kScoreFamilies));
  if (static_cast<double>(std::fabs(recipe.sigma)) * most_in_Q(recipe) >
      static_cast<double>(std::numeric_limits<float>::max()))
    fail("sigma", text_of(recipe.sigma), "a factor that keeps every entry of Q within fp32");
  if (!(recipe.gap >= 0) || !std::isfinite(recipe.gap))
    fail("gap", text_of(recipe.gap), "a finite fp32 number, 0 or more");
  if (recipe.order == Order::dominant && recipe.K.empty()) {
    if (shape.d == 0)
      fail("order", "dominant", "d of at least 1 with it");
    const double key =
        static_cast<double>(recipe.gap) / std::fabs(static_cast<double>(scale_of(recipe)));
    if (!(key < 0x1.fffffcp127)) // leaves room to round away; also catches scale = 0
      fail("gap", text_of(recipe.gap), "gap / scale within fp32");
  }

  require_list(recipe.Q, "Q", shape.n_q, shape.d, "n_q * d");
  require_list(recipe.K, "K", shape.n_kv, shape.d, "n_kv * d");
  require_list(recipe.V, "V", shape.n_kv, shape.dv, "n_kv * dv");
  for (const Put& put : recipe.put)
    if (put.row < 0 || put.row >= rows_of(shape, put.matrix) || put.column < 0 ||
        put.column >= columns_of(shape, put.matrix))
      fail("put", text_of(std::vector<Put>{put}),
           "a row below " + std::to_string(rows_of(shape, put.matrix)) + " and a column below " +
               std::to_string(columns_of(shape, put.matrix)));
  return shape;
}

bool operator==(const Recipe& a, const Recipe& b) {
  const bool same_scale =
      a.scale.has_value() == b.scale.has_value() && (!a.scale || same(*a.scale, *b.scale));
  const bool same_puts = std::equal(a.put.begin(), a.put.end(), b.put.begin(), b.put.end(),
                                    [](const Put& x, const Put& y) {
                                      return x.matrix == y.matrix && x.row == y.row &&
                                             x.column == y.column && same(x.value, y.value);
                                    });
  return a.batch_heads == b.batch_heads && a.n_q == b.n_q && a.rows == b.rows && a.n_kv == b.n_kv &&
         a.d == b.d && a.dv == b.dv && same_scale && a.seed == b.seed && a.recorded == b.recorded &&
         a.dist == b.dist && same(a.sigma, b.sigma) && a.order == b.order && same(a.gap, b.gap) &&
         a.v == b.v && same(a.v_constant, b.v_constant) && same(a.Q, b.Q) && same(a.K, b.K) &&
         same(a.V, b.V) && same_puts;
}

namespace {

using Keys = std::set<std::string, std::less<>>;

/// Sizes that nobody gave are the recorded ones.
void take_recorded_sizes(Recipe& recipe, const Keys& given) {
  if (given.contains("scores"))
    throw RecipeError("recipe: scores beside recorded: want one of the two");
  const RecordedHead& head = recorded_head(recipe.recorded);
  for (const auto& [key, size, recorded] :
       {std::tuple("n_q", &recipe.n_q, head.rows), std::tuple("n_kv", &recipe.n_kv, head.rows),
        std::tuple("d", &recipe.d, head.columns)})
    if (!given.contains(key))
      *size = recorded;
}

} // namespace

Recipe parse_recipe(std::string_view text) {
  Recipe recipe;
  Keys seen;
  constexpr std::string_view kBlank = " \t\r\n";
  for (;;) {
    const std::size_t start = text.find_first_not_of(kBlank);
    if (start == std::string_view::npos)
      break;
    text.remove_prefix(start);
    const std::string_view token = text.substr(0, text.find_first_of(kBlank));
    text.remove_prefix(token.size());

    const std::size_t equals = token.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw RecipeError("recipe: '" + std::string(token.substr(0, 60)) + "': want key=value");
    const std::string_view key = token.substr(0, equals);
    const std::string_view value = token.substr(equals + 1);
    if (!seen.emplace(key).second)
      fail(key, value, "the key once, it is there twice");

    if (key == "bh")
      recipe.batch_heads = extent(key, value, kMaxRows);
    else if (key == "n_q")
      recipe.n_q = extent(key, value, kMaxRows);
    else if (key == "rows")
      recipe.rows = extent(key, value, kMaxRows);
    else if (key == "n_kv")
      recipe.n_kv = extent(key, value, kMaxRows);
    else if (key == "d")
      recipe.d = extent(key, value, kMaxHeadDimension);
    else if (key == "dv")
      recipe.dv = extent(key, value, kMaxHeadDimension);
    else if (key == "scale") {
      if (value != "auto") {
        const std::optional<float> number = read_float(value);
        if (!number || !std::isfinite(*number))
          fail(key, value, "a finite fp32 number or `auto`");
        recipe.scale = number;
      }
    } else if (key == "seed") {
      const auto number = read_integer<std::uint64_t>(value);
      if (!number)
        fail(key, value, "an integer from 0 to 18446744073709551615");
      recipe.seed = *number;
    } else if (key == "recorded") {
      recipe.recorded = recorded_head(value).name;
    } else if (key == "dist")
      recipe.dist = family_of(key, value, kScoreFamilies);
    else if (key == "sigma")
      recipe.sigma = finite_float(key, value);
    else if (key == "order")
      recipe.order = order_of(value);
    else if (key == "gap")
      recipe.gap = finite_float(key, value);
    else if (key == "v")
      read_v(recipe, value);
    else if (key == "Q")
      recipe.Q = read_list(key, value);
    else if (key == "K")
      recipe.K = read_list(key, value);
    else if (key == "V")
      recipe.V = read_list(key, value);
    else if (key == "scores") {
      recipe.K = read_list(key, value);
      if (fills(recipe.K))
        fail(key, value, "a list of known length, without `x*`");
    } else if (key == "put")
      recipe.put = read_puts(value);
    else
      throw RecipeError("recipe: unknown key '" + std::string(key.substr(0, 60)) +
                        "': want one of " + std::string(kKeys));
  }
  if (seen.contains("scores")) {
    for (const char* other : {"d", "scale", "Q", "K", "n_kv"})
      if (seen.contains(other))
        throw RecipeError(std::string("recipe: ") + other +
                          " beside scores: want one of the two, scores sets it");
    recipe.d = 1;
    recipe.scale = 1.0f;
    recipe.Q = {Run{1.0f, -1}};
    recipe.n_kv = length_of(recipe.K);
  }
  if (!recipe.recorded.empty())
    take_recorded_sizes(recipe, seen);
  validated(recipe);
  return recipe;
}

std::string to_string(const Recipe& recipe) {
  const Recipe standard;
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += (text.empty() ? "" : " ") + std::string(key) + "=" + value;
  };
  if (recipe.batch_heads != standard.batch_heads)
    add("bh", std::to_string(recipe.batch_heads));
  add("n_q", std::to_string(recipe.n_q));
  add("n_kv", std::to_string(recipe.n_kv));
  if (recipe.d != standard.d || !recipe.recorded.empty())
    add("d", std::to_string(recipe.d));
  if (recipe.dv)
    add("dv", std::to_string(*recipe.dv));
  if (recipe.rows)
    add("rows", std::to_string(*recipe.rows));
  if (recipe.scale)
    add("scale", text_of(*recipe.scale));
  if (recipe.seed != standard.seed)
    add("seed", std::to_string(recipe.seed));
  if (!recipe.recorded.empty())
    add("recorded", recipe.recorded);
  if (recipe.dist != standard.dist)
    add("dist", std::string(name_of(recipe.dist)));
  if (!same(recipe.sigma, standard.sigma))
    add("sigma", text_of(recipe.sigma));
  if (recipe.order != standard.order)
    add("order", std::string(name_of(recipe.order)));
  if (!same(recipe.gap, standard.gap))
    add("gap", text_of(recipe.gap));
  if (recipe.v == Family::constant)
    add("v", "constant:" + text_of(recipe.v_constant));
  else if (recipe.v != standard.v)
    add("v", std::string(name_of(recipe.v)));
  for (const Matrix matrix : {Matrix::Q, Matrix::K, Matrix::V})
    if (const std::vector<Run>& list = list_of(recipe, matrix); !list.empty())
      add(name_of(matrix), text_of(list));
  if (!recipe.put.empty())
    add("put", text_of(recipe.put));
  return text;
}

Shape shape_of(const Recipe& recipe) { return sampled(validated(recipe), recipe); }

float scale_of(const Recipe& recipe) {
  if (recipe.scale) {
    require_finite("scale", *recipe.scale);
    return *recipe.scale;
  }
  if (recipe.d <= 0) // every score is 0 then, whatever the scale
    return 1.0f;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(recipe.d)));
}

std::string_view name_of(Family family) { return kFamilies[static_cast<std::size_t>(family)].name; }
std::string_view name_of(Order order) { return kOrders[static_cast<std::size_t>(order)].name; }

} // namespace fa1::reference
