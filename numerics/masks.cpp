#include "numerics/masks.hpp"

#include "reference/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace fa1::numerics {
namespace {

using reference::Array;
using reference::FileError;

constexpr std::size_t kAxes = 4;

/// With strides of 0 where an axis is repeated, and [b, h, n_q, n_kv].
Array spread(Array array, const Mask::Extents& extents) {
  const std::vector<std::int64_t> want{extents.batches, extents.heads, extents.n_q, extents.n_kv};
  const std::size_t rank = array.shape.size();
  bool fits = rank >= 1 && rank <= kAxes;
  for (std::size_t i = 0; fits && i < rank; ++i)
    fits = array.shape[i] == 1 || array.shape[i] == want[kAxes - rank + i];
  if (!fits)
    throw FileError(fmt::format("{}: has shape {}; want {} for a mask, or 1 in the place of an "
                                "axis, or fewer axes",
                                array.name, reference::shape_text(array.shape),
                                reference::shape_text(want)));
  std::vector<std::int64_t> strides(kAxes, 0);
  for (std::size_t i = 0; i < rank; ++i)
    strides[kAxes - rank + i] = array.shape[i] == 1 ? 0 : array.strides[i];
  array.shape = want;
  array.strides = std::move(strides);
  return array;
}

/// Of a spread array.
std::vector<double> row_of(const Array& array, std::int64_t batch, std::int64_t head,
                           std::int64_t row, const Run& run) {
  std::vector<double> values(static_cast<std::size_t>(run.end - run.first));
  read_block(array,
             array.offset +
                 static_cast<std::uint64_t>(batch * array.strides[0] + head * array.strides[1] +
                                            row * array.strides[2] + run.first * array.strides[3]),
             {1, 0}, {run.end - run.first, array.strides[3]}, values);
  return values;
}

void add(Runs& runs, std::int64_t key) {
  if (!runs.empty() && runs.back().end == key)
    ++runs.back().end;
  else
    runs.push_back({key, key + 1});
}

std::string diagonal_text(const MaskOptions& options) {
  return options.corner == Corner::top_left ? "i"
         : options.lengths.empty()          ? "i + n_kv - n_q"
                                            : "i + length - n_q";
}

std::string moved(const std::string& diagonal, std::int64_t by) {
  return by == 0 ? diagonal : fmt::format("{} {} {}", diagonal, by < 0 ? "-" : "+", std::abs(by));
}

} // namespace

bool contains(const Runs& runs, std::int64_t key) {
  return std::ranges::any_of(runs,
                             [&](const Run& run) { return run.first <= key && key < run.end; });
}

reference::Problem with_keys(const reference::Problem& problem, const Runs& runs) {
  const reference::Shape& shape = problem.shape;
  reference::Problem part{shape, problem.scale, problem.Q, {}, {}};
  part.shape.n_kv = 0;
  for (const Run& run : runs)
    part.shape.n_kv += run.end - run.first;
  part.K = reference::Tensor<float>(shape.batch_heads, part.shape.n_kv, problem.K.columns());
  part.V = reference::Tensor<float>(shape.batch_heads, part.shape.n_kv, problem.V.columns());
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    std::int64_t at = 0;
    for (const Run& run : runs)
      for (std::int64_t j = run.first; j < run.end; ++j, ++at) {
        std::ranges::copy(problem.K.row(bh, j), part.K.row(bh, at).begin());
        std::ranges::copy(problem.V.row(bh, j), part.V.row(bh, at).begin());
      }
  }
  return part;
}

reference::Truth certify(const reference::Problem& problem, EmptyRow empty_row, unsigned threads) {
  reference::Truth truth = reference::certify(problem, threads);
  if (problem.shape.n_kv == 0 && empty_row == EmptyRow::nan) {
    const reference::Enclosed nan{std::numeric_limits<double>::quiet_NaN()};
    std::ranges::fill(truth.O.elements(), nan);
    std::ranges::fill(truth.LSE, nan);
  }
  return truth;
}

Mask::Mask(MaskOptions options, const Extents& extents)
    : options_(std::move(options)), extents_(extents) {
  const std::vector<std::int64_t>& lengths = options_.lengths;
  const auto count = static_cast<std::int64_t>(lengths.size());
  if (count > 0 && count != extents.batches && !(extents.batches == 1 && count == extents.heads))
    throw FileError(
        fmt::format("{} key lengths; want {}, one for each batch", count, extents.batches));
  for (const std::int64_t length : lengths)
    if (length < 0 || length > extents.n_kv)
      throw FileError(fmt::format("key length {}; want whole numbers from 0 to n_kv = {}", length,
                                  extents.n_kv));
  if (options_.array) {
    if (options_.true_is_masked && reference::is_floating(options_.array->dtype))
      throw FileError(
          fmt::format("{}: is of type {}, where 0 permits and -inf forbids; want a mask "
                      "of truth values or whole numbers if true is masked",
                      options_.array->name, reference::name_of(options_.array->dtype)));
    options_.array = spread(std::move(*options_.array), extents);
  }
  if (options_.bias) {
    if (!reference::is_floating(options_.bias->dtype))
      throw FileError(fmt::format("{}: is of type {}; want a bias of a floating type",
                                  options_.bias->name, reference::name_of(options_.bias->dtype)));
    options_.bias = spread(std::move(*options_.bias), extents);
  }
}

