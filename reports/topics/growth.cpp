#include "reports/topics/growth.hpp"

#include "numerics/growth.hpp"
#include "numerics/sweep.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"
#include "reports/family.hpp"
#include "reports/parallel.hpp"
#include "reports/topics/growth_tables.hpp"
#include "reports/topics/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace fa1::reports {
namespace {

using numerics::GrowthPoint;
using reference::Problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Amount {
  int seeds;
  std::int64_t most_keys;         ///< of the growth with the keys
  std::int64_t most_keys_of_tile; ///< of the best tile
  std::int64_t most_keys_graded;
  int fault_problems;
};

Amount amount_of(Level level) {
  switch (level) {
  case Level::quick:
    return {2, 4096, 4096, 1024, 4};
  case Level::standard:
    return {5, 16384, 16384, 4096, 20};
  case Level::full:
    break;
  }
  return {8, 131072, 65536, 16384, 20};
}

// ---------------------------------------------------------------------------------------------------
// Heavy keys
// ---------------------------------------------------------------------------------------------------

enum class Heavy { nowhere, first, last, random };

/// The first column of Q is 1, that of K lifts the scores of the heavy keys by 6.
Problem with_heavy_keys(Problem problem, Heavy where, std::uint64_t seed) {
  constexpr std::int64_t kOneIn = 16;
  constexpr float kLift = 6.0f;
  if (where == Heavy::nowhere)
    return problem;
  std::mt19937_64 random(seed);
  const std::int64_t keys = problem.shape.n_kv, heavy = keys / kOneIn;
  for (std::int64_t row = 0; row < problem.shape.n_q; ++row)
    problem.Q(0, row, 0) = 1.0f;
  for (std::int64_t j = 0, left = heavy; j < keys; ++j) {
    const bool here =
        where == Heavy::first ? j < heavy
        : where == Heavy::last
            ? j >= keys - heavy
            // of the keys that are left, so many are heavy
            : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(keys - j)) < left;
    left -= here;
    problem.K(0, j, 0) = here ? kLift / problem.scale : 0.0f;
  }
  return problem;
}

// ---------------------------------------------------------------------------------------------------
// Slopes
// ---------------------------------------------------------------------------------------------------

/// One thing that grows.
struct Study {
  const char* id;
  const char* what;   ///< as the table names it
  const char* key;    ///< of the recipe; Bc: the tile
  const char* values; ///< LIST
  const char* base;
  std::int64_t Bc;
  bool closed_form;
  Heavy heavy = Heavy::nowhere;
};

std::vector<Study> studies(const std::string& keys) {
  return {
      {"keys", "keys N, V of one sign", "n_kv", keys.c_str(), "n_q=8 d=16 v=positive", 32, true},
      {"keys-normal", "keys N, V of both signs", "n_kv", keys.c_str(), "n_q=8 d=16", 32, false},
      {"head", "head dimension d", "d", "8..256", "n_q=16 n_kv=256", 16, false},
      {"range", "deviation of the scores", "sigma", "1,2,4,8,16,32", "n_q=16 n_kv=512 d=16", 32,
       false},
      {"narrow", "tile Bc, far below the best", "Bc", "1,2,4,8,16,32",
       "n_q=16 n_kv=4096 d=8 v=positive", 0, true},
      {"wide", "tile Bc, far above the best", "Bc", "1024,2048,4096",
       "n_q=16 n_kv=4096 d=8 v=positive", 0, true},
      {"heavy-first", "keys N, heavy keys first", "n_kv", "256..4096", "n_q=16 d=8 v=positive", 16,
       false, Heavy::first},
      {"heavy-last", "keys N, heavy keys last", "n_kv", "256..4096", "n_q=16 d=8 v=positive", 16,
       false, Heavy::last},
      {"heavy-random", "keys N, heavy keys anywhere", "n_kv", "256..4096", "n_q=16 d=8 v=positive",
       16, false, Heavy::random},
      {"ascending", "keys N, scores ascending", "n_kv", "256..4096",
       "n_q=16 d=8 v=positive order=ascending", 16, false},
      {"descending", "keys N, scores descending", "n_kv", "256..4096",
       "n_q=16 d=8 v=positive order=descending", 16, false},
  };
}

struct Run {
  const Study* study;
  double x;
  reference::Recipe recipe;
  std::int64_t Bc;
  GrowthPoint point;
};

