#include "reports/trace_records.hpp"

#include "kernels/tiling.hpp"
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
using kernels::Traffic;
using numerics::DataStep;
using numerics::Phase;
using numerics::RowOfTile;
using numerics::StepState;
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

/// What is read or written; arrays of which nothing moves are left out.
Json json_of(const Traffic& traffic, std::int64_t Traffic::OfArray::*way) {
  Json json = Json::object();
  for (std::size_t array = 0; array < traffic.arrays.size(); ++array)
    if (const std::int64_t floats = traffic.arrays[array].*way; floats > 0)
      json[std::string(Traffic::kArrays[array])] = floats;
  return json;
}

std::int64_t total(const Traffic& traffic, std::int64_t Traffic::OfArray::*way) {
  std::int64_t floats = 0;
  for (const Traffic::OfArray& array : traffic.arrays)
    floats += array.*way;
  return floats;
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
  StepWriter(const numerics::Steps& all, const Kernel& kernel)
      : all_(all), kernel_(kernel), algorithm_(*numerics::algorithm_of(kernel)) {}

  Json write(std::size_t index) const {
    const DataStep& step = all_.steps[index];
    Json json{{"what", "step"}, {"step", index}, {"phase", numerics::name_of(step.phase)}};
    json["says"] = sentence(step);
    json["batch_head"] = step.batch_head;
    json["tile"] = step.tile;
    json["block"] = step.block;
    if (!all_.ranges.empty())
      json["range"] = step.range;
    json["keys"] = {step.first_key, step.keys};
    json["rows"] = {step.first_row, step.rows};
    json["read"] = json_of(step.moved, &Traffic::OfArray::read);
    json["written"] = json_of(step.moved, &Traffic::OfArray::written);
    json["so_far"] = {total(step.so_far, &Traffic::OfArray::read),
                      total(step.so_far, &Traffic::OfArray::written)};
    if (step.phase == Phase::start) {
      const reference::State start = reference::start_state({});
      json["m"] = short_number(start.m[0]);
      json["l"] = short_number(start.l[0]);
      json["O"] = short_number(start.O.elements()[0]);
    }
    add_made(json, step);
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
    const bool starts =
        step.tile == 0 || (!all_.ranges.empty() &&
                           kernels::tiles_of_range(all_.tiles, step.range).first == step.tile);
    std::int64_t count = 0;
    for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
      const float m = all_.row(step.batch_head, step.tile, r).carries.m;
      const float before = starts ? -std::numeric_limits<float>::infinity()
                                  : all_.row(step.batch_head, step.tile - 1, r).carries.m;
      count += m > before ? 1 : 0;
    }
    return count;
  }

  bool rescales_sums() const { return algorithm_.inside != numerics::Inside::O; }

  std::string sentence(const DataStep& step) const {
    if (step.phase == Phase::start)
      return kernel_.resumes ? "Q, K and V lie in HBM, and so do O = 0, l = 0 and m = -inf."
                             : "Q, K and V lie in HBM.";
    const std::string keys = range("key", step.first_key, step.keys);
    const std::string rows = range("row", step.first_row, step.rows);
    if (step.phase == Phase::load_tile || step.phase == Phase::load_keys)
      return fmt::format("Tile {}: {} of {} come to SRAM.", step.tile, keys,
                         step.phase == Phase::load_keys ? "K" : "K and V");
    const std::string where = step.keys > 0    ? fmt::format("Tile {}, {}: ", step.tile, rows)
                              : step.rows == 1 ? fmt::format("Row {}: ", step.first_row)
                                               : fmt::format("Rows {} to {}: ", step.first_row,
                                                             step.first_row + step.rows - 1);
    switch (step.phase) {
    case Phase::load_block:
      return where + "Q, O, m and l come to SRAM.";
    case Phase::load_queries:
      return where + "Q comes to SRAM; nothing is summed yet.";
    case Phase::load_weights:
      return where + "V and the weights P come to SRAM.";
    case Phase::scores:
      return where + (step.rows == 1 ? "it" : "each") + " meets every key of the tile.";
    case Phase::store_scores:
      return where + "the scores go to HBM.";
    case Phase::maximum:
      return where + "all scores are read for their maximum.";
    case Phase::denominator:
      return where + "all scores are read again for the denominator.";
    case Phase::normalise:
      return where + "all scores are read once more, and the weights P take their place.";
    case Phase::weights:
      return where + "the scores once more, now as weights against the maximum of all keys.";
    case Phase::softmax:
      return where +
             (step.rows == 1
                  ? raised(step) == 1 ? "the maximum rises" : "the maximum stays"
                  : fmt::format("the maximum rises in {} of {}", raised(step), step.rows)) +
             "; l takes the tile in.";
    case Phase::output:
      return where + (rescales_sums() ? "the sum of weighted values" : "O") + " takes the tile in.";
    case Phase::store_range:
      return where + fmt::format("the state of range {} goes to HBM.", step.range);
    case Phase::merge:
      return where + fmt::format("the state of range {} comes to SRAM and is merged.", step.range);
    case Phase::finish:
      return where + "the output goes to HBM.";
    default:
      return where + "O, m and l go back to HBM.";
    }
  }

  void add_made(Json& json, const DataStep& step) const {
    switch (step.phase) {
    case Phase::scores:
      add_scores(json, step);
      break;
    case Phase::softmax:
      add_softmax(json, step);
      break;
    case Phase::output:
      add_output(json, step);
      break;
    case Phase::weights:
      json["from"] = {{"mirror", {"S", "p"}}};
      json["S"] = each(step, [](const RowOfTile& r) { return list_of(r.s); });
      json["p"] = each(step, [](const RowOfTile& r) { return list_of(r.w); });
      break;
    case Phase::maximum:
      json["from"] = {{"mirror", {"m"}}};
      json["m"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.m); });
      break;
    case Phase::denominator:
      json["from"] = {{"mirror", {"l"}}};
      json["l"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.l); });
      break;
    case Phase::normalise:
      add_weights(json, step);
      break;
    case Phase::store_range:
      add_state(json, step, all_.ranges);
      break;
    case Phase::merge:
      add_state(json, step, all_.merged);
      break;
    case Phase::finish:
      add_end(json, step);
      break;
    default:
      break;
    }
  }

  /// P of whole rows.
  void add_weights(Json& json, const DataStep& step) const {
    json["from"] = {{"mirror", {"P"}}};
    Json P = Json::array();
    for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
      Json row = Json::array();
      for (std::int64_t tile = 0; tile < all_.tiles; ++tile)
        for (const float w : all_.row(step.batch_head, tile, r).w)
          row.push_back(short_number(w));
      P.push_back(row);
    }
    json["P"] = P;
  }

  void add_state(Json& json, const DataStep& step,
                 const std::vector<reference::State>& states) const {
    const reference::State& state = states[static_cast<std::size_t>(step.range)];
    json["from"] = {{"mirror", {"O", "l", "m"}}};
    json["O"] = json["l"] = json["m"] = Json::array();
    for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
      const auto at = static_cast<std::size_t>(step.batch_head * all_.shape.n_q + r);
      json["O"].push_back(list_of(state.O.row(step.batch_head, r)));
      json["l"].push_back(short_number(state.l[at]));
      json["m"].push_back(short_number(state.m[at]));
    }
  }

  /// What the kernel itself leaves, judged.
  void add_end(Json& json, const DataStep& step) const {
    json["from"] = {{"kernel", {"O", "l", "m"}}};
    json["O"] = json["m"] = Json::array();
    if (!kernel_.arithmetic.gives_LSE)
      json["l"] = Json::array();
    std::vector<const numerics::TraceStep*> ends;
    for (std::int64_t r = step.first_row; r < step.first_row + step.rows; ++r) {
      ends.push_back(&all_.end(step.batch_head, r));
      json["O"].push_back(list_of(ends.back()->O));
      json["m"].push_back(short_number(ends.back()->m));
      if (!kernel_.arithmetic.gives_LSE)
        json["l"].push_back(short_number(ends.back()->l));
    }
    add_errors(json, ends);
    add_states(json, step, ends);
  }

  void add_scores(Json& json, const DataStep& step) const {
    json["from"] = {{"mirror", {"S"}}};
    json["S"] = each(step, [](const RowOfTile& r) { return list_of(r.s); });
  }

  void add_softmax(Json& json, const DataStep& step) const {
    const bool own = algorithm_.inside != numerics::Inside::sums;
    if (own)
      json["from"] = {{"kernel", {"m", "l", "alpha", "carried"}},
                      {"mirror", {"m_tile", "p", "sum_p"}}};
    else
      json["from"] = {{"mirror", {"m", "l", "alpha", "carried", "m_tile", "p", "sum_p"}}};
    json["m_tile"] = each(step, [](const RowOfTile& r) { return short_number(r.m_tile); });
    json["m"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.m); });
    json["alpha"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.alpha); });
    json["p"] = each(step, [](const RowOfTile& r) { return list_of(r.p); });
    json["sum_p"] = each(step, [](const RowOfTile& r) { return short_number(r.sum_p); });
    if (kernel_.arithmetic.order == kernels::Order::tile_maximum) {
      json["beta"] = each(step, [](const RowOfTile& r) { return short_number(r.beta); });
      json["from"]["mirror"].push_back("beta");
    }
    json["carried"] = each(step, [](const RowOfTile& r) { return short_number(r.carried); });
    json["l"] = each(step, [](const RowOfTile& r) { return short_number(r.carries.l); });
    add_states(json, step, carries_of(step));
  }

  void add_output(Json& json, const DataStep& step) const {
    if (algorithm_.inside != numerics::Inside::sums)
      json["from"] = {{"kernel", {"O"}}, {"mirror", {"pv"}}};
    else
      json["from"] = {{"mirror", {"O", "pv"}}};
    json["pv"] = each(step, [](const RowOfTile& r) { return list_of(r.pv); });
    json["O"] = each(step, [](const RowOfTile& r) { return list_of(r.carries.O); });
    add_errors(json, carries_of(step));
    add_states(json, step, carries_of(step));
  }

  using Carries = std::vector<const numerics::TraceStep*>;
  Carries carries_of(const DataStep& step) const {
    Carries carries;
    for (std::int64_t r = 0; r < step.rows; ++r)
      carries.push_back(&row(step, r).carries);
    return carries;
  }

  static void add_errors(Json& json, const Carries& rows) {
    json["ulp"] = json["column"] = json["truth"] = Json::array();
    for (const numerics::TraceStep* row : rows) {
      Json list = Json::array();
      for (const double ulp : row->ulps)
        list.push_back(rounded(ulp, 3));
      json["ulp"].push_back(list);
      // The column that is furthest off; NaN is further than any number.
      std::size_t worst = 0;
      for (std::size_t c = 0; c < row->ulps.size() && !std::isnan(row->ulps[worst]); ++c)
        if (!(row->ulps[c] <= row->ulps[worst]))
          worst = c;
      json["column"].push_back(worst);
      json["truth"].push_back(row->truth.empty()
                                  ? Json(nullptr)
                                  : rounded(row->truth[worst].hi + row->truth[worst].lo, 12));
    }
  }

  static void add_states(Json& json, const DataStep& step, const Carries& all) {
    for (const StepState state : {StepState::off, StepState::suspicious}) {
      Json rows = Json::array();
      for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r]->state == state)
          rows.push_back(step.first_row + static_cast<std::int64_t>(r));
      if (!rows.empty())
        json[std::string(name_of(state))] = rows;
    }
  }

  void add_bad(Json& json, const DataStep& step) const {
    const bool ends = algorithm_.inside == numerics::Inside::sums;
    Json bad = Json::array();
    for (std::int64_t r = 0; step.phase != Phase::start && r < step.rows; ++r) {
      const numerics::TraceStep& carries =
          ends ? all_.end(step.batch_head, step.first_row + r) : row(step, r).carries;
      const bool here =
          ends ? step.phase == Phase::finish && carries.state != StepState::right
               : row(step, r).turns_bad && numerics::phase_of(carries.quantity) == step.phase;
      if (here)
        bad.push_back({{"row", step.first_row + r},
                       {"quantity", ends ? "O" : carries.quantity},
                       {"state", name_of(carries.state)},
                       {"why", carries.why}});
    }
    if (!bad.empty())
      json["bad"] = bad;
  }

  const numerics::Steps& all_;
  const Kernel& kernel_;
  const numerics::Algorithm& algorithm_;
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

