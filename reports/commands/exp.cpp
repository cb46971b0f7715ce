#include "reports/commands/exp.hpp"

#include "kernels/exponentials.hpp"
#include "kernels/launch.hpp"
#include "reports/arguments.hpp"
#include "reports/exponential_records.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/telling.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

using numerics::float_at;
using numerics::kNowhere;

struct Options {
  std::string on = "cpu", from, to, every = "1", threads, out;
  std::vector<std::string> functions;
  bool json = false;
};

std::uint32_t index_from(std::string_view name, const std::string& text, std::uint32_t otherwise) {
  if (text.empty())
    return otherwise;
  char* end = nullptr;
  const float x = std::strtof(text.c_str(), &end);
  if (end != text.c_str() + text.size() || std::isnan(x))
    throw UsageError(fmt::format("{} {}: want a number such as -87.5, -0x1.5ep+6 or inf", name,
                                 text.substr(0, 40)));
  return numerics::index_of(x);
}

std::vector<numerics::Exponential> chosen(const Options& options) {
  if (options.on != "cpu" && options.on != "gpu")
    throw UsageError(unknown("--on", options.on, "cpu, gpu"));
  const bool gpu = options.on == "gpu";
  if (gpu)
    if (const std::string obstacle = kernels::cuda_obstacle(); !obstacle.empty())
      throw EnvironmentError(fmt::format("exp: --on gpu needs CUDA: {}", obstacle));
  std::vector<numerics::Exponential> all =
      gpu ? numerics::cuda_exponentials() : numerics::host_exponentials();
  if (options.functions.empty())
    return all;
  std::string names;
  for (const numerics::Exponential& exponential : all)
    names += (names.empty() ? "" : ", ") + exponential.function;
  std::vector<numerics::Exponential> some;
  for (const std::string& name : options.functions) {
    const auto found = std::ranges::find(all, name, &numerics::Exponential::function);
    if (found == all.end())
      throw UsageError(unknown("--function", name, names));
    some.push_back(*found);
  }
  return some;
}

std::string at(std::uint64_t index) {
  return index == kNowhere ? "nowhere"
                           : hexadecimal_or_payload(float_at(static_cast<std::uint32_t>(index)));
}

std::string told(const numerics::LargestError& error, const char* unit) {
  if (error.error < 0.0)
    return "not asked";
  return fmt::format("{:.6g} {} at {}", error.error, unit, at(error.at));
}

std::string none_or(std::uint64_t count) { return count == 0 ? "none" : fmt::format("{}", count); }

void print_histogram(const numerics::ExponentialErrors& errors) {
  for (int i = 0; i < numerics::kErrorBins; ++i)
    if (errors.histogram[i] != 0)
      print_line(
          std::cout, "",
          fmt::format("{:>8} ulp and more {:>14}", numerics::bin_begin(i), errors.histogram[i]));
}

