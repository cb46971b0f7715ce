#include "reports/commands/judge.hpp"

#include "numerics/judge.hpp"
#include "reference/files/array_file.hpp"
#include "reports/arguments.hpp"
#include "reports/judge_page.hpp"
#include "reports/judge_text.hpp"
#include "reports/output.hpp"
#include "reports/parallel.hpp"
#include "reports/plot.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {
namespace {

using numerics::Judged;
using numerics::JudgedErrors;
using numerics::JudgedOutput;
using numerics::JudgeRecord;

struct Options {
  std::vector<std::string> files, o;
  std::string q, k, v, lse, scale, layout, arithmetic, rows;
  std::string causal, window, key_lengths, mask, bias, softcap, empty_row, html;
  bool base2_lse = false, mask_true_is_masked = false, tanh_approx = false, json = false;
};

// ---------------------------------------------------------------------------------------------------
// What the user gave
// ---------------------------------------------------------------------------------------------------

/// The array of that name, or of the first of the usual ones.
reference::Array named(const reference::ArrayFile& file, const std::string& option,
                       const std::string& name, const std::vector<std::string>& usual) {
  if (!name.empty())
    return file.array(name);
  for (const std::string& one : usual)
    if (std::ranges::find(file.names, one) != file.names.end())
      return file.array(one);
  std::string want, have;
  for (const std::string& one : usual)
    want += (want.empty() ? "" : ", ") + one;
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < std::min(kShown, file.names.size()); ++i)
    have += (i == 0 ? "" : ", ") + file.names[i];
  throw UsageError(fmt::format("{}: has no array {}; want {} NAME, one of: {}{}", file.path, want,
                               option, have, file.names.size() > kShown ? ", ..." : ""));
}

numerics::JudgeInput inputs_of_one_file(const Options& options) {
  const reference::ArrayFile file = reference::open_arrays(options.files[0]);
  if (file.format == "npy")
    throw UsageError(fmt::format("{}: holds one array; want Q K V O in four files, or an npz or "
                                 "safetensors file with all of them",
                                 file.path));
  numerics::JudgeInput input{named(file, "--q", options.q, {"q", "Q", "query"}),
                             named(file, "--k", options.k, {"k", "K", "key"}),
                             named(file, "--v", options.v, {"v", "V", "value"}),
                             {},
                             {}};
  for (const std::string& name : options.o)
    input.O.push_back(file.array(name));
  if (input.O.empty())
    input.O.push_back(named(file, "--o", "", {"o", "out", "O", "output"}));
  if (!options.lse.empty())
    input.LSE = file.array(options.lse);
  return input;
}

numerics::JudgeInput inputs_of(const Options& options) {
  if (options.files.size() == 1)
    return inputs_of_one_file(options);
  const bool with_O = options.files.size() == 4;
  if (!with_O && (options.files.size() != 3 || options.o.empty()))
    throw UsageError(
        fmt::format("judge: {} files; want Q K V O, or Q K V and --o FILE, or one file "
                    "that holds them all",
                    options.files.size()));
  for (const std::string& name : {options.q, options.k, options.v})
    if (!name.empty())
      throw UsageError(fmt::format("judge: '{}' names an array in one file; want it left out where "
                                   "each array has its own file",
                                   name));
  const auto only = [](const std::string& path) { return reference::open_arrays(path).only(); };
  numerics::JudgeInput input{
      only(options.files[0]), only(options.files[1]), only(options.files[2]), {}, {}};
  if (with_O)
    input.O.push_back(only(options.files[3]));
  for (const std::string& path : options.o)
    input.O.push_back(only(path));
  if (!options.lse.empty())
    input.LSE = only(options.lse);
  return input;
}

/// An array beside the quartet: by its name in the one file, or in a file of its own.
reference::Array array_beside(const Options& given, const std::string& name) {
  const reference::ArrayFile file =
      reference::open_arrays(given.files.size() == 1 ? given.files[0] : name);
  return given.files.size() == 1 ? file.array(name) : file.only();
}

