#include "reports/commands/sweep.hpp"

#include "numerics/sweep.hpp"
#include "reports/arguments.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/sweep_file.hpp"
#include "reports/terminal.hpp"
#include "reports/writers.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace fa1::reports {
namespace {

/// A run of more multiply-adds has all threads for itself; smaller ones are run side by side.
constexpr double kLargeRun = 2e8;
/// So many small runs are spread over the threads at a time.
constexpr std::size_t kRunsAtOnce = 256;
constexpr unsigned kMostThreads = 1024;

struct Options {
  KernelChoice choice;
  std::vector<std::string> vary;
  std::string recipe, out, shard, threads;
  bool json = false, yes = false;
};

/// Of a part of the grid, whichever points are at hand: a line for each, and the slope at the end.
class Table {
public:
  explicit Table(const numerics::Grid& grid) : grid_(grid) {}

  void header() const {
    std::string line;
    for (const numerics::Axis& axis : grid_.axes())
      line += fmt::format("{:>12} ", axis.key);
    fmt::print(std::cout, "{}{:>10} {:>10} {:>10} {:>10} {:>12}  verdict\n", line, "max error",
               "RMS error", "bound", "expected", "error/bound");
  }

  void row(const numerics::GridPoint& point, const Json& record) {
    std::string line;
    for (const std::string& value : point.values)
      line += fmt::format("{:>12} ", value);
    const auto of = [&](const char* key) { return number_of(record[key]); };
    fmt::print(std::cout, "{}{:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g} {:>12.4g}  {}\n", line,
               of("max_error"), of("rms_error"), of("bound"), of("expected"), of("max_fraction"),
               record["verdict"].get<std::string>());
    if (grid_.axes().size() == 1 && x_.size() < numerics::kMaxPoints)
      if (const auto x = read_number<double>(point.values.front())) {
        x_.push_back(*x);
        errors_.push_back(of("rms_error"));
      }
  }

  void footer() const {
    fmt::print(std::cout,
               "errors in 2^-24 sum p|v|; bound and expected are RMS over the elements\n");
    if (const numerics::Slope fit = numerics::log_log_slope(x_, errors_);
        fit.points >= 3 && fit.low <= fit.high)
      fmt::print(std::cout,
                 "RMS error grows as {}^{:.3f}, 95 % confidence {:.3f} to {:.3f} ({} "
                 "points)\n",
                 grid_.axes().front().key, fit.slope, fit.low, fit.high, fit.points);
  }

private:
  const numerics::Grid& grid_;
  std::vector<double> x_, errors_;
};

/// The kernel of each point, looked for once for each name and size.
class KernelsOfPoints {
public:
  explicit KernelsOfPoints(KernelChoice& choice) : choice_(choice) {}

  const kernels::Kernel& operator()(const numerics::GridPoint& point) {
    const reference::Shape shape = reference::shape_of(point.recipe);
    const auto [at, is_new] =
        found_.try_emplace({point.kernel, std::max(shape.d, shape.dv)}, nullptr);
    if (is_new) {
      if (!point.kernel.empty())
        choice_.kernel = point.kernel;
      at->second = &choice_.for_shape(shape);
    }
    return *at->second;
  }

private:
  KernelChoice& choice_;
  std::map<std::pair<std::string, std::int64_t>, const kernels::Kernel*> found_;
};

struct Run {
  std::uint64_t number = 0; ///< of its point
  bool last = false;        ///< of its point
  numerics::GridPoint point;
  reference::Recipe recipe;
  const kernels::Kernel* kernel = nullptr;

  double work() const { return numerics::work_of(reference::shape_of(recipe)); }
  bool alone() const { return runs_alone(*kernel) || work() > kLargeRun; }
};

/// The samples of `runs`, handed to `take` in their order, each as soon as those before are there.
template <class Take>
void measure_side_by_side(const std::vector<Run>& runs, unsigned threads, const Take& take) {
  std::mutex mutex;
  std::map<std::size_t, numerics::Sample> ready;
  std::size_t next = 0;
  const auto each = static_cast<unsigned>(
      std::max<std::size_t>(1, threads / std::max<std::size_t>(1, runs.size())));
  reference::in_parallel(runs.size(), threads, [&](std::size_t r) {
    numerics::Sample sample = numerics::sample(runs[r].recipe, *runs[r].kernel, each);
    const std::lock_guard lock(mutex);
    ready.emplace(r, std::move(sample));
    for (auto at = ready.find(next); at != ready.end(); at = ready.find(++next)) {
      take(runs[next], at->second);
      ready.erase(at);
    }
  });
}

/// Where records go besides standard output.
class Records {
public:
  explicit Records(std::string out) : out_(std::move(out)) {}
  bool is_csv() const { return out_.ends_with(".csv"); }

