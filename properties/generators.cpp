#include "properties/generators.hpp"

#include "reference/recorded.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace fa1::properties {
namespace {

using reference::Family;
using reference::Order;
using reference::Recipe;

constexpr std::array kFamilies{Family::normal, Family::uniform,   Family::outliers, Family::pow2,
                               Family::ints,   Family::subnormal, Family::zero};
constexpr std::array kOrders{Order::free, Order::ascending, Order::descending, Order::tied,
                             Order::dominant};
constexpr std::array kValues{Family::normal,      Family::uniform,   Family::outliers,
                             Family::pow2,        Family::ints,      Family::positive,
                             Family::alternating, Family::subnormal, Family::zero,
                             Family::index,       Family::index1,    Family::constant};

/// One uniform draw; the size RapidCheck passes along is not used: shapes have their own
/// distribution.
std::uint64_t draw(std::uint64_t below) {
  return *rc::gen::noShrink(rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(0, below)));
}

std::int64_t length(std::int64_t tile, std::int64_t most) {
  const std::array<std::int64_t, 8> corners{1,        2,        tile - 1,     tile,
                                            tile + 1, 2 * tile, 2 * tile + 1, 3 * tile - 1};
  const std::int64_t n =
      draw(2) == 0 ? corners[draw(corners.size())]
                   : 1 + static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(most)));
  return std::clamp<std::int64_t>(n, 1, most);
}

std::int64_t dimension(std::int64_t largest) {
  return draw(3) == 0 ? largest
                      : 1 + static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(largest)));
}

float ordinary_sigma() {
  constexpr std::array kSigmas{1.0f, 0.01f, 0.3f, 2.0f, 4.0f, 10.0f, 30.0f};
  return kSigmas[draw(kSigmas.size())];
}

/// Limits for one problem of a kernel whose tile nobody told; wide tiles are rare, they cost most.
Limits with_some_tile(Limits limits) {
  const auto some = [] {
    constexpr std::array<std::int64_t, 10> kTiles{1, 1, 2, 4, 8, 16, 16, 32, 64, 128};
    return kTiles[draw(kTiles.size())];
  };
  limits.Br = std::min<std::int64_t>(some(), 32);
  limits.Bc = some();
  limits.most_keys = std::max<std::int64_t>(limits.most_keys, 2 * limits.Bc + 1);
  return limits;
}

/// The same sizes, sigma and scale on a recorded head. Which recipe and which head its seed decides, so that no other
/// draw depends on how many heads there are.
Recipe on_a_recorded_head(Recipe r) {
  constexpr std::uint64_t kOneIn = 16;
  if (r.seed % kOneIn != 0)
    return r;
  const auto& heads = reference::recording().heads;
  const reference::RecordedHead& head = heads[r.seed / kOneIn % heads.size()];
  const Recipe standard;
  r.recorded = head.name;
  r.n_q = std::min(r.n_q, head.rows);
  r.n_kv = std::min(r.n_kv, head.rows);
  r.d = std::min(r.d, head.columns);
  if (r.dv)
    r.dv = std::min(*r.dv, head.columns);
  r.dist = standard.dist;
  r.order = standard.order;
  r.v = standard.v;
  r.v_constant = standard.v_constant;
  return r;
}

Recipe random_recipe(const Limits& asked) {
  const Limits limits = asked.any_tile ? with_some_tile(asked) : asked;
  Recipe r;
  r.seed = 1 + draw(1'000'000);
  r.batch_heads = draw(4) == 0 ? 2 : 1;
  r.n_q = length(limits.Br, std::max<std::int64_t>(2 * limits.Br + 1, 5));
  if (limits.largest_d > 64)
    r.n_q = std::min<std::int64_t>(r.n_q, 9);
  r.n_kv = draw(50) == 0 ? 0 : length(limits.Bc, limits.most_keys);
  r.d = dimension(limits.largest_d);
  if (draw(2) == 0)
    r.dv = dimension(limits.largest_d);
  r.dist = draw(3) == 0 ? Family::normal : kFamilies[draw(kFamilies.size())];
  r.order = draw(2) == 0 ? Order::free : kOrders[draw(kOrders.size())];
  r.v = draw(3) == 0 ? Family::normal : kValues[draw(kValues.size())];
  if (r.v == Family::constant)
    r.v_constant =
        std::ldexp(1.0f + static_cast<float>(draw(1000)) / 1000.0f, static_cast<int>(draw(9)) - 4);
  r.sigma = draw(8) == 0 ? std::pow(10.0f, static_cast<float>(static_cast<int>(draw(61)) - 30))
                         : ordinary_sigma();
  if (draw(4) == 0)
    r.scale = std::ldexp(draw(3) == 0 ? -1.0f : 1.0f, static_cast<int>(draw(7)) - 4);
  return on_a_recorded_head(std::move(r));
}

