#include "numerics/judge_files.hpp"

#include "reference/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fa1::numerics {
namespace {

using reference::Array;
using reference::FileError;

constexpr std::int64_t kEntriesAtOnce = std::int64_t{1} << 18;

[[noreturn]] void refuse(const Array& array, std::string_view want) {
  throw FileError(fmt::format("{}: has shape {}; want {}", array.name,
                              reference::shape_text(array.shape), want));
}

void require_floating(const Array& array) {
  if (!reference::is_floating(array.dtype))
    throw FileError(fmt::format("{}: is of type {}; want f64, f32, f16, bf16 or fp8", array.name,
                                reference::name_of(array.dtype)));
}

void require_same(const Heads& one, const Heads& other, std::string_view axis, std::int64_t a,
                  std::int64_t b, Layout layout) {
  if (a != b)
    throw FileError(fmt::format("{} has {} {} and {} has {} (shapes {} and {}{}); want the same",
                                one.array.name, a, axis, other.array.name, b,
                                reference::shape_text(one.array.shape),
                                reference::shape_text(other.array.shape),
                                one.array.shape.size() < 4 ? ""
                                : layout == Layout::bhnd   ? ", read as [b, h, n, d]"
                                                           : ", read as [b, n, h, d]"));
}

} // namespace

FormatId format_of(reference::Dtype dtype) {
  using reference::Dtype;
  switch (dtype) {
  case Dtype::f16:
    return FormatId::fp16;
  case Dtype::bf16:
    return FormatId::bf16;
  case Dtype::f8_e4m3:
    return FormatId::e4m3;
  case Dtype::f8_e5m2:
    return FormatId::e5m2;
  default:
    return FormatId::fp32;
  }
}

Heads heads_of(const Array& array, Layout layout) {
  require_floating(array);
  Heads heads{array};
  const auto& shape = array.shape;
  const auto& strides = array.strides;
  const std::size_t rank = shape.size();
  if (rank < 2 || rank > 4)
    refuse(array, "[n, d], [bh, n, d] or, with --layout, four axes");
  heads.columns = shape[rank - 1];
  heads.column_stride = strides[rank - 1];
  const std::size_t row_axis = rank == 4 && layout == Layout::bnhd ? 1 : rank - 2;
  heads.rows = shape[row_axis];
  heads.row_stride = strides[row_axis];
  if (rank > 2) {
    const std::size_t head_axis = rank == 3 ? 0 : layout == Layout::bnhd ? 2 : 1;
    heads.heads = shape[head_axis];
    heads.head_stride = strides[head_axis];
  }
  if (rank == 4) {
    heads.batches = shape[0];
    heads.batch_stride = strides[0];
  }
  return heads;
}

Heads heads_of_LSE(const Array& array, const Heads& O, Layout layout) {
  require_floating(array);
  Heads heads{array};
  heads.batches = O.batches;
  heads.heads = O.heads;
  heads.rows = O.rows;
  const std::size_t rank = O.array.shape.size();
  std::vector<std::int64_t> heads_first{O.batches, O.heads, O.rows};
  const std::vector<std::int64_t> rows_first{O.batches, O.rows, O.heads};
  heads_first.erase(heads_first.begin(), heads_first.end() - static_cast<std::ptrdiff_t>(rank - 1));
  const bool swapped = rank == 4 && layout == Layout::bnhd && array.shape != heads_first &&
                       array.shape == rows_first;
  if (array.shape != heads_first && !swapped)
    refuse(array, fmt::format("{} for LSE", reference::shape_text(heads_first)));
  heads.row_stride = array.strides[swapped ? 1 : rank - 2];
  if (rank > 2)
    heads.head_stride = array.strides[swapped ? 2 : rank - 3];
  if (rank == 4)
    heads.batch_stride = array.strides[0];
  return heads;
}

Quartet quartet_of(const JudgeInput& input, Layout layout) {
  Quartet all{
      heads_of(input.Q, layout), heads_of(input.K, layout), heads_of(input.V, layout), {}, {}};
  const Heads &Q = all.Q, &K = all.K, &V = all.V;
  const auto same_rank = [&](const Array& array) {
    if (array.shape.size() != input.Q.shape.size())
      refuse(array, fmt::format("{} axes as {} has", input.Q.shape.size(), input.Q.name));
  };
  same_rank(input.K);
  same_rank(input.V);
  require_same(Q, K, "batches", Q.batches, K.batches, layout);
  require_same(Q, K, "columns", Q.columns, K.columns, layout);
  require_same(K, V, "batches", K.batches, V.batches, layout);
  require_same(K, V, "heads", K.heads, V.heads, layout);
  require_same(K, V, "keys", K.rows, V.rows, layout);
  if (K.heads == 0 ? Q.heads != 0 : Q.heads % K.heads != 0)
    throw FileError(fmt::format("{} has {} heads and {} has {}{}; want a multiple", Q.array.name,
                                Q.heads, K.array.name, K.heads,
                                input.Q.shape.size() < 4 ? ""
                                : layout == Layout::bhnd ? " (read as [b, h, n, d])"
                                                         : " (read as [b, n, h, d])"));
  for (const Array& array : input.O) {
    same_rank(array);
    const Heads O = heads_of(array, layout);
    require_same(Q, O, "batches", Q.batches, O.batches, layout);
    require_same(Q, O, "heads", Q.heads, O.heads, layout);
    require_same(Q, O, "rows", Q.rows, O.rows, layout);
    require_same(V, O, "columns", V.columns, O.columns, layout);
    all.O.push_back(O);
  }
  if (input.LSE)
    all.LSE = heads_of_LSE(*input.LSE, all.O.at(0), layout);
  return all;
}