  void open(const Json& title, const numerics::Grid& grid, const Shard& shard,
            const SeenRecord& seen) {
    if (is_csv())
      require_writable(out_);
    else if (!out_.empty())
      log_.emplace(out_, title, grid, shard, seen);
  }
  std::uint64_t done() const { return log_ ? log_->done() : 0; }
  void add(const Json& record) {
    ++count_;
    if (log_)
      log_->append(record);
    else if (is_csv())
      for_csv_.push_back(record);
  }
  void finish() {
    if (log_)
      log_->finish();
    else if (is_csv())
      write_file(out_, csv_of_records(for_csv_));
  }

private:
  std::string out_;
  std::optional<SweepLog> log_;
  Json for_csv_ = Json::array();
  std::uint64_t count_ = 0;
};

std::string kernel_in_words(const KernelChoice& choice, bool varied) {
  std::string words = varied                   ? ""
                      : !choice.plugin.empty() ? "--plugin " + choice.plugin
                      : choice.kernel.empty()  ? std::string(kDefaultKernel)
                                               : choice.kernel;
  return choice.stranger.empty() ? words : words + " --stranger " + choice.stranger;
}

int sweep(Options& options) {
  std::vector<numerics::Axis> axes;
  for (const std::string& text : options.vary)
    axes.push_back(numerics::parse_axis(text));
  const numerics::Grid grid(options.recipe, axes);
  const bool varies_kernel =
      std::ranges::any_of(axes, [](const numerics::Axis& axis) { return axis.key == "kernel"; });
  if (varies_kernel && (!options.choice.kernel.empty() || !options.choice.plugin.empty()))
    throw UsageError("--vary kernel=... names the kernels; want neither --kernel nor --plugin");
  const Shard shard = options.shard.empty() ? Shard{} : shard_from(options.shard);
  const unsigned threads =
      options.threads.empty()
          ? cores()
          : static_cast<unsigned>(whole_number("--threads", options.threads, 1, kMostThreads));
  Records records(options.out);
  if (records.is_csv() && !options.shard.empty())
    throw UsageError("--shard: a part is no CSV file; want an --out that does not end in .csv");
  if (const double runs = static_cast<double>(grid.points()) * static_cast<double>(grid.runs());
      runs > static_cast<double>(numerics::kMaxPoints) && !options.yes)
    throw UsageError(fmt::format(
        "--vary: {} points of {} each are {:.0f} runs; want at most {}, or "
        "--yes",
        grid.points(), grid.runs() == 1 ? "1 seed" : fmt::format("{} seeds", grid.runs()), runs,
        numerics::kMaxPoints));

  // What cannot be run is known before anything is.
  KernelsOfPoints kernel_of(options.choice);
  const std::uint64_t points = shard.points(grid.points());
  const std::string kernel_name = kernel_in_words(options.choice, varies_kernel);
  const auto work_of = [&](const numerics::GridPoint& point) {
    return static_cast<double>(grid.runs()) * numerics::work_of(reference::shape_of(point.recipe));
  };
  double work = 0.0;
  for (std::uint64_t k = 0; k < points; ++k) {
    const numerics::GridPoint point = grid.point(shard.point(k) - 1);
    kernel_of(point);
    work += work_of(point);
  }

  Table table(grid);
  bool wrong = false;
  const auto tell = [&](const numerics::GridPoint& point, const Json& record) {
    wrong = wrong || record["verdict"] == numerics::name_of(numerics::Judgement::proved_wrong);
    if (options.json)
      std::cout << one_line(record) << std::endl;
    else
      table.row(point, record);
  };
  bool begun = false;
  const auto begin = [&] {
    if (!begun && !options.json)
      table.header();
    begun = true;
  };
  records.open(sweep_title(options.recipe, axes, kernel_name, grid, shard), grid, shard,
               [&](std::uint64_t number, const Json& record) {
                 begin();
                 const numerics::GridPoint point = grid.point(number - 1);
                 work -= work_of(point);
                 tell(point, record);
               });
  begin();

  Progress progress("sweep", work);
  numerics::Pool pool;
  const auto take = [&](const Run& run, const numerics::Sample& sample) {
    pool.add(sample);
    progress.done(run.work());
    if (!run.last)
      return;
    const Json record = to_json(pool.take(), run.number);
    records.add(record);
    progress.clear();
    tell(run.point, record);
  };
  std::vector<Run> side_by_side;
  const auto flush = [&] {
    measure_side_by_side(side_by_side, threads, take);
    side_by_side.clear();
  };
  for (std::uint64_t k = records.done(); k < points; ++k) {
    const std::uint64_t number = shard.point(k);
    const numerics::GridPoint point = grid.point(number - 1);
    for (std::uint64_t which = 0; which < grid.runs(); ++which) {
      Run run{number, which + 1 == grid.runs(), point, grid.run(point, which), &kernel_of(point)};
      if (run.alone()) {
        flush();
        take(run, numerics::sample(run.recipe, *run.kernel, threads));
        continue;
      }
      side_by_side.push_back(std::move(run));
      if (side_by_side.size() == kRunsAtOnce)
        flush();
    }
  }
  flush();
  records.finish();
  progress.clear();
  if (!options.json) {
    table.footer();
    if (!options.out.empty())
      fmt::print(std::cout, "{} records in {}\n", points, options.out);
  }
  return wrong ? kProvedWrong : kHeld;
}

} // namespace