void print(const ExponentialRun& run, const Json& record) {
  const numerics::Exponential& f = *run.exponential;
  const numerics::ExponentialErrors& e = run.errors;
  const auto line = [](std::string_view label, const std::string& text) {
    print_line(std::cout, label, text);
  };
  line("function",
       fmt::format("{} of {}{}{}: {}^x", f.function, f.library, f.toolkit.empty() ? "" : ", ",
                   f.toolkit, f.base == numerics::Base::e ? "e" : "2"));
  line("asked", fmt::format("{} arguments from {} to {}{}, {:.1f} s", e.arguments,
                            at(run.range.from), at(run.range.to),
                            run.range.every == 1 ? "" : fmt::format(", every {}", run.range.every),
                            run.seconds));
  line("normal", fmt::format("{}; {}", told(e.ulp, "ulp"), told(e.relative, "u")));
  line("below", fmt::format("2^-126: {}; flushed to 0: {}", told(e.below, "times 2^-149"),
                            none_or(e.flushed)));
  line("nearest", fmt::format("not the nearest float: {}; too close to a tie to say: {}",
                              none_or(e.not_nearest), none_or(e.near_tie)));
  line("falls", e.falls == 0 ? "none: monotonic"
                             : fmt::format("{}, the first at {}", e.falls, at(e.first_fall)));
  line("infinite",
       fmt::format("from {} on, right is {}; too early: {}, too late: {}", at(e.first_infinite),
                   at(e.right_first_infinite), none_or(e.early), none_or(e.late)));
  line("zero", fmt::format("up to {}, right is {}", at(e.last_zero), at(e.right_last_zero)));
  line("odd", fmt::format("0 or subnormal that gives no 1: {}; signs: {}; NaN lost: {} of {}, "
                          "made: {}",
                          none_or(e.tiny_not_one), none_or(e.negative), none_or(e.nan_lost),
                          e.nan_arguments, none_or(e.nan_made)));
  std::string answers;
  for (const auto& [x, y] : record["answers"].items())
    answers += fmt::format("{}{}: {}", answers.empty() ? "" : ", ", x, y.get<std::string>());
  line("answers", answers);
  line("errors", "of normal results");
  print_histogram(e);
  if (const Json& stated = record["stated"]; stated.is_null())
    line("stated", "nothing in kernels/exponentials.def");
  else
    line("stated",
         fmt::format("{} ulp, {} u, {} times 2^-149 below ({}): {}", stated["ulp"].get<double>(),
                     stated["relative"].get<double>(), stated["underflow"].get<double>(),
                     stated["source"].get<std::string>(),
                     row_holds(run) ? painted("held", Colour::good)
                                    : painted("more was measured", Colour::bad)));
  if (run.range.count() == numerics::kEncodings)
    line("row", table_row(run));
}

int ask(const Options& options) {
  const std::vector<numerics::Exponential> exponentials = chosen(options);
  numerics::ArgumentRange range;
  range.from = index_from("--from", options.from, range.from);
  range.to = index_from("--to", options.to, range.to);
  range.every =
      static_cast<std::uint32_t>(whole_number("--every", options.every, 1, ~std::uint32_t{0}));
  if (range.count() == 0)
    throw UsageError(fmt::format("--from {} --to {}: backwards; want an ascending range",
                                 options.from, options.to));
  const auto threads =
      options.threads.empty()
          ? cores()
          : static_cast<unsigned>(whole_number("--threads", options.threads, 1, 1024));
  if (!options.out.empty())
    require_writable(options.out);

  bool held = true;
  std::string records;
  Progress progress("exp", static_cast<double>(exponentials.size()));
  for (const numerics::Exponential& exponential : exponentials) {
    ExponentialRun run{&exponential, options.on, range, {}, 0.0};
    const auto start = std::chrono::steady_clock::now();
    run.errors =
        exponential.sweep(range, threads, [&progress](double part) { progress.done(part); });
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    held = held && row_holds(run);
    const Json record = to_json(run);
    const std::string text = one_line(record) + "\n";
    records += text;
    progress.clear();
    if (options.json)
      std::cout << text;
    else
      print(run, record);
  }
  if (!options.out.empty())
    write_file(options.out, records);
  return held ? kHeld : kProvedWrong;
}

} // namespace

Command add_exp(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "exp", "What an exponential answers for every fp32 argument, against the exact value");
  app->footer(
      "Functions of the host's libm: expf, exp2f; of a GPU: expf, __expf, exp2f, ex2.approx, "
      "ex2.approx.ftz.\n"
      "A whole sweep takes a minute or two of two cores a function, and under a second on a GPU. "
      "Status 1: more error than\n"
      "kernels/exponentials.def, and with it every bound, promises of this library or device.\n\n"
      "Example:\n  fa1lab exp --function expf --from -104 --to 0 --every 1009");
  app->add_option("--on", options->on, "cpu or gpu [cpu]");
  app->add_option("--function", options->functions, "One of them; may be given again [all]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--from", options->from, "The first argument [every encoding, NaN too]");
  app->add_option("--to", options->to, "The last one");
  app->add_option("--every", options->every, "Only every N-th argument [1]");
  app->add_option("--threads", options->threads, "On the CPU [all cores]");
  app->add_flag("--json", options->json, "One record a function instead of text");
  app->add_option("--out", options->out, "File for the records");
  return {app, [options] { return ask(*options); }};
}

} // namespace fa1::reports