/// What no family holds: weights at the lower end of fp32, scores far from 0, Inf and NaN.
Recipe edge_recipe(const Limits& limits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Recipe r;
  r.seed = 1 + draw(1'000'000);
  r.n_q = 1 + static_cast<std::int64_t>(draw(3));
  r.n_kv = std::max<std::int64_t>(2, length(limits.Bc, 3 * limits.Bc + 1));
  const auto given_scores = [&](std::vector<reference::Run> scores) {
    r.scale = 1.0f;
    r.Q = {{1.0f, -1}};
    r.K = std::move(scores);
  };
  const auto gap = static_cast<float>(88 + draw(15)); // e^-gap is subnormal
  switch (draw(10)) {
  case 0:
    given_scores({{0.0f, 1}, {-gap, -1}});
    r.V = {{0.0f, 1}, {1e36f, -1}};
    break;
  case 1:
    given_scores({{-gap, r.n_kv - 1}, {0.0f, 1}});
    r.V = {{1e36f, r.n_kv - 1}, {0.0f, 1}};
    break;
  case 2:
    given_scores({{-6e4f, 1}, {-6e4f - static_cast<float>(draw(4)), -1}});
    r.v = Family::index1;
    break;
  case 3:
    given_scores({{-kInfinity, -1}});
    break;
  case 4: { // a whole tile of -Inf: the first, one between others, the last
    const std::int64_t tiles = 2 + static_cast<std::int64_t>(draw(2));
    const auto dead = static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(tiles)));
    r.n_kv = tiles * limits.Bc;
    given_scores({{-2.0f, dead * limits.Bc},
                  {-kInfinity, limits.Bc},
                  {-1.0f, (tiles - 1 - dead) * limits.Bc}});
    std::erase_if(r.K, [](const reference::Run& run) { return run.count == 0; });
    r.v = Family::index1;
    break;
  }
  case 5:
    r.d = dimension(limits.largest_d);
    r.scale = 0.0f;
    break;
  case 6:
    given_scores({{0.0f, r.n_kv - 1}, {kInfinity, 1}});
    break;
  default: {
    r.d = dimension(limits.largest_d);
    const std::array values{-kInfinity, kInfinity, std::numeric_limits<float>::quiet_NaN()};
    const auto matrix = static_cast<reference::Matrix>(draw(3));
    const std::int64_t rows = matrix == reference::Matrix::Q ? r.n_q : r.n_kv;
    r.put = {{matrix, static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(rows))),
              static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(r.d))),
              values[draw(values.size())]}};
  }
  }
  return r;
}

/// Lists and single entries must still fit the shape.
bool can_be_made(const Recipe& recipe) {
  try {
    reference::shape_of(recipe);
    return true;
  } catch (const reference::RecipeError&) {
    return false;
  }
}

template <class Change> void offer(std::vector<Recipe>& list, const Recipe& from, Change&& change) {
  Recipe next = from;
  change(next);
  if (!(next == from) && can_be_made(next))
    list.push_back(std::move(next));
}

} // namespace

Recipe draw_recipe(const rc::Gen<Recipe>& recipes, rc::Random& random) {
  constexpr int kFullSize = 100;
  return recipes(random.split(), kFullSize).value();
}