Command add_sweep(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "sweep", "Error growth: one record for each point of a grid of recipes");
  app->footer(
      "KEY=LIST is a key of the recipe, or kernel, with\n"
      "  a,b,c     these values (Q, K, V, scores, put: a|b|c)\n"
      "  a..b      whole numbers: doubling steps; real numbers: steps of ten\n"
      "  a..b+s    steps of s\n"
      "  a..b:n    n values evenly spaced on a logarithmic scale\n"
      "Several --vary make a grid, the last one fastest. A point is measured once for each value "
      "of "
      "seed, and its record\n"
      "is over all of them: max, RMS, mean (with its sign) and quantiles (0.5, 0.9, 0.99, 0.999) "
      "of "
      "the error in\n"
      "2^-24 sum p|v|, the largest in ulp, and the largest part of the bound, of the statistical "
      "expectation and of the\n"
      "softmax bound of Blanchard, Higham and Higham.\n\n"
      "With --out the records are there as soon as they are made. Killed and started again with "
      "the "
      "same words, the\n"
      "sweep goes on. --shard 2/8 makes the second of eight parts; `fa1lab merge` joins them.\n\n"
      "Examples:\n"
      "  fa1lab sweep --vary n_kv=64..1048576 'n_q=32 d=64 dist=normal seed=1' --out growth.csv\n"
      "  fa1lab sweep --vary kernel=fa1.Br32xBc32,fa1.Br4xBc2 --vary sigma=1..16:9 --vary "
      "seed=1..20+1 "
      "'n_q=8 n_kv=512\n"
      "    d=8' --out sigma.jsonl");
  app->add_option("--vary", options->vary, "KEY=LIST, once for each key that varies")
      ->required()
      ->expected(1)
      ->allow_extra_args(false) // what follows is the recipe
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("RECIPE", options->recipe, "The problem, as `fa1lab list inputs` explains")
      ->required();
  options->choice.add_to(*app, "fa1");
  app->add_option(
      "--out", options->out,
      "File for the records, one JSON object a line; or CSV, written at the end, where it "
      "ends in .csv");
  app->add_option("--shard", options->shard, "i/n: only the i-th of n parts of the grid");
  app->add_option("--threads", options->threads, "How many threads to use [all cores]");
  app->add_flag("--yes", options->yes, "Run more than 10000 points");
  app->add_flag("--json", options->json, "Print the records instead of a table");
  return {app, [options] {
            try {
              return sweep(*options);
            } catch (const numerics::SweepError& error) {
              throw UsageError(error.what());
            } catch (const reference::RecipeError& error) {
              throw UsageError(error.what());
            }
          }};
}

} // namespace fa1::reports
