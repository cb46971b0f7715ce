#include "reports/trace_records.hpp"

#include "reports/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

namespace fa1::reports {
namespace {

using kernels::Kernel;
using numerics::DataStep;
using numerics::Phase;
using numerics::RowOfTile;
using numerics::StepState;
using numerics::Traffic;
using reference::Problem;
using reference::Shape;

double read_back(const std::string& text) {
  double x = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

/// The shortest decimal that is this float.
Json short_number(float x) {
  return std::isfinite(x) ? Json(read_back(fmt::format("{}", x))) : number(double{x});
}

Json rounded(double x, int digits) {
  return std::isfinite(x) ? Json(read_back(fmt::format("{:.{}g}", x, digits))) : number(x);
}

Json list_of(std::span<const float> numbers) {
  Json list = Json::array();
  for (const float x : numbers)
    list.push_back(short_number(x));
  return list;
}

/// Arrays of which nothing moves are left out.
Json json_of(const Traffic& traffic) {
  Json json = Json::object();
  const auto add = [&](const char* name, std::int64_t floats) {
    if (floats > 0)
      json[name] = floats;
  };
  add("Q", traffic.Q);
  add("K", traffic.K);
  add("V", traffic.V);
  add("O", traffic.O);
  add("l", traffic.l);
  add("m", traffic.m);
  return json;
}

std::string range(std::string_view one, std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("{} {}", one, first)
                    : fmt::format("{}s {} to {}", one, first, first + count - 1);
}

std::string_view name_of(StepState state) {
  constexpr std::array<std::string_view, 3> kNames{"right", "suspicious", "off"};
  return kNames[static_cast<std::size_t>(state)];
}

// ---------------------------------------------------------------------------------------------------
// Steps
// ---------------------------------------------------------------------------------------------------

class StepWriter {
public:
  explicit StepWriter(const numerics::Steps& all) : all_(all) {}

  Json write(std::size_t index) const {
    const DataStep& step = all_.steps[index];
    Json json{{"what", "step"}, {"step", index}, {"phase", numerics::name_of(step.phase)}};
    json["says"] = sentence(step);
    json["batch_head"] = step.batch_head;
    json["tile"] = step.tile;
    json["block"] = step.block;
    json["keys"] = {step.first_key, step.keys};
    json["rows"] = {step.first_row, step.rows};
    json["read"] = json_of(step.moved.read);
    json["written"] = json_of(step.moved.written);
    json["so_far"] = {step.so_far.read.total(), step.so_far.written.total()};
    if (step.phase == Phase::start) {
      const reference::State start = reference::start_state({});
      json["m"] = short_number(start.m[0]);
      json["l"] = short_number(start.l[0]);
      json["O"] = short_number(start.O.elements()[0]);
    }
    if (step.phase == Phase::scores)
      add_scores(json, step);
    if (step.phase == Phase::softmax)
      add_softmax(json, step);
    if (step.phase == Phase::output)
      add_output(json, step);
    add_bad(json, step);
    return json;
  }

private:
  const RowOfTile& row(const DataStep& step, std::int64_t r) const {
    return all_.row(step.batch_head, step.tile, step.first_row + r);
  }

  /// One entry for each row of the block.
  Json each(const DataStep& step, const std::function<Json(const RowOfTile&)>& of) const {
    Json list = Json::array();
    for (std::int64_t r = 0; r < step.rows; ++r)
      list.push_back(of(row(step, r)));
    return list;
  }

  /// Rises where the tile before left less.
  std::int64_t raised(const DataStep& step) const {
    std::int64_t count = 0;
    for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
      const float m = all_.row(step.batch_head, step.tile, r).carries.m;
      const float before = step.tile == 0 ? -std::numeric_limits<float>::infinity()
                                          : all_.row(step.batch_head, step.tile - 1, r).carries.m;
      count += m > before ? 1 : 0;
    }
    return count;
  }

  std::string sentence(const DataStep& step) const {
    if (step.phase == Phase::start)
      return "Q, K and V lie in HBM, and so do O = 0, l = 0 and m = -inf.";
    if (step.phase == Phase::load_tile)
      return fmt::format("Tile {}: {} of K and V come to SRAM.", step.tile,
                         range("key", step.first_key, step.keys));
    const std::string where =
        fmt::format("Tile {}, {}: ", step.tile, range("row", step.first_row, step.rows));
    switch (step.phase) {
    case Phase::load_block:
      return where + "Q, O, m and l come to SRAM.";
    case Phase::scores:
      return where + (step.rows == 1 ? "it" : "each") + " meets every key of the tile.";
    case Phase::softmax:
      return where +
             (step.rows == 1
                  ? raised(step) == 1 ? "the maximum rises" : "the maximum stays"
                  : fmt::format("the maximum rises in {} of {}", raised(step), step.rows)) +
             "; l takes the tile in.";
    case Phase::output:
      return where + "O takes the tile in.";
    default:
      return where + "O, m and l go back to HBM.";
    }
  }

  void add_scores(Json& json, const DataStep& step) const {
    json["from"] = {{"mirror", {"S"}}};
    json["S"] = each(step, [](const RowOfTile& r) { return list_of(r.s); });
  }

  void add_softmax(Json& json, const DataStep& step) const {
    json["from"] = {{"kernel", {"m", "l", "alpha", "carried"}},
                    {"mirror", {"m_tile", "p", "sum_p"}}};
    json["m_tile"] = each(step, [](const RowOfTile& r) { return short_number(r.m_tile); });
    json["m"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.m); });
    json["alpha"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.alpha); });
    json["p"] = each(step, [](const RowOfTile& r) { return list_of(r.p); });
    json["sum_p"] = each(step, [](const RowOfTile& r) { return short_number(r.sum_p); });
    json["carried"] = each(step, [](const RowOfTile& r) { return short_number(r.carried); });
    json["l"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.l); });
    add_states(json, step);
  }

  void add_output(Json& json, const DataStep& step) const {
    json["from"] = {{"kernel", {"O"}}, {"mirror", {"pv"}}};
    json["pv"] = each(step, [](const RowOfTile& r) { return list_of(r.pv); });
    json["O"] = each(step, [](const RowOfTile& r) { return list_of(r.carries.O); });
    json["ulp"] = each(step, [](const RowOfTile& r) {
      Json list = Json::array();
      for (const double ulp : r.carries.ulps)
        list.push_back(rounded(ulp, 3));
      return list;
    });
    // The column that is furthest off; NaN is further than any number.
    const auto worst = [](const RowOfTile& r) {
      std::size_t at = 0;
      for (std::size_t c = 0; c < r.carries.ulps.size() && !std::isnan(r.carries.ulps[at]); ++c)
        if (!(r.carries.ulps[c] <= r.carries.ulps[at]))
          at = c;
      return at;
    };
    json["column"] = each(step, [&](const RowOfTile& r) { return Json(worst(r)); });
    json["truth"] = each(step, [&](const RowOfTile& r) {
      if (r.carries.truth.empty())
        return Json(nullptr);
      const reference::Enclosed& truth = r.carries.truth[worst(r)];
      return rounded(truth.hi + truth.lo, 12);
    });
    add_states(json, step);
  }

  void add_states(Json& json, const DataStep& step) const {
    for (const StepState state : {StepState::off, StepState::suspicious}) {
      Json rows = Json::array();
      for (std::int64_t r = 0; r < step.rows; ++r)
        if (row(step, r).carries.state == state)
          rows.push_back(step.first_row + r);
      if (!rows.empty())
        json[std::string(name_of(state))] = rows;
    }
  }

  void add_bad(Json& json, const DataStep& step) const {
    Json bad = Json::array();
    for (std::int64_t r = 0; step.phase != Phase::start && r < step.rows; ++r) {
      const RowOfTile& here = row(step, r);
      if (here.turns_bad && numerics::phase_of(here.carries.quantity) == step.phase)
        bad.push_back({{"row", step.first_row + r},
                       {"quantity", here.carries.quantity},
                       {"state", name_of(here.carries.state)},
                       {"why", here.carries.why}});
    }
    if (!bad.empty())
      json["bad"] = bad;
  }

  const numerics::Steps& all_;
};