std::int64_t Mask::length(std::int64_t batch, std::int64_t head) const {
  if (options_.lengths.empty())
    return extents_.n_kv;
  const bool of_heads = std::cmp_not_equal(options_.lengths.size(), extents_.batches);
  return options_.lengths[static_cast<std::size_t>(of_heads ? head : batch)];
}

Runs Mask::permitted(std::int64_t batch, std::int64_t head, std::int64_t row) const {
  const std::int64_t keys = length(batch, head);
  const std::int64_t diagonal =
      options_.corner == Corner::top_left ? row : row + keys - extents_.n_q;
  const std::int64_t first =
      options_.left ? std::max<std::int64_t>(0, diagonal - *options_.left) : 0;
  const std::int64_t end = options_.right ? std::min(keys, diagonal + *options_.right + 1) : keys;
  if (first >= end)
    return {};
  if (!options_.array && !options_.bias)
    return {{first, end}};
  std::vector<double> values, bias;
  if (options_.array)
    values = row_of(*options_.array, batch, head, row, {first, end});
  if (options_.bias)
    bias = row_of(*options_.bias, batch, head, row, {first, end});
  const bool floating = options_.array && reference::is_floating(options_.array->dtype);
  Runs runs;
  for (std::int64_t j = first; j < end; ++j) {
    bool permits = true;
    if (options_.array) {
      const double value = values[static_cast<std::size_t>(j - first)];
      if (floating && value != 0.0 && !(std::isinf(value) && value < 0.0))
        throw FileError(
            fmt::format("{}: holds {:.6g}; want 0 or -inf in a mask of type {}, or --bias",
                        options_.array->name, value, reference::name_of(options_.array->dtype)));
      permits = floating ? value == 0.0 : (value != 0.0) != options_.true_is_masked;
    }
    if (options_.bias) {
      const double b = bias[static_cast<std::size_t>(j - first)];
      if (std::isnan(b) || b > std::numeric_limits<float>::max())
        throw FileError(fmt::format("{}: holds {:.6g}; want numbers of fp32, or -inf, in a bias",
                                    options_.bias->name, b));
      permits = permits && b >= std::numeric_limits<float>::lowest();
    }
    if (permits)
      add(runs, j);
  }
  return runs;
}

std::vector<double> Mask::bias(std::int64_t batch, std::int64_t head, std::int64_t row,
                               const Runs& runs) const {
  std::vector<double> all;
  for (const Run& run : runs)
    std::ranges::copy(row_of(*options_.bias, batch, head, row, run), std::back_inserter(all));
  return all;
}

std::vector<std::string> Mask::says() const {
  std::vector<std::string> lines;
  if (!options_.any())
    lines.emplace_back("masks: none");
  if (!options_.lengths.empty())
    lines.push_back(fmt::format("mask: key lengths, {} of {} keys at least and {} at most",
                                std::ranges::min(options_.lengths), extents_.n_kv,
                                std::ranges::max(options_.lengths)));
  if (options_.band()) {
    const std::string diagonal = diagonal_text(options_);
    lines.push_back(fmt::format("mask: {}, row i sees the keys {}j{}{}",
                                options_.left ? "window" : "causal",
                                options_.left ? moved(diagonal, -*options_.left) + " <= " : "",
                                options_.right ? " <= " + moved(diagonal, *options_.right) : "",
                                extents_.n_q == extents_.n_kv && options_.lengths.empty() ? ""
                                : options_.corner == Corner::top_left ? " (top-left)"
                                                                      : " (bottom-right)"));
  }
  if (options_.array)
    lines.push_back(fmt::format(
        "mask: {} of type {}, {}", options_.array->name, reference::name_of(options_.array->dtype),
        reference::is_floating(options_.array->dtype) ? "0 permits and -inf forbids"
        : options_.true_is_masked                     ? "true is masked"
                                                      : "true is permitted"));
  if (options_.softcap > 0.0)
    lines.push_back(fmt::format("softcap: {} tanh(s / {}){}", options_.softcap, options_.softcap,
                                options_.tanh_approx ? " by tanh.approx" : ""));
  if (options_.bias)
    lines.push_back(fmt::format("bias: {}, added to scaled{} scores; -inf forbids",
                                options_.bias->name, options_.softcap > 0.0 ? " and capped" : ""));
  return lines;
}