std::vector<Recipe> simpler(const Recipe& r) {
  std::vector<Recipe> list;
  const auto shrink = [&](std::int64_t Recipe::*extent, std::int64_t least) {
    for (const std::int64_t n : {least, r.*extent / 2, r.*extent - 1})
      if (n >= least && n < r.*extent)
        offer(list, r, [&](Recipe& next) { next.*extent = n; });
  };
  shrink(&Recipe::batch_heads, 1);
  shrink(&Recipe::n_q, 1);
  shrink(&Recipe::n_kv, 1);
  offer(list, r, [](Recipe& next) { next.recorded.clear(); });
  offer(list, r, [](Recipe& next) { next.dv.reset(); });
  if (r.dv)
    for (const std::int64_t n : {std::int64_t{1}, *r.dv / 2, *r.dv - 1})
      if (n >= 1 && n < *r.dv)
        offer(list, r, [&](Recipe& next) { next.dv = n; });
  shrink(&Recipe::d, 1);
  offer(list, r, [](Recipe& next) { next.scale.reset(); });
  offer(list, r, [](Recipe& next) { next.sigma = 1.0f; });
  offer(list, r, [](Recipe& next) { next.order = Order::free; });
  offer(list, r, [](Recipe& next) { next.Q.clear(), next.K.clear(), next.V.clear(); });
  offer(list, r, [](Recipe& next) { next.put.clear(); });
  if (r.dist != Family::normal)
    for (const Family plain : {Family::zero, Family::ints, Family::normal})
      if (r.dist != Family::zero && r.dist != Family::ints)
        offer(list, r, [&](Recipe& next) { next.dist = plain; });
  if (r.v != Family::index1 && r.v != Family::normal)
    for (const Family plain : {Family::index1, Family::normal})
      offer(list, r, [&](Recipe& next) { next.v = plain, next.v_constant = 0.0f; });
  for (const std::uint64_t seed : {std::uint64_t{1}, r.seed / 2})
    if (seed >= 1 && seed < r.seed)
      offer(list, r, [&](Recipe& next) { next.seed = seed; });
  return list;
}

rc::Gen<Recipe> any_recipe(const Limits& limits) {
  return rc::gen::shrink(
      rc::gen::noShrink(rc::gen::exec(
          [limits] { return draw(8) == 0 ? edge_recipe(limits) : random_recipe(limits); })),
      [](const Recipe& recipe) { return rc::seq::fromContainer(simpler(recipe)); });
}

Limits limits_of(const kernels::Kernel& kernel) {
  Limits limits;
  limits.largest_d = kernel.D;
  limits.Br = kernel.Br;
  limits.Bc = kernel.Bc;
  limits.most_keys = std::max<std::int64_t>(96, 2 * kernel.Bc + 1);
  // A tile that nobody told may be of any usual size.
  limits.any_tile = !kernel.arithmetic.known && kernel.Br == 1 && kernel.Bc == 1;
  return limits;
}

rc::Gen<float> any_float() {
  const auto of_class = [] {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto bits = [](std::uint64_t low, std::uint64_t count) {
      const auto sign = static_cast<std::uint32_t>(draw(2)) << 31;
      return std::bit_cast<float>(sign | static_cast<std::uint32_t>(low + draw(count)));
    };
    switch (draw(10)) {
    case 0:
      return draw(2) == 0 ? 0.0f : -0.0f;
    case 1:
      return bits(1, 0x7fffff); // subnormal
    case 2:
      return draw(2) == 0 ? kInfinity : -kInfinity;
    case 3:
      return bits(0x7f800001, 0x7ffffe); // NaN
    case 4:
      return bits(0x7f7fff00, 0x100); // near FLT_MAX, and it
    case 5:
      return bits(0x00800000, 0x100); // smallest normals
    case 6:
      return static_cast<float>(static_cast<int>(draw(17)) - 8); // small integers
    case 7:
      return bits(0x3f800000 - (40u << 23), 80u << 23); // within forty binades of 1
    default:
      return bits(0x00800000, 0x7f000000); // any normal
    }
  };
  const auto shrinks = [](float x) {
    std::vector<float> plainer;
    const auto offer_float = [&](float y) {
      const auto size = [](float z) {
        return std::isnan(z) ? 4 : std::isinf(z) ? 3 : z != std::trunc(z) ? 2 : z != 0.0f;
      };
      const bool smaller = size(y) < size(x) || (size(y) == size(x) && std::fabs(y) < std::fabs(x));
      if (smaller)
        plainer.push_back(y);
    };
    offer_float(0.0f);
    offer_float(1.0f);
    if (std::isfinite(x)) {
      offer_float(std::trunc(x));
      offer_float(x / 2.0f);
    }
    return rc::seq::fromContainer(plainer);
  };
  return rc::gen::shrink(rc::gen::noShrink(rc::gen::exec(of_class)), shrinks);
}

} // namespace fa1::properties
