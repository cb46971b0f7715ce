#include "numerics/papers.hpp"

#include "numerics/papers_analysis.hpp"
#include "numerics/precision.hpp"
#include "reference/parallel.hpp"
#include "reference/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string_view>

namespace fa1::numerics {
namespace {

using reference::Problem;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------------------------------------------
// Measuring many shapes

/// One problem and the configurations that are measured on it.
struct Part {
  std::string recipe;
  std::int64_t Bc;
  std::vector<std::string_view> configurations;
};

using Measured = std::map<std::string_view, PrecisionRecord>; ///< by configuration

Measured measure(const Part& part) {
  std::vector<Configuration> configurations;
  for (const std::string_view id : part.configurations)
    configurations.push_back(parse_configuration(id));
  const Problem problem = reference::make_problem(reference::parse_recipe(part.recipe));
  const auto records = measure_precision(problem, configurations, part.Bc);
  Measured measured;
  for (std::size_t i = 0; i < records.size(); ++i)
    measured[part.configurations[i]] = records[i];
  return measured;
}

/// The geometric mean of positive numbers and their range, put into a row.
void put(PaperRow& row, std::span<const double> values) {
  const auto [low, high] = std::ranges::minmax(values);
  row.low = low;
  row.high = high;
  const double logs = std::transform_reduce(values.begin(), values.end(), 0.0, std::plus<>(),
                                            [](double x) { return std::log(x); });
  row.ours = values.size() == 1 ? values[0] : std::exp(logs / static_cast<double>(values.size()));
}

// ---------------------------------------------------------------------------------------------------
// FlashAttention-3

constexpr std::int64_t kFa3Bc = 128, kFa3Rows = 128;

struct Fa3Shapes {
  std::vector<std::int64_t> keys, columns;
  std::vector<int> seeds;
};

Fa3Shapes fa3_shapes(PaperSet set) {
  if (set == PaperSet::few)
    return {{1024}, {64, 128}, {1}};
  return {{1024, 2048, 4096}, {64, 128}, {1, 2, 3}};
}

/// The seeds of one shape stand together.
std::vector<Part> fa3_parts(PaperSet set) {
  const Fa3Shapes shapes = fa3_shapes(set);
  std::vector<Part> parts;
  for (const std::int64_t n_kv : shapes.keys)
    for (const std::int64_t d : shapes.columns)
      for (const int seed : shapes.seeds)
        parts.push_back({fmt::format("n_q={} n_kv={} d={} rows={} dist=outliers v=outliers seed={}",
                                     n_kv, n_kv, d, kFa3Rows, seed),
                         kFa3Bc,
                         {"standard-fp16", "fa2-fp16", "standard-fp8", "fa3-fp8", "fa3-fp8-tensor",
                          "fa3-fp8-unturned"}});
  return parts;
}

std::vector<PaperRow> fa3_rows(std::span<const Measured> measured, PaperSet set) {
  const Fa3Shapes asked_of = fa3_shapes(set);
  constexpr double kStandard16 = 3.2e-4, kFlash16 = 1.9e-4; // the source's table
  constexpr double kStandard8 = 2.4e-2, kFa3 = 9.1e-3, kTensor = 9.3e-3, kUnturned = 2.4e-2;
  const std::string differs =
      "their shapes are not stated, nor whether their error has the inputs' rounding in it";
  const std::string shapes =
      fmt::format("n_kv {}, d {}, Bc = {}, {} rows of {} seeds each, against the truth of the "
                  "unrounded inputs",
                  fmt::join(asked_of.keys, ", "), fmt::join(asked_of.columns, ", "), kFa3Bc,
                  kFa3Rows, asked_of.seeds.size());
  struct Asked {
    std::string quantity;
    std::string_view of, over; ///< `over` empty: the RMSE of `of` itself
    double theirs;
    std::string differs;
  };
  const std::vector<Asked> all{
      {"fp16: RMSE of standard attention", "standard-fp16", "", kStandard16, differs},
      {"fp16: RMSE of FlashAttention-2 and 3", "fa2-fp16", "", kFlash16, differs},
      {"fp16: standard over FlashAttention", "standard-fp16", "fa2-fp16", kStandard16 / kFlash16,
       differs},
      {"fp8: RMSE of standard attention", "standard-fp8", "", kStandard8,
       differs + "; scaled as whole tensors, scores and weights in fp16"},
      {"fp8: RMSE of FlashAttention-3", "fa3-fp8", "", kFa3, differs},
      {"fp8: RMSE without block quantisation", "fa3-fp8-tensor", "", kTensor, differs},
      {"fp8: RMSE without incoherent processing", "fa3-fp8-unturned", "", kUnturned, differs},
      {"fp8: standard over FlashAttention-3", "standard-fp8", "fa3-fp8", kStandard8 / kFa3,
       differs},
      {"fp8: without over with block quantisation", "fa3-fp8-tensor", "fa3-fp8", kTensor / kFa3,
       differs + "; 2 % are less than shapes and seeds differ by"},
      {"fp8: without over with incoherent processing", "fa3-fp8-unturned", "fa3-fp8",
       kUnturned / kFa3, differs}};
  using Which = PrecisionError PrecisionRecord::*;
  /// RMSE over the seeds of each shape, or the ratio of two.
  const auto over_shapes = [&](std::string_view of, std::string_view over, Which which) {
    const auto rmse = [&](std::span<const Measured> seeds, std::string_view id) {
      double squares = 0.0;
      for (const Measured& seed : seeds)
        squares += std::pow((seed.at(id).*which).rms_absolute, 2);
      return std::sqrt(squares / static_cast<double>(seeds.size()));
    };
    std::vector<double> values;
    for (std::size_t first = 0; first < measured.size(); first += asked_of.seeds.size()) {
      const auto seeds = measured.subspan(first, asked_of.seeds.size());
      values.push_back(over.empty() ? rmse(seeds, of) : rmse(seeds, of) / rmse(seeds, over));
    }
    return values;
  };
  const std::string source = "FlashAttention-3 (Shah et al. 2024), 4.3";
  std::vector<PaperRow> rows;
  for (const Asked& asked : all) {
    PaperRow row{.source = source,
                 .quantity = asked.quantity,
                 .unit = asked.over.empty() ? "RMSE" : "",
                 .theirs = asked.theirs,
                 .says = "",
                 .shapes = shapes,
                 .differs = asked.differs};
    put(row, over_shapes(asked.of, asked.over, &PrecisionRecord::total));
    rows.push_back(std::move(row));
  }
  PaperRow given{.source = source,
                 .quantity = "fp16: standard over FlashAttention, inputs given in fp16",
                 .unit = "",
                 .theirs = kNone,
                 .says = "not stated",
                 .shapes = "the same, against the truth of the fp16 inputs",
                 .differs =
                     "rounding the inputs is left out of the error; theirs fit the rows above"};
  put(given, over_shapes("standard-fp16", "fa2-fp16", &PrecisionRecord::arithmetic));
  rows.insert(rows.begin() + 3, std::move(given));
  return rows;
}

// ---------------------------------------------------------------------------------------------------
// Golden et al.

constexpr std::int64_t kGoldenBc = 64;

struct GoldenShapes {
  std::vector<std::int64_t> keys; ///< with tiles of kGoldenBc
  std::int64_t keys_for_tiles;
  std::vector<std::int64_t> tiles;
};

GoldenShapes golden_shapes(PaperSet set) {
  if (set == PaperSet::few)
    return {{512, 1024, 2048}, 1024, {16, 256}};
  return {{512, 1024, 2048, 4096, 8192}, 2048, {16, 32, 64, 128, 256}};
}

Part golden_part(std::int64_t n_kv, std::int64_t Bc) {
  return {fmt::format("n_q={} n_kv={} d=64 rows=32", n_kv, n_kv),
          Bc,
          {"standard-bf16", "fa2-bf16", "bf16-intermediates"}};
}

std::vector<Part> golden_parts(PaperSet set) {
  const GoldenShapes shapes = golden_shapes(set);
  std::vector<Part> parts;
  for (const std::int64_t n_kv : shapes.keys)
    parts.push_back(golden_part(n_kv, kGoldenBc));
  for (const std::int64_t Bc : shapes.tiles)
    parts.push_back(golden_part(shapes.keys_for_tiles, Bc));
  return parts;
}

std::vector<PaperRow> golden_rows(std::span<const Measured> measured, PaperSet set) {
  const GoldenShapes asked_of = golden_shapes(set);
  const auto ratio = [](const Measured& at, std::string_view of) {
    return at.at(of).arithmetic.max_absolute / at.at("standard-bf16").arithmetic.max_absolute;
  };
  const auto over_keys = measured.first(asked_of.keys.size());
  const auto over_tiles = measured.subspan(asked_of.keys.size());
  const std::string source = "Golden et al. 2024";
  const std::string differs =
      "their inputs are not stated, ours are N(0,1); largest error, each against the truth of the "
      "bf16 inputs; sums in the matrix unit stay fp32; 32 rows";
  const std::string keys = fmt::format("n_kv {}, d = 64, Bc = {}", fmt::join(asked_of.keys, ", "),
                                       kGoldenBc),
                    tiles = fmt::format("Bc {}, n_kv = {}, d = 64", fmt::join(asked_of.tiles, ", "),
                                        asked_of.keys_for_tiles);
  std::vector<PaperRow> rows;
  const auto add = [&](std::string quantity, double theirs, std::string says,
                       std::vector<double> values, std::string shapes, std::string why) {
    PaperRow row{.source = source,
                 .quantity = std::move(quantity),
                 .unit = "",
                 .theirs = theirs,
                 .says = std::move(says),
                 .shapes = std::move(shapes),
                 .differs = std::move(why)};
    put(row, values);
    rows.push_back(std::move(row));
  };
  std::vector<double> all, carried;
  for (const Measured& at : over_keys) {
    all.push_back(ratio(at, "bf16-intermediates"));
    carried.push_back(ratio(at, "fa2-bf16"));
  }
  const std::vector<double> by_tile{ratio(over_tiles.front(), "bf16-intermediates") /
                                    ratio(over_tiles.back(), "bf16-intermediates")};
  add("every intermediate bf16, over standard attention", 10.0, "about 10", all, keys, differs);
  add(fmt::format("the same: {} keys over {}", asked_of.keys.back(), asked_of.keys.front()), kNone,
      "more than 1: it grows with the keys", {all.back() / all.front()}, keys, differs);
  add(fmt::format("the same: tiles of {} over tiles of {}", asked_of.tiles.front(),
                  asked_of.tiles.back()),
      kNone, "more than 1: it shrinks with larger tiles", by_tile, tiles, differs);
  add("scores, l and O in fp32, over standard attention", kNone,
      "less than 1 by FlashAttention-3's table", carried, keys,
      "why the two papers disagree: there the carries are fp32, and then the tiles win");
  return rows;
}

// ---------------------------------------------------------------------------------------------------
// Qiu and Yao

constexpr std::int64_t kPairs = 128; ///< bf16 values in (-4, -2], all of them

/// Two weights at the maximum, which meet every pair of bf16 values in (-4,-2], and a small third
/// one, 2^-12, which meets -2: a residue of -2^-11. One pair a column and batch-head.
Problem repeated_maxima(float score, bool residue) {
  constexpr std::int64_t kColumns = 2 * kPairs;
  Problem problem;
  problem.shape = {
      .batch_heads = kPairs * kPairs / kColumns, .n_q = 1, .n_kv = 3, .d = 1, .dv = kColumns};
  const reference::Shape& shape = problem.shape;
  problem.Q = reference::Tensor<float>(shape.batch_heads, shape.n_q, shape.d);
  problem.K = reference::Tensor<float>(shape.batch_heads, shape.n_kv, shape.d);
  problem.V = reference::Tensor<float>(shape.batch_heads, shape.n_kv, shape.dv);
  std::ranges::fill(problem.Q.elements(), 1.0f);
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    problem.K(bh, 0, 0) = problem.K(bh, 1, 0) = score;
    problem.K(bh, 2, 0) = score - 12.0f * std::log(2.0f);
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const std::int64_t pair = bh * kColumns + c, first = pair / kPairs, second = pair % kPairs;
      problem.V(bh, 0, c) = -2.0f - static_cast<float>(first) / 64.0f;
      problem.V(bh, 1, c) = -2.0f - static_cast<float>(second) / 64.0f;
      problem.V(bh, 2, c) = residue ? -2.0f : 0.0f;
    }
  }
  return problem;
}