/// All problems of all studies, in their order.
std::vector<Run> measure(const std::vector<Study>& all, int seeds) {
  std::vector<Run> runs;
  for (const Study& study : all) {
    const bool tiles = std::string_view(study.key) == "Bc";
    // A tile is no key of a recipe; its widths are read as numbers of keys and put back.
    const std::string key = tiles ? "n_kv" : study.key;
    for (const std::string& value :
         numerics::parse_axis(fmt::format("{}={}", key, study.values)).values)
      for (int seed = 1; seed <= seeds; ++seed) {
        const auto recipe = reference::parse_recipe(
            tiles ? fmt::format("{} seed={}", study.base, seed)
                  : fmt::format("{} {}={} seed={}", study.base, key, value, seed));
        runs.push_back({&study,
                        std::strtod(value.c_str(), nullptr),
                        recipe,
                        tiles ? std::strtoll(value.c_str(), nullptr, 10) : study.Bc,
                        {}});
      }
  }
  std::vector<std::size_t> order(runs.size()); // largest first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) {
    return numerics::work_of(reference::shape_of(runs[i].recipe));
  });
  in_parallel(runs.size(), [&](std::size_t i) {
    Run& run = runs[order[i]];
    const Problem problem =
        with_heavy_keys(reference::make_problem(run.recipe), run.study->heavy, run.recipe.seed);
    kernels::Arithmetic arithmetic;
    arithmetic.Bc = static_cast<int>(run.Bc);
    run.point = numerics::growth_point(problem, reference::tiled_mirror(problem, run.Bc),
                                       reference::certify(problem), arithmetic);
  });
  return runs;
}

struct Fits {
  numerics::Slope measured, predicted, closed;
  double least_ratio = std::numeric_limits<double>::infinity(), most_ratio = 0.0;
};

double closed_form(const Run& run) {
  return run.study->closed_form ? numerics::near_uniform_rms(static_cast<double>(run.recipe.n_kv),
                                                             static_cast<double>(run.Bc), {})
                                : kNaN;
}

Fits fits_of(const Study& study, const std::vector<Run>& runs) {
  Fits fits;
  std::vector<double> x, rms, predicted, closed;
  for (const Run& run : runs)
    if (run.study == &study) {
      x.push_back(run.x);
      rms.push_back(run.point.rms);
      predicted.push_back(run.point.predicted);
      closed.push_back(closed_form(run));
      const double ratio = run.point.rms / run.point.predicted;
      fits.least_ratio = std::min(fits.least_ratio, ratio);
      fits.most_ratio = std::max(fits.most_ratio, ratio);
    }
  fits.measured = numerics::log_log_slope(x, rms);
  fits.predicted = numerics::log_log_slope(x, predicted);
  fits.closed = numerics::log_log_slope(x, closed);
  return fits;
}

/// The problems of a study with one x as one point, value(point) over x.
Json curve(const Study& study, const std::vector<Run>& runs, auto&& value) {
  Json points = Json::array();
  std::vector<GrowthPoint> here;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].study != &study)
      continue;
    here.push_back(runs[i].point);
    if (i + 1 < runs.size() && runs[i + 1].study == &study && runs[i + 1].x == runs[i].x)
      continue;
    const double y = value(numerics::pooled(here), runs[i]);
    if (std::isfinite(y))
      points.push_back({runs[i].x, y});
    here.clear();
  }
  return points;
}

constexpr const char* kUnit = "error, u sum p|v|";

Json plot_of(const Study& study, const std::vector<Run>& runs, std::string title,
             std::string x_title, std::string says) {
  Json all = Json::array();
  all.push_back(series("largest", "points", 2,
                       curve(study, runs, [](const GrowthPoint& p, const Run&) { return p.max; })));
  all.push_back(series("RMS", "points", 1,
                       curve(study, runs, [](const GrowthPoint& p, const Run&) { return p.rms; })));
  all.push_back(
      series("RMS predicted", "line", 1,
             curve(study, runs, [](const GrowthPoint& p, const Run&) { return p.predicted; })));
  if (study.closed_form)
    all.push_back(series(
        "closed form", "dashes", 3,
        curve(study, runs, [](const GrowthPoint&, const Run& run) { return closed_form(run); })));
  all.push_back(
      series("softmax bound", "dashes", 0,
             curve(study, runs, [](const GrowthPoint& p, const Run&) { return p.softmax; })));
  all.push_back(series("bound", "line", 0, curve(study, runs, [](const GrowthPoint& p, const Run&) {
                         return p.bound;
                       })));
  return plot(study.id, std::move(title), {std::move(x_title), kUnit}, std::move(says),
              std::move(all));
}

Json record_of(const Study& study, const Fits& fits) {
  return {{"what", study.what},
          {"over", fmt::format("{} {}", study.key, study.values)},
          {"slope", number(fits.measured.slope)},
          {"low", number(fits.measured.low)},
          {"high", number(fits.measured.high)},
          {"predicted", number(fits.predicted.slope)},
          {"inside",
           fits.predicted.slope >= fits.measured.low && fits.predicted.slope <= fits.measured.high},
          {"closed", number(fits.closed.slope)},
          {"least_ratio", number(fits.least_ratio)},
          {"most_ratio", number(fits.most_ratio)},
          {"points", fits.measured.points},
          {"Bc", study.Bc},
          {"recipe", study.base}};
}