Json json_of(const numerics::FirstBad& bad, const numerics::Steps& all, numerics::Inside inside) {
  const bool ends = inside == numerics::Inside::sums;
  const numerics::TraceStep& carries =
      ends ? all.end(bad.batch_head, bad.row) : all.row(bad.batch_head, bad.tile, bad.row).carries;
  return {{"step", bad.step},
          {"batch_head", bad.batch_head},
          {"row", bad.row},
          {"tile", bad.tile},
          {"quantity", ends ? "O" : carries.quantity},
          {"state", name_of(carries.state)},
          {"why", carries.why}};
}

std::string_view name_of(numerics::Inside inside) {
  constexpr std::array<std::string_view, 3> kNames{"O", "O of sums", "sums"};
  return kNames[static_cast<std::size_t>(inside)];
}

/// The arrays that the lines read or write, and those in which the start finds something.
Json arrays_in_HBM(const numerics::Algorithm& algorithm) {
  Json arrays = Json::array();
  for (const std::string_view letter : {"Q", "K", "V", "O", "m", "l", "S", "X"})
    for (const numerics::AlgorithmLine& line : algorithm.lines)
      if (line.reads.find(letter) != std::string_view::npos ||
          line.writes.find(letter) != std::string_view::npos) {
        arrays.push_back(letter);
        break;
      }
  return arrays;
}