// ---------------------------------------------------------------------------------------------------
// What is traced
// ---------------------------------------------------------------------------------------------------

Json json_of(const numerics::Algorithm& algorithm) {
  Json lines = Json::array();
  for (const numerics::AlgorithmLine& line : algorithm.lines)
    lines.push_back({{"text", line.text},
                     {"phase", line.phase ? Json(numerics::name_of(*line.phase)) : Json(nullptr)},
                     {"depth", line.depth}});
  return lines;
}

Json json_of(const numerics::Difference& differs) {
  return {{"batch_head", differs.batch_head},
          {"row", differs.row},
          {"tile", differs.tile},
          {"quantity", differs.quantity},
          {"column", differs.column},
          {"kernel", short_number(differs.kernel)},
          {"mirror", short_number(differs.mirror)}};
}

Json json_of(const numerics::FirstBad& bad, const numerics::Steps& all) {
  const numerics::TraceStep& carries = all.row(bad.batch_head, bad.tile, bad.row).carries;
  return {{"step", bad.step},  {"batch_head", bad.batch_head}, {"row", bad.row},
          {"tile", bad.tile},  {"quantity", carries.quantity}, {"state", name_of(carries.state)},
          {"why", carries.why}};
}

Json head_of(const reference::Recipe& recipe, const numerics::EdgeCase* edge_case,
             const Problem& problem, const Kernel& kernel, const numerics::Steps& all) {
  const numerics::Algorithm& algorithm = *numerics::algorithm_of(kernel);
  const Shape& shape = problem.shape;
  const numerics::Moved form = numerics::fa1_traffic(shape, kernel.Bc, kernel.D);
  Json json{{"what", "trace"}, {"recipe", reference::to_string(recipe)}, {"case", nullptr}};
  if (edge_case != nullptr)
    json["case"] = {{"id", edge_case->id},
                    {"kind", numerics::name_of(edge_case->kind)},
                    {"why", edge_case->why}};
  json["kernel"] = kernel.id;
  json["says"] = kernel.says;
  json["algorithm"] = algorithm.variant;
  json["lines"] = json_of(algorithm);
  json["batch_heads"] = shape.batch_heads;
  json["n_q"] = shape.n_q;
  json["n_kv"] = shape.n_kv;
  json["d"] = shape.d;
  json["dv"] = shape.dv;
  json["scale"] = short_number(problem.scale);
  json["Br"] = kernel.Br;
  json["Bc"] = kernel.Bc;
  json["D"] = kernel.D;
  json["tiles"] = all.tiles;
  json["blocks"] = all.blocks;
  json["steps"] = all.steps.size();
  json["traffic"] = {{"formula", algorithm.traffic},
                     {"read", json_of(form.read)},
                     {"written", json_of(form.written)},
                     {"total", {form.read.total(), form.written.total()}}};
  json["differs"] = all.differs ? json_of(*all.differs) : Json(nullptr);
  json["first_bad"] = all.first_bad ? json_of(*all.first_bad, all) : Json(nullptr);
  return json;
}