std::vector<std::int64_t> key_lengths_of(const Options& given) {
  std::vector<std::int64_t> lengths;
  std::istringstream list(given.key_lengths);
  bool listed = true;
  for (std::string one; std::getline(list, one, ',');) {
    const auto length = read_number<std::int64_t>(one);
    listed = listed && length;
    lengths.push_back(length.value_or(0));
  }
  return listed ? lengths : numerics::lengths_of(array_beside(given, given.key_lengths));
}

numerics::MaskOptions mask_of(const Options& given) {
  numerics::MaskOptions mask;
  if (!given.window.empty()) {
    const std::size_t comma = given.window.find(',');
    const auto left = read_number<std::int64_t>(given.window.substr(0, comma));
    const auto right = comma == std::string::npos
                           ? std::nullopt
                           : read_number<std::int64_t>(given.window.substr(comma + 1));
    constexpr std::int64_t kFarthest = std::int64_t{1} << 40;
    if (!left || !right || *left < -1 || *right < -1 || *left > kFarthest || *right > kFarthest)
      throw UsageError(fmt::format("--window {}: want LEFT,RIGHT, numbers of keys before and after "
                                   "the diagonal; -1 is no limit",
                                   given.window));
    if (*left >= 0)
      mask.left = left;
    if (*right >= 0)
      mask.right = right;
  }
  if (!given.causal.empty()) {
    if (given.causal != "top-left" && given.causal != "bottom-right")
      throw UsageError(unknown("--causal", given.causal, "top-left, bottom-right"));
    mask.corner =
        given.causal == "top-left" ? numerics::Corner::top_left : numerics::Corner::bottom_right;
    mask.right = 0;
  }
  if (!given.key_lengths.empty())
    mask.lengths = key_lengths_of(given);
  if (!given.mask.empty())
    mask.array = array_beside(given, given.mask);
  if (given.mask_true_is_masked && given.mask.empty())
    throw UsageError("--mask-true-is-masked: there is no mask; want --mask too");
  mask.true_is_masked = given.mask_true_is_masked;
  if (!given.bias.empty())
    mask.bias = array_beside(given, given.bias);
  if (!given.softcap.empty()) {
    const auto cap = read_number<float>(given.softcap);
    if (!cap || !(*cap > 0.0f) || !std::isfinite(*cap))
      throw UsageError(
          fmt::format("--softcap {}: want a finite fp32 number above 0", given.softcap));
    mask.softcap = double{*cap};
  }
  if (given.tanh_approx && given.softcap.empty())
    throw UsageError("--tanh-approx: there is no soft cap; want --softcap too");
  mask.tanh_approx = given.tanh_approx;
  if (!given.empty_row.empty()) {
    if (given.empty_row != "zero" && given.empty_row != "nan")
      throw UsageError(unknown("--empty-row", given.empty_row, "zero, nan"));
    mask.empty_row = given.empty_row == "nan" ? numerics::EmptyRow::nan : numerics::EmptyRow::zero;
  }
  return mask;
}

numerics::JudgeOptions options_of(const Options& given) {
  numerics::JudgeOptions options;
  options.layout = layout_from(given.layout);
  options.scale = scale_from(given.scale);
  if (!given.arithmetic.empty()) {
    options.declared = numerics::find_declared(given.arithmetic);
    std::string known;
    for (const numerics::Declared& one : numerics::all_declared())
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.id);
    if (options.declared == nullptr)
      throw UsageError(unknown("--arithmetic", given.arithmetic, known));
  }
  constexpr std::uint64_t kMostRows = std::uint64_t{1} << 40;
  if (given.rows == "all")
    options.rows = static_cast<std::int64_t>(kMostRows);
  else if (!given.rows.empty())
    options.rows = static_cast<std::int64_t>(whole_number("--rows", given.rows, 1, kMostRows));
  if (given.base2_lse && given.lse.empty())
    throw UsageError("--base2-lse: there is no LSE; want --lse too");
  options.base2_LSE = given.base2_lse;
  options.mask = mask_of(given);
  options.threads = cores();
  return options;
}