Json head_of(const reference::Recipe& recipe, const numerics::EdgeCase* edge_case,
             const Problem& problem, const Kernel& kernel, const numerics::Steps& all) {
  const numerics::Algorithm& algorithm = *numerics::algorithm_of(kernel);
  const Shape& shape = problem.shape;
  const Traffic form = numerics::closed_form(kernel, shape);
  Json json{{"what", "trace"}, {"recipe", reference::to_string(recipe)}, {"case", nullptr}};
  if (edge_case != nullptr)
    json["case"] = {{"id", edge_case->id},
                    {"kind", numerics::name_of(edge_case->kind)},
                    {"why", edge_case->why}};
  json["kernel"] = kernel.id;
  json["says"] = kernel.says;
  json["algorithm"] = algorithm.variant;
  json["lines"] = json_of(algorithm);
  json["inside"] = name_of(algorithm.inside);
  json["resumes"] = kernel.resumes;
  json["LSE"] = kernel.arithmetic.gives_LSE;
  json["HBM"] = arrays_in_HBM(algorithm);
  json["ranges"] = all.ranges.size();
  json["batch_heads"] = shape.batch_heads;
  json["n_q"] = shape.n_q;
  json["n_kv"] = shape.n_kv;
  json["d"] = shape.d;
  json["dv"] = shape.dv;
  json["scale"] = short_number(problem.scale);
  json["Br"] = all.rows_of_block;
  json["Bc"] = kernel.Bc;
  json["D"] = kernel.D;
  json["tiles"] = all.tiles;
  json["blocks"] = all.blocks;
  json["steps"] = all.steps.size();
  json["traffic"] = {
      {"formula", numerics::traffic_formula(kernel)},
      {"read", json_of(form, &Traffic::OfArray::read)},
      {"written", json_of(form, &Traffic::OfArray::written)},
      {"total", {total(form, &Traffic::OfArray::read), total(form, &Traffic::OfArray::written)}}};
  json["differs"] = all.differs ? json_of(*all.differs) : Json(nullptr);
  json["first_bad"] =
      all.first_bad ? json_of(*all.first_bad, all, algorithm.inside) : Json(nullptr);
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
  return shape.n_kv <= kMostTiles * kernel.Bc && page_bytes(shape, kernel) <= kMostPageBytes;
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
  const StepWriter writer(steps, kernel);
  for (std::size_t i = 0; i < steps.steps.size(); ++i)
    records.push_back(writer.write(i));
  return records;
}