/// Mean signed error of sum p v, before the division, in ulp of bf16 there. The weights are those
/// that meet V; O times l gives the sum back to fp32's accuracy, which is 2^-16 of a bf16 ulp.
double mean_bias(std::string_view id, float score, bool residue) {
  Configuration configuration = parse_configuration(id);
  Problem problem = repeated_maxima(score, residue);
  // The scores are ours to choose: bf16 would move them.
  const Format& bf16 = format_of(FormatId::bf16);
  configuration.formats[static_cast<std::size_t>(Stage::inputs)] = FormatId::fp32;
  const auto n_kv = static_cast<std::size_t>(problem.shape.n_kv);
  const reference::State state = emulate(problem, configuration, problem.shape.n_kv);
  double sum = 0.0;
  for (std::int64_t bh = 0; bh < problem.shape.batch_heads; ++bh)
    for (std::int64_t c = 0; c < problem.shape.dv; ++c) {
      double exact = 0.0;
      for (std::size_t j = 0; j < n_kv; ++j) {
        const auto key = static_cast<std::int64_t>(j);
        const float s = problem.K(bh, key, 0);
        const auto at = static_cast<std::size_t>(bh);
        exact += double{round_to(bf16, std::exp(s - state.m[at]))} * double{problem.V(bh, key, c)};
      }
      const double got = double{state.O(bh, 0, c)} * double{state.l[static_cast<std::size_t>(bh)]};
      sum += (got - exact) / std::ldexp(1.0, std::ilogb(exact) - bf16.fraction_bits);
    }
  return sum / static_cast<double>(problem.shape.batch_heads * problem.shape.dv);
}