// ---------------------------------------------------------------------------------------------------
// Records
// ---------------------------------------------------------------------------------------------------

Json to_json(const numerics::Place& at) { return {at.batch, at.head, at.row, at.column}; }

Json to_json(const Judged& e) {
  return {{"output", e.output},          {"at", to_json(e.at)},
          {"got", number(e.got)},        {"got_hexadecimal", hexadecimal(e.got)},
          {"truth", number(e.truth.hi)}, {"truth_hexadecimal", hexadecimal(e.truth.hi)},
          {"error", number(e.error)},    {"ulp", number(e.ulps)},
          {"bound", number(e.bound)},    {"fraction", number(e.fraction)}};
}

Json to_json(const JudgedErrors& e) {
  return {{"elements", e.elements},        {"max", number(e.max_relative)},
          {"rms", number(e.rms_relative)}, {"mean", number(e.mean_relative)},
          {"max_ulp", number(e.max_ulp)},  {"max_fraction", number(e.max_fraction)}};
}

Json to_json(const numerics::Spread& s) {
  return {{"low", number(s.low)}, {"median", number(s.median)}, {"high", number(s.high)}};
}

Json to_json(const JudgeRecord& r, const JudgedOutput& o) {
  Json counts = Json::object(), worst_ten = Json::array();
  for (std::size_t i = 0; i < o.elements.size(); ++i)
    counts[std::string(numerics::name_of(static_cast<numerics::Judgement>(i)))] = o.elements[i];
  for (const Judged& element : o.worst_ten)
    worst_ten.push_back(to_json(element));
  return {{"what", "judge"},
          {"output", o.name},
          {"shape",
           {{"batches", r.batches},
            {"query_heads", r.query_heads},
            {"kv_heads", r.kv_heads},
            {"n_q", r.n_q},
            {"n_kv", r.n_kv},
            {"d", r.d},
            {"dv", r.dv}}},
          {"scale", number(double{r.scale})},
          {"arithmetic", r.declared->id},
          {"assumed", r.assumed},
          {"rows_judged", r.rows_judged},
          {"empty_rows", r.empty_rows},
          {"verdict", numerics::name_of(o.judgement)},
          {"why", o.why},
          {"worst", o.worst ? to_json(*o.worst) : Json(nullptr)},
          {"elements", counts},
          {"error", to_json(o.errors)},
          {"plain", to_json(r.plain)},
          {"worst_ten", worst_ten},
          {"not_finite", o.not_finite},
          {"looks_like", o.looks_like},
          {"bits_differ", o.bits_differ},
          {"first_difference", o.first_difference ? to_json(*o.first_difference) : Json(nullptr)},
          {"rows",
           {{"max_score", to_json(r.rows.max_score)},
            {"entropy", to_json(r.rows.entropy)},
            {"condition", to_json(r.rows.condition)}}},
          {"truth", r.truth}};
}

int judge(const Options& given) {
  if (!given.html.empty()) { // before minutes of work
    require_gnuplot();
    require_writable(given.html);
  }
  numerics::JudgeOptions options = options_of(given);
  const numerics::JudgeInput input = inputs_of(given);
  Progress progress("judge", 1.0);
  double before = 0.0;
  options.done = [&](double part) {
    progress.done(part - before);
    before = part;
  };
  JudgePage page;
  const JudgeRecord record = numerics::judge_files(
      input, options, given.html.empty() ? numerics::JudgeWatch{} : page.watch());
  progress.clear();
  std::vector<Json> records;
  for (const JudgedOutput& output : record.outputs)
    records.push_back(to_json(record, output));
  if (!given.html.empty())
    write_file(given.html, page.html(records));
  if (given.json)
    for (const Json& one : records)
      std::cout << one_line(one) << "\n";
  else
    print(std::cout, record, true);
  return record.wrong() ? kProvedWrong : kHeld;
}

} // namespace