void add_input(Json& records, const char* name, const reference::Tensor<float>& tensor) {
  for (std::int64_t bh = 0; bh < tensor.batch_heads(); ++bh) {
    Json rows = Json::array();
    for (std::int64_t r = 0; r < tensor.rows(); ++r)
      rows.push_back(list_of(tensor.row(bh, r)));
    records.push_back({{"what", "input"}, {"array", name}, {"batch_head", bh}, {"rows", rows}});
  }
}

bool fits(const Shape& shape, const Kernel& kernel) {
  return shape.n_kv <= kMostTiles * kernel.Bc &&
         page_bytes(shape, kernel.Br, kernel.Bc) <= kMostPageBytes;
}

/// The largest value of one extent, below what it is, with which the page fits; 0 where none does.
std::int64_t largest(Shape shape, std::int64_t Shape::*extent, const Kernel& kernel) {
  std::int64_t good = 0, bad = shape.*extent;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    shape.*extent = middle;
    (fits(shape, kernel) ? good : bad) = middle;
  }
  return good;
}

} // namespace

Json trace_records(const reference::Recipe& recipe, const numerics::EdgeCase* edge_case,
                   const Problem& problem, const Kernel& kernel, const numerics::Steps& steps) {
  Json records = Json::array();
  records.push_back(head_of(recipe, edge_case, problem, kernel, steps));
  add_input(records, "Q", problem.Q);
  add_input(records, "K", problem.K);
  add_input(records, "V", problem.V);
  const StepWriter writer(steps);
  for (std::size_t i = 0; i < steps.steps.size(); ++i)
    records.push_back(writer.write(i));
  return records;
}

std::int64_t page_bytes(const Shape& shape, int Br, int Bc) {
  // With its comma, a normal float takes 12 bytes, an error in ulp 6.
  constexpr std::int64_t kTemplate = 48 << 10, kOfStep = 380, kNumber = 12, kUlp = 6;
  constexpr std::int64_t kOfRow =
      7 * kNumber + 14; // m_tile, m, alpha, sum p, alpha l, l; the truth
  const std::int64_t tiles = (shape.n_kv + Bc - 1) / Bc;
  const std::int64_t inputs = shape.n_q * shape.d + shape.n_kv * (shape.d + shape.dv);
  const std::int64_t inside = 2 * shape.n_q * shape.n_kv; // S and p
  const std::int64_t rows = tiles * shape.n_q;
  return kTemplate + kOfStep * numerics::count_steps(shape, Br, Bc) +
         shape.batch_heads *
             (kNumber * (inputs + inside) + rows * (kOfRow + shape.dv * (2 * kNumber + kUlp)));
}

void require_page_fits(const Shape& shape, const Kernel& kernel) {
  if (fits(shape, kernel))
    return;
  std::string advice;
  if (const std::int64_t keys = largest(shape, &Shape::n_kv, kernel); keys > 0)
    advice += fmt::format("; n_kv up to {} fits", keys);
  if (const std::int64_t rows = largest(shape, &Shape::n_q, kernel); rows > 0)
    advice += fmt::format("; n_q up to {} fits", rows);
  throw UsageError(fmt::format(
      "n_q={} n_kv={} d={} in tiles of {} keys is {} tiles and a page of {:.1f} MiB, more than {} "
      "tiles or {} MiB; want a smaller problem or wider tiles{}",
      shape.n_q, shape.n_kv, shape.d, kernel.Bc, (shape.n_kv + kernel.Bc - 1) / kernel.Bc,
      static_cast<double>(page_bytes(shape, kernel.Br, kernel.Bc)) / (1 << 20), kMostTiles,
      kMostPageBytes >> 20, advice));
}

} // namespace fa1::reports