const Study& named(const std::vector<Study>& all, std::string_view id) {
  return *std::ranges::find_if(all, [&](const Study& study) { return study.id == id; });
}

} // namespace

Json measure_growth(const TopicAmount& amount) {
  const Amount how_much = amount_of(amount.level);
  const std::string keys = fmt::format("256..{}", how_much.most_keys);
  const std::vector<Study> all = studies(keys);
  const std::vector<Run> runs = measure(all, how_much.seeds);
  Json slopes = Json::array(), orders = Json::array();
  int colour = 0;
  for (const Study& study : all) {
    slopes.push_back(record_of(study, fits_of(study, runs)));
    if (&study >= &named(all, "heavy-first"))
      orders.push_back(
          series(study.what + std::string_view("keys N, ").size(), "line", colour++,
                 curve(study, runs, [](const GrowthPoint& p, const Run&) { return p.rms; })));
  }
  const Tiles tiles = best_tiles(how_much.most_keys_of_tile, how_much.seeds);
  const Json graded = grades(how_much.most_keys_graded);
  const Json seen = faults(how_much.fault_problems);
  const std::string seeds = fmt::format("1..{}+1", how_much.seeds);
  const Json ratios = compare_divisions(seeds, 4096);

  const auto slope_text = [&](const char* id) {
    const numerics::Slope s = fits_of(named(all, id), runs).measured;
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", s.slope, s.low, s.high);
  };
  const Fits of_keys = fits_of(all.front(), runs);
  Json sentences = Json::array();
  sentences.push_back(fmt::format("With V of one sign the RMS error of fa1 grows as N^{:.2f} (95 % "
                                  "interval {:.2f} to {:.2f}); predicted "
                                  "{:.2f} rounding by rounding and {:.2f} by the closed form.",
                                  of_keys.measured.slope, of_keys.measured.low,
                                  of_keys.measured.high, of_keys.predicted.slope,
                                  of_keys.closed.slope));
  const auto inside =
      std::ranges::count_if(slopes, [](const Json& slope) { return slope["inside"] == true; });
  sentences.push_back(fmt::format("{} of {} slopes that are predicted rounding by rounding lie "
                                  "inside the measured 95 % interval.",
                                  inside, slopes.size()));
  sentences.push_back(fmt::format("Over the tile the error is U-shaped: the best Bc grows as "
                                  "N^{:.2f} ({:.2f} to {:.2f}), predicted N^0.67.",
                                  tiles.power.slope, tiles.power.low, tiles.power.high));
  sentences.push_back(
      fmt::format("Slope over N with the heavy keys first {}, anywhere {}, last {}; "
                  "scores descending {}, ascending {}.",
                  slope_text("heavy-first"), slope_text("heavy-random"), slope_text("heavy-last"),
                  slope_text("descending"), slope_text("ascending")));
  std::string by_letter;
  for (const char* letter : {"A", "B", "C", "-"}) {
    std::string names;
    for (const Json& record : graded)
      if (record["grade"] == letter)
        names += (names.empty() ? "" : ", ") + record["kernel"].get<std::string>();
    if (!names.empty())
      by_letter += fmt::format("{}{}: {}", by_letter.empty() ? "" : "; ",
                               *letter == '-' ? "none" : letter, names);
  }
  sentences.push_back(fmt::format("Grades. {}.", by_letter));
  double before = 0.0, after = 0.0;
  for (const Json& record : seen) {
    before = std::max(before, number_of(record["before"]));
    after = std::max(after, number_of(record["after"]));
  }
  sentences.push_back(
      fmt::format("The smallest precision fault seen, in RMS of the output: {:.2g} u sum p|v| or "
                  "less with the screen of 5 "
                  "expectations, {:.2g} u or less with the errors predicted rounding by rounding.",
                  before, after));
  for (const Json& ratio : ratios)
    sentences.push_back(fmt::format("fa1 over fa1_deferred{}: {:.3f} ({:.3f} to {:.3f}), predicted "
                                    "{:.3f}; not sqrt 2, because the product with l "
                                    "mostly undoes the division by it.",
                                    ratio["contracted"].get<bool>() ? ", fused" : "",
                                    number_of(ratio["measured"]), number_of(ratio["low"]),
                                    number_of(ratio["high"]), number_of(ratio["predicted"])));

  Json plots = Json::array(
      {plot_of(all[0], runs, "Error against the number of keys, V of one sign", "keys N",
               "RMS and largest error, the RMS predicted rounding by rounding, the closed form, "
               "and two worst cases: "
               "the bound, and what Blanchard, Higham and Higham prove of the softmax alone."),
       plot_of(named(all, "head"), runs, "Error against the head dimension", "head dimension d",
               "Only the dot products grow with d."),
       plot_of(named(all, "range"), runs, "Error against the range of the scores",
               "standard deviation of the scores",
               "An error of a score is an absolute error of the exponent."),
       plot("order", "Error against the number of keys, by the order of the keys",
            {"keys N", "RMS " + std::string(kUnit)},
            "Heavy keys first are carried through every later tile; heavy keys last are not.",
            orders),
       plot("tile", "Error against the width of the tiles",
            {"keys a tile, Bc", "RMS " + std::string(kUnit)},
            "Narrow tiles round the carries often, wide ones sum many terms in a row.",
            tiles.u_shapes),
       plot("best-tile", "The best tile against the number of keys", {"keys N", "best Bc"},
            "Where the curve fitted to each U is least, beside the closed form.", tiles.minima)});
  Json tables = Json::array(
      {table("slopes", "Slopes on log-log axes",
             "The slope of the RMS error with its 95 % interval, beside the slope predicted for "
             "the same problems "
             "rounding by rounding and by the closed form; and the measured RMS over the predicted "
             "one, smallest "
             "and largest of all problems.",
             {{"what", "against"},
              {"over", "from..to"},
              {"slope", "slope"},
              {"low", "low"},
              {"high", "high"},
              {"predicted", "predicted"},
              {"inside", "inside"},
              {"closed", "closed form"},
              {"least_ratio", "measured / predicted, least"},
              {"most_ratio", "most"}},
             slopes),
       table("tiles", "The best tile",
             "rms^2 = A N / Bc + B Bc^2 / N is fitted to each U; A and B by the closed form are "
             "0.18 and 0.12.",
             {{"keys", "N"},
              {"best", "best Bc, fitted"},
              {"predicted", "predicted"},
              {"least_at", "least of the measured"},
              {"A", "A"},
              {"B", "B"}},
             tiles.records),
       table("grades", "Grades as for the BLAS",
             "Largest error over u (sum p|v| + 2 sum p|v - o| kappa), kappa = scale sum|q k|: what "
             "relative changes of the "
             "inputs by u can do. A: below f(N) = 4 N + d + 6 with a slope of at most 1; B: with "
             "the largest such unit "
             "of the row; C: of the problem.",
             {{"kernel", "kernel"},
              {"grade", "grade"},
              {"worst", "largest"},
              {"part", "of f(N)"},
              {"slope", "slope over N"},
              {"low", "low"},
              {"high", "high"},
              {"plain_slope", "slope over sum p|v|"}},
             graded),
       table("faults", "The smallest precision fault seen",
             "Entries of one input are off by a random relative error. How large the RMS of what "
             "that does to O must be, "
             "in u sum p|v|, to be seen in every problem: before, by an element beyond 5 times the "
             "statistical "
             "expectation of the bound; after, by the sum of squares beyond what the predicted "
             "variances allow.",
             {{"recipe", "inputs"},
              {"where", "fault in"},
              {"right", "right kernel, RMS"},
              {"before", "before"},
              {"after", "after"},
              {"ratio", "before / after"},
              {"false_alarms", "false alarms"}},
             seen),
       table("divisions", "FA1 over the kernel that divides once",
             "RMS error of fa1 over that of fa1_deferred, from 1024 keys on, 95 % interval.",
             {{"contracted", "fused"},
              {"measured", "measured"},
              {"low", "low"},
              {"high", "high"},
              {"predicted", "predicted"},
              {"problems", "problems"}},
             ratios)});
  bool held = true;
  for (const Json& record : graded)
    held = held && (record["mutant"].get<bool>() || record["grade"] != "-");
  for (const Json& record : seen)
    held = held && record["false_alarms"] == 0;
  return {
      {"sentences", sentences},
      {"plots", plots},
      {"tables", tables},
      {"reproduce",
       {fmt::format("./fa1lab sweep --vary n_kv={} --vary seed={} '{}' --kernel fa1.Br32xBc32",
                    keys, seeds, all.front().base),
        fmt::format("./fa1lab sweep --vary d={} --vary seed={} '{}' --kernel fa1.Br16xBc16",
                    named(all, "head").values, seeds, named(all, "head").base),
        fmt::format("./fa1lab sweep --vary sigma={} --vary seed={} '{}' --kernel fa1.Br32xBc32",
                    named(all, "range").values, seeds, named(all, "range").base),
        "./fa1lab report" +
            (amount.level == Level::standard ? "" : fmt::format(" --{}", name_of(amount.level)))}},
      {"held", held}};
}

} // namespace fa1::reports