Command add_judge(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand("judge", "Outputs of somebody else's kernel, in files");
  std::string arithmetics;
  for (const numerics::Declared& one : numerics::all_declared())
    arithmetics += fmt::format("  {:<12} {}\n", one.id, one.says);
  app->footer(
      fmt::format("Files: .npy, .npz, .safetensors; f64, f32, f16, bf16, fp8 (e4m3, e5m2); "
                  "[n, d], [bh, n, d], or four "
                  "axes.\nArithmetics:\n{}\n"
                  "Examples:\n  fa1lab judge q.npy k.npy v.npy o.npy --scale 0.125\n"
                  "  fa1lab judge case.safetensors --q q --k k --v v --o out --layout bnhd\n"
                  "  fa1lab judge q.npy k.npy v.npy o.npy --causal bottom-right "
                  "--key-lengths 100,87",
                  arithmetics));
  app->add_option("FILES", options->files, "Q K V O, or one file that holds them all")
      ->required()
      ->expected(1, 4);
  app->add_option("--q", options->q, "Name of Q in the one file [q]");
  app->add_option("--k", options->k, "Name of K [k]");
  app->add_option("--v", options->v, "Name of V [v]");
  app->add_option(
         "--o", options->o,
         "Name of O [o or out], or its file; may be given more than once: all are judged, and "
         "compared bit by bit")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--lse", options->lse, "Name, or file, of the log-sum-exp of each row");
  app->add_flag("--base2-lse", options->base2_lse, "LSE is a logarithm to base 2");
  app->add_option("--scale", options->scale, "Factor on q.k [fp32(1/sqrt d)]");
  app->add_option("--layout", options->layout, "bhnd or bnhd, where there are four axes [bhnd]");
  app->add_option("--causal", options->causal,
                  "top-left: row i sees keys j <= i; bottom-right: j <= i + n_kv - n_q (or i + "
                  "length - n_q). With n_q = n_kv the same");
  app->add_option("--window", options->window,
                  "LEFT,RIGHT: j from LEFT keys before the diagonal to RIGHT after it, -1 is no "
                  "limit; the diagonal is that of --causal [bottom-right]");
  app->add_option("--key-lengths", options->key_lengths,
                  "Keys that count in each batch: a,b,c, or name or file of an array");
  app->add_option("--mask", options->mask,
                  "Name, or file, of truth values (true: permitted) or of 0 and -inf; [n_q, n_kv], "
                  "[b, h, n_q, n_kv], an axis of 1 is repeated");
  app->add_flag("--mask-true-is-masked", options->mask_true_is_masked,
                "In the mask true means forbidden");
  app->add_option("--bias", options->bias,
                  "Name, or file, of what is added to the scaled scores; shapes as --mask, -inf "
                  "forbids");
  app->add_option("--softcap", options->softcap,
                  "C: scaled scores become C tanh(s / C), before the bias is added");
  app->add_flag("--tanh-approx", options->tanh_approx,
                "The soft cap is made by PTX's tanh.approx.f32, relative error 2^-11");
  app->add_option(
      "--empty-row", options->empty_row,
      "What is right where no key is permitted: zero (O = 0, LSE = -inf) or nan [zero]");
  app->add_option("--arithmetic", options->arithmetic,
                  "What the kernel computed in [guessed from the types]");
  app->add_option("--rows", options->rows,
                  "Rows of each head, evenly spaced, or all [as many as take some seconds]");
  app->add_option("--html", options->html,
                  "FILE: a page with the verdict, the error map, the worst elements and the rows");
  app->add_flag("--json", options->json, "Print records, one for each output, instead of text");
  return {app, [options] { return judge(*options); }};
}

} // namespace fa1::reports