std::vector<std::int64_t> lengths_of(const Array& array) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (array.shape.size() != 1 || reference::is_floating(array.dtype) || array.shape[0] > kMost)
    throw FileError(fmt::format("{}: is of type {} and shape {}; want whole numbers, one for each "
                                "batch",
                                array.name, reference::name_of(array.dtype),
                                reference::shape_text(array.shape)));
  std::vector<double> values(static_cast<std::size_t>(array.shape[0]));
  read_block(array, array.offset, {1, 0}, {array.shape[0], array.strides[0]}, values);
  std::vector<std::int64_t> lengths;
  for (const double value : values)
    lengths.push_back(static_cast<std::int64_t>(value));
  return lengths;
}

std::vector<OtherMask> other_masks(const Mask& mask) {
  const MaskOptions& asked = mask.options();
  const Mask::Extents& extents = mask.extents();
  std::vector<OtherMask> others;
  const auto add_other = [&](std::string says) -> MaskOptions& {
    others.push_back({std::move(says), asked});
    return others.back().options;
  };
  if (!asked.any())
    return others;
  const bool several =
      int{asked.band()} + int{!asked.lengths.empty()} + int{asked.array.has_value()} > 1;
  if (asked.bias) {
    add_other("the bias is ignored").bias.reset();
    add_other("the bias is scaled with the scores: scale (q.k + b)").bias_is_scaled = true;
  }
  if (asked.bias && asked.softcap > 0.0)
    add_other("the bias is added before the soft cap").cap_comes_last = true;
  if (asked.softcap > 0.0)
    add_other("the soft cap is ignored").softcap = 0.0;
  if (asked.band() || !asked.lengths.empty() || asked.array) {
    MaskOptions& none = add_other(several || asked.lengths.empty()
                                      ? "the mask is ignored: every key is counted"
                                      : "the key lengths are ignored: padding keys are counted");
    none.left = none.right = std::nullopt;
    none.lengths.clear();
    none.array.reset();
  }
  if (asked.band()) {
    const char* const name = asked.left ? "window" : "causal mask";
    if (several) {
      MaskOptions& none = add_other(fmt::format("the {} is ignored", name));
      none.left = none.right = std::nullopt;
    }
    if (asked.left && asked.right) {
      add_other("the left limit of the window is ignored").left.reset();
      add_other("the right limit of the window is ignored: keys after it are counted")
          .right.reset();
    }
    if (extents.n_q != extents.n_kv || !asked.lengths.empty()) {
      const bool top = asked.corner == Corner::top_left;
      add_other(fmt::format("the {} is aligned at the {}: row i's diagonal is key {}", name,
                            top ? "bottom right" : "top left", top ? "i + n_kv - n_q" : "i"))
          .corner = top ? Corner::bottom_right : Corner::top_left;
    }
    if (asked.right == 0) {
      *add_other(
           "the mask is off by one: the diagonal is forbidden, row i sees only the keys before it")
           .right -= 1;
      *add_other("the mask is off by one: each row sees the key after its diagonal, too").right +=
          1;
    } else if (asked.right) {
      *add_other("the window is one key too narrow on the right").right -= 1;
      *add_other("the window is one key too wide on the right").right += 1;
    }
    if (asked.left) {
      *add_other("the window is one key too narrow on the left").left -= 1;
      *add_other("the window is one key too wide on the left").left += 1;
    }
  }
  if (!asked.lengths.empty()) {
    if (several)
      add_other("the key lengths are ignored: padding keys are counted").lengths.clear();
    const auto each = [&](std::string says, auto&& change) {
      for (std::int64_t& length : add_other(std::move(says)).lengths)
        length = change(length);
    };
    each("one key too few is counted: the last one of each length is missing",
         [](std::int64_t length) { return std::max<std::int64_t>(0, length - 1); });
    each("one key too many is counted: the first padding key of each length",
         [&](std::int64_t length) { return std::min(extents.n_kv, length + 1); });
    each("the key length of the first batch is used for all",
         [&](std::int64_t) { return asked.lengths.front(); });
  }
  if (asked.array) {
    if (several)
      add_other("the mask array is ignored").array.reset();
    if (!reference::is_floating(asked.array->dtype)) {
      MaskOptions& inverted = add_other(
          fmt::format("the mask is taken the other way round: it is right {} --mask-true-is-masked",
                      asked.true_is_masked ? "without" : "with"));
      inverted.true_is_masked = !asked.true_is_masked;
    }
    if (extents.n_q == extents.n_kv) {
      MaskOptions& turned = add_other("rows and columns of the mask array have changed places");
      std::swap(turned.array->strides[2], turned.array->strides[3]);
    }
    add_other("the mask array of the first batch is used for all").array->strides[0] = 0;
    add_other("the mask array of the first head is used for all").array->strides[1] = 0;
  }
  return others;
}

} // namespace fa1::numerics