std::vector<PaperRow> qiu_rows() {
  const std::string source = "Qiu and Yao 2025";
  const Format& bf16 = format_of(FormatId::bf16);
  std::vector<PaperRow> rows;
  const auto add = [&](std::string quantity, std::string unit, double theirs, std::string says,
                       std::span<const double> values, std::string shapes, std::string differs) {
    const auto [low, high] = std::ranges::minmax(values);
    rows.push_back(
        {.source = source,
         .quantity = std::move(quantity),
         .unit = std::move(unit),
         .theirs = theirs,
         .says = std::move(says),
         .ours = std::reduce(values.begin(), values.end()) / static_cast<double>(values.size()),
         .low = low,
         .high = high,
         .shapes = std::move(shapes),
         .differs = std::move(differs)});
  };

  // The worked example: the sum in fp32, as they print it, and what bf16 makes of it.
  constexpr float kExact = -4.703990459442139f;
  constexpr float kResidue = kExact - (-2.40625f) - (-2.296875f);
  const float sum = (-2.40625f + kResidue) + -2.296875f;
  const double rounded = round_to(bf16, sum);
  const double error = rounded - double{sum};
  add("-2.40625 and -2.296875 and a residue of the same sign, in bf16", "value", -4.71875, "",
      std::array{rounded}, "the example of the paper",
      "the residue is what their sum, -4.703990459442139, leaves of it");
  add("the same: error of the rounding", "value", -0.014759540557861328, "", std::array{error},
      "the example of the paper", "nothing");

  constexpr std::array<float, 8> kScores{0.5f, 0.75f, 1.0f, 1.25f, 1.5f, 1.75f, 2.0f, 2.25f};
  std::vector<double> fixed;
  for (const float score : kScores)
    fixed.push_back(mean_bias("bf16-pv-split", score, true));
  const std::string pairs = "all 16384 pairs of bf16 values in (-4,-2], two weights of 1";
  add("mean error of sum p v, a residue of the same sign", "output ulp", -0.234, "",
      std::array{mean_bias("bf16-pv", 1.0f, true)}, pairs + ", residue -2^-11",
      "every pair instead of random draws; the residue is ours: the mean is -1/4 ulp plus its "
      "size");
  add("mean error of sum p v, no residue", "output ulp", 0.0, "",
      std::array{mean_bias("bf16-pv", 1.0f, false)}, pairs, "every pair instead of random draws");
  add("mean error of sum p v, their fix", "output ulp", kNone, "the bias is gone", fixed,
      fmt::format("the same with the residue, maxima {}, beta = 7", fmt::join(kScores, ", ")),
      "where a maximum r > 0 is not unique, 7 r takes its place");
  return rows;
}