std::int64_t page_bytes(const Shape& shape, const Kernel& kernel) {
  // With its comma, a normal float takes 12 bytes, an error in ulp 6.
  constexpr std::int64_t kTemplate = 48 << 10, kOfStep = 380, kNumber = 12, kUlp = 6;
  // m_tile, m, alpha, sum p, alpha l, l, beta; the truth
  const bool has_beta = kernel.arithmetic.order == kernels::Order::tile_maximum;
  const std::int64_t of_row = (has_beta ? 8 : 7) * kNumber + 14;
  const numerics::Algorithm& algorithm = *numerics::algorithm_of(kernel);
  const std::int64_t tiles = kernels::parts(shape.n_kv, kernel.Bc);
  const std::int64_t inputs = shape.n_q * shape.d + shape.n_kv * (shape.d + shape.dv);
  // S and p, and both again in a second pass.
  const std::int64_t inside = (algorithm.has(Phase::weights) ? 4 : 2) * shape.n_q * shape.n_kv;
  const std::int64_t states = 2 * kernels::kKeyRanges + 1; // of the ranges, merged, the end
  const std::int64_t rows = shape.n_q * (tiles + (kernel.resumes ? 0 : states));
  return kTemplate + kOfStep * numerics::count_steps(shape, kernel) +
         shape.batch_heads *
             (kNumber * (inputs + inside) + rows * (of_row + shape.dv * (2 * kNumber + kUlp)));
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
      shape.n_q, shape.n_kv, shape.d, kernel.Bc, kernels::parts(shape.n_kv, kernel.Bc),
      static_cast<double>(page_bytes(shape, kernel)) / (1 << 20), kMostTiles, kMostPageBytes >> 20,
      advice));
}

} // namespace fa1::reports