void read_rows(const Heads& heads, std::int64_t batch, std::int64_t head,
               std::span<const std::int64_t> rows, std::span<double> out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t most =
      std::max<std::int64_t>(1, kEntriesAtOnce / std::max<std::int64_t>(1, heads.columns));
  const auto place =
      static_cast<std::uint64_t>(batch * heads.batch_stride + head * heads.head_stride);
  for (std::int64_t at = 0; at < count;) {
    std::int64_t end = at + 1; // of a run of neighbours
    while (end < count && end - at < most &&
           rows[static_cast<std::size_t>(end)] == rows[static_cast<std::size_t>(end - 1)] + 1)
      ++end;
    const std::int64_t row = rows[static_cast<std::size_t>(at)];
    read_block(heads.array,
               heads.array.offset + place + static_cast<std::uint64_t>(row * heads.row_stride),
               {end - at, heads.row_stride}, {heads.columns, heads.column_stride},
               out.subspan(static_cast<std::size_t>(at * heads.columns),
                           static_cast<std::size_t>((end - at) * heads.columns)));
    at = end;
  }
}

void to_floats(const std::string& name, std::span<const double> values, std::span<float> out,
               std::int64_t& rounded) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    out[i] = static_cast<float>(x);
    if (std::isinf(out[i]) && std::isfinite(x))
      throw FileError(fmt::format("{}: holds {:.6g}, which is beyond the range of fp32; want "
                                  "numbers below 3.4e38",
                                  name, x));
    rounded += !std::isnan(x) && double{out[i]} != x;
  }
}

reference::Tensor<float> read_floats(const Heads& heads, std::int64_t batch, std::int64_t head,
                                     std::span<const std::int64_t> rows, std::int64_t& rounded) {
  reference::Tensor<float> out(1, static_cast<std::int64_t>(rows.size()), heads.columns);
  const auto most = static_cast<std::size_t>(
      std::max<std::int64_t>(1, kEntriesAtOnce / std::max<std::int64_t>(1, heads.columns)));
  std::vector<double> values;
  for (std::size_t at = 0; at < rows.size(); at += most) {
    const auto part = rows.subspan(at, std::min(most, rows.size() - at));
    const auto columns = static_cast<std::size_t>(heads.columns);
    values.resize(part.size() * columns);
    read_rows(heads, batch, head, part, values);
    to_floats(heads.array.name, values, out.elements().subspan(at * columns, values.size()),
              rounded);
  }
  return out;
}

float automatic_scale(std::int64_t d) {
  reference::Recipe recipe;
  recipe.d = d;
  return reference::scale_of(recipe);
}

reference::Problem problem_of(const JudgeInput& input, Layout layout, std::optional<float> scale) {
  const Quartet files = quartet_of(input, layout);
  const reference::Shape shape{files.Q.batches * files.Q.heads, files.Q.rows, files.K.rows,
                               files.Q.columns, files.V.columns};
  reference::require_memory(shape, shape.n_kv, "want smaller arrays");
  reference::Problem problem{shape, scale.value_or(automatic_scale(files.Q.columns)),
                             reference::Tensor<float>(shape.batch_heads, shape.n_q, shape.d),
                             reference::Tensor<float>(shape.batch_heads, shape.n_kv, shape.d),
                             reference::Tensor<float>(shape.batch_heads, shape.n_kv, shape.dv)};
  const auto copy = [](const Heads& from, std::int64_t batch, std::int64_t head,
                       reference::Tensor<float>& to, std::int64_t bh) {
    std::int64_t rounded = 0;
    const reference::Tensor<float> part =
        read_floats(from, batch, head, all_rows(from.rows), rounded);
    std::ranges::copy(part.elements(), to.data() + bh * part.size());
  };
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    const std::int64_t batch = bh / files.Q.heads, head = bh % files.Q.heads;
    copy(files.Q, batch, head, problem.Q, bh);
    copy(files.K, batch, head / files.group(), problem.K, bh);
    copy(files.V, batch, head / files.group(), problem.V, bh);
  }
  return problem;
}

NotFinite scan(const Heads& heads) {
  NotFinite found;
  const std::int64_t most =
      std::max<std::int64_t>(1, kEntriesAtOnce / std::max<std::int64_t>(1, heads.columns));
  std::vector<double> values;
  for (std::int64_t b = 0; b < heads.batches; ++b)
    for (std::int64_t h = 0; h < heads.heads; ++h)
      for (std::int64_t first = 0; first < heads.rows; first += most) {
        std::vector<std::int64_t> rows = all_rows(std::min(most, heads.rows - first));
        for (std::int64_t& row : rows)
          row += first;
        values.resize(rows.size() * static_cast<std::size_t>(heads.columns));
        read_rows(heads, b, h, rows, values);
        for (std::size_t e = 0; e < values.size(); ++e) {
          if (std::isfinite(values[e]))
            continue;
          const auto at = static_cast<std::int64_t>(e);
          const Place place{b, h, first + at / heads.columns, at % heads.columns};
          if (found.count++ == 0) {
            found.first = place;
            found.value = values[e];
          }
          const bool new_row = found.rows.empty() || found.rows.back().batch != b ||
                               found.rows.back().head != h || found.rows.back().row != place.row;
          if (new_row && found.rows.size() < kBadRows)
            found.rows.push_back(place);
        }
      }
  return found;
}

std::vector<std::int64_t> all_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

} // namespace fa1::numerics
