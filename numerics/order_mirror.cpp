#include "numerics/order_mirror.hpp"

#include "kernels/tiling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace fa1::numerics {
namespace {

using kernels::Order;
using reference::Problem;
using reference::State;

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

struct Running {
  float m = kMinusInf, l = 0.0f;
  std::vector<float> O;
};

/// One query row of a launch.
class RowMirror {
public:
  RowMirror(const Problem& problem, const kernels::Kernel& kernel, std::int64_t bh,
            std::int64_t row)
      : problem_(problem), kernel_(kernel), bh_(bh), row_(row) {}

  void scores(RowInTile& tile, std::int64_t j) const {
    const std::span<const float> q = problem_.Q.row(bh_, row_);
    const std::int64_t key0 = j * kernel_.Bc;
    for (std::int64_t c = key0; c < std::min(key0 + kernel_.Bc, problem_.shape.n_kv); ++c) {
      const std::span<const float> k = problem_.K.row(bh_, c);
      float dot = 0.0f;
      for (std::size_t i = 0; i < q.size(); ++i)
        dot += q[i] * k[i];
      tile.s.push_back(dot * problem_.scale);
    }
    tile.m_tile = kMinusInf;
    for (const float s : tile.s)
      tile.m_tile = std::fmax(tile.m_tile, s);
  }

  void weigh(RowInTile& tile, float m) const {
    for (const float s : tile.s) {
      tile.p.push_back(std::exp(s - m));
      tile.sum_p += tile.p.back();
    }
  }

  void sum_values(RowInTile& tile, std::int64_t j, std::span<const float> weights) const {
    tile.pv.assign(static_cast<std::size_t>(problem_.shape.dv), 0.0f);
    for (std::size_t c = 0; c < weights.size(); ++c) {
      const auto v = problem_.V.row(bh_, j * kernel_.Bc + static_cast<std::int64_t>(c));
      for (std::size_t i = 0; i < tile.pv.size(); ++i)
        tile.pv[i] += weights[c] * v[i];
    }
  }

  /// fa1.cuh and fa1_paper.cuh: O is normalised.
  void normalised_tile(RowInTile& tile, std::int64_t j, Running& state) const {
    const bool own_maximum = kernel_.arithmetic.order == Order::tile_maximum;
    scores(tile, j);
    const float m_new = std::fmax(state.m, tile.m_tile);
    weigh(tile, own_maximum ? tile.m_tile : m_new);
    sum_values(tile, j, tile.p);
    tile.alpha = std::exp(state.m - m_new);
    tile.beta = own_maximum ? std::exp(tile.m_tile - m_new) : 1.0f;
    tile.carried = tile.alpha * state.l;
    state.l = tile.carried + (own_maximum ? tile.beta * tile.sum_p : tile.sum_p);
    for (std::size_t i = 0; i < state.O.size(); ++i)
      state.O[i] =
          (tile.carried * state.O[i] + (own_maximum ? tile.beta * tile.pv[i] : tile.pv[i])) /
          state.l;
    keep(tile, state, m_new);
  }

  /// The others that rescale: O holds A = l O. two_fetches sums no values here.
  void summed_tile(RowInTile& tile, std::int64_t j, Running& state) const {
    const Order order = kernel_.arithmetic.order;
    scores(tile, j);
    const float m_max = std::fmax(state.m, tile.m_tile);
    const bool rescales = order != Order::lagging || m_max - state.m > kLag;
    const float m_new = rescales ? m_max : state.m;
    weigh(tile, m_new);
    tile.alpha = std::exp(state.m - m_new);
    tile.carried = rescales ? tile.alpha * state.l : state.l;
    state.l = tile.carried + tile.sum_p;
    if (order != Order::two_fetches) {
      sum_values(tile, j, tile.p);
      for (std::size_t i = 0; i < state.O.size(); ++i)
        state.O[i] = (rescales ? tile.alpha * state.O[i] : state.O[i]) + tile.pv[i];
    }
    keep(tile, state, m_new);
  }

  /// Adds a tile with weights that are known.
  void add_values(RowInTile& tile, std::int64_t j, Running& state) const {
    sum_values(tile, j, tile.w);
    for (std::size_t i = 0; i < state.O.size(); ++i)
      state.O[i] += tile.pv[i];
    tile.O = state.O;
  }

private:
  static void keep(RowInTile& tile, Running& state, float m_new) {
    state.m = m_new;
    tile.m = state.m;
    tile.l = state.l;
    tile.O = state.O;
  }