/// measured[i] belongs to parts[i].
std::vector<Measured> measure_all(const std::vector<Part>& parts, unsigned threads,
                                  const std::function<void()>& done) {
  std::vector<Measured> measured(parts.size());
  reference::in_parallel(parts.size(), threads, [&](std::size_t i) {
    measured[i] = measure(parts[i]);
    if (done)
      done();
  });
  return measured;
}

} // namespace

std::vector<PaperRow> paper_rows(Paper paper, PaperSet set, unsigned threads,
                                 const std::function<void()>& done) {
  switch (paper) {
  case Paper::flash_attention_3:
    return fa3_rows(measure_all(fa3_parts(set), threads, done), set);
  case Paper::golden:
    return golden_rows(measure_all(golden_parts(set), threads, done), set);
  case Paper::qiu_yao:
    return qiu_rows();
  case Paper::blanchard_higham:
    return softmax_rows(set);
  case Paper::demmel:
    return grade_rows(set, threads);
  case Paper::milakov_gimelshein:
    return merge_rows();
  default:
    return traffic_rows(set, threads);
  }
}

std::size_t paper_jobs(Paper paper, PaperSet set) {
  switch (paper) {
  case Paper::flash_attention_3:
    return fa3_parts(set).size();
  case Paper::golden:
    return golden_parts(set).size();
  default:
    return 0;
  }
}

} // namespace fa1::numerics