  const Problem& problem_;
  const kernels::Kernel& kernel_;
  std::int64_t bh_, row_;
};

void divide(Running& state) {
  for (float& o : state.O)
    o /= state.l;
}

/// split_kv.cuh, merge_states.
void merge(Running& state, const Running& other) {
  const float m_new = std::fmax(state.m, other.m);
  const float a = std::exp(state.m - m_new) * state.l;
  const float b = std::exp(other.m - m_new) * other.l;
  const float l_new = a + b;
  for (std::size_t i = 0; i < state.O.size(); ++i)
    state.O[i] = (a * state.O[i] + b * other.O[i]) / l_new;
  state.l = l_new;
  state.m = m_new;
}

void put(State& into, const Running& state, std::int64_t bh, std::int64_t row, std::int64_t n_q) {
  std::ranges::copy(state.O, into.O.row(bh, row).begin());
  into.l[static_cast<std::size_t>(bh * n_q + row)] = state.l;
  into.m[static_cast<std::size_t>(bh * n_q + row)] = state.m;
}

} // namespace

Mirrored mirror_of(const Problem& problem, const kernels::Kernel& kernel, State carries) {
  const reference::Shape& shape = problem.shape;
  const std::int64_t tiles = kernels::parts(shape.n_kv, kernel.Bc);
  const Order order = kernel.arithmetic.order;
  Mirrored all;
  all.rows.resize(static_cast<std::size_t>(shape.batch_heads * tiles * shape.n_q));
  all.last = std::move(carries);
  if (tiles == 0)
    return all;
  if (order == Order::ranges)
    all.ranges = all.merged =
        std::vector<State>(kernels::kKeyRanges, reference::start_state(shape));
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const RowMirror row(problem, kernel, bh, r);
      const auto tile = [&](std::int64_t j) -> RowInTile& {
        return all.rows[static_cast<std::size_t>((bh * tiles + j) * shape.n_q + r)];
      };
      const auto at = static_cast<std::size_t>(bh * shape.n_q + r);
      const std::span<const float> before = all.last.O.row(bh, r);
      Running state{all.last.m[at], all.last.l[at], {before.begin(), before.end()}};
      const Running none{kMinusInf, 0.0f, std::vector<float>(before.size(), 0.0f)};

      switch (order) {
      case Order::every_tile:
      case Order::tile_maximum:
        for (std::int64_t j = 0; j < tiles; ++j)
          row.normalised_tile(tile(j), j, state);
        break;
      case Order::at_end:
      case Order::lagging:
        for (float& o : state.O)
          o = state.l * o;
        for (std::int64_t j = 0; j < tiles; ++j)
          row.summed_tile(tile(j), j, state);
        divide(state);
        break;
      case Order::two_fetches:
        state = none;
        for (std::int64_t j = 0; j < tiles; ++j)
          row.summed_tile(tile(j), j, state);
        for (std::int64_t j = 0; j < tiles; ++j) {
          for (const float s : tile(j).s)
            tile(j).w.push_back(std::exp(s - state.m));
          row.add_values(tile(j), j, state);
        }
        divide(state);
        break;
      case Order::rows_of_S:
        state = none;
        for (std::int64_t j = 0; j < tiles; ++j) {
          row.scores(tile(j), j);
          state.m = std::fmax(state.m, tile(j).m_tile);
        }
        for (std::int64_t j = 0; j < tiles; ++j)
          for (const float s : tile(j).s) {
            tile(j).p.push_back(std::exp(s - state.m));
            state.l += tile(j).p.back();
          }
        for (std::int64_t j = 0; j < tiles; ++j) {
          for (const float p : tile(j).p)
            tile(j).w.push_back(p / state.l);
          row.add_values(tile(j), j, state);
          tile(j).m = state.m;
          tile(j).l = state.l;
        }
        break;
      case Order::ranges:
        for (std::int64_t range = 0; range < kernels::kKeyRanges; ++range) {
          const auto [first, end] = kernels::tiles_of_range(tiles, range);
          Running own = none;
          for (std::int64_t j = first; j < end; ++j)
            row.summed_tile(tile(j), j, own);
          if (first < end)
            divide(own);
          put(all.ranges[static_cast<std::size_t>(range)], own, bh, r, shape.n_q);
          if (range == 0)
            state = own;
          else if (own.l != 0.0f)
            merge(state, own);
          put(all.merged[static_cast<std::size_t>(range)], state, bh, r, shape.n_q);
        }
        break;
      }
      if (kernel.arithmetic.gives_LSE) {
        state.m += std::log(state.l);
        state.l = std::isnan(state.m) ? state.m : 1.0f;
      }
      put(all.last, state, bh, r, shape.n_q);
    }
  return all;
}

} // namespace fa1::numerics
