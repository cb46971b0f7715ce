#include "reports/commands/list.hpp"

#include "kernels/traffic.hpp"
#include "numerics/edge_cases.hpp"
#include "numerics/formats.hpp"
#include "numerics/sweep.hpp"
#include "properties/property.hpp"
#include "reports/arguments.hpp"
#include "reports/records.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <tuple>

namespace fa1::reports {
namespace {

/// One line of a list: an id, a few short facts, one sentence.
struct Row {
  std::string id;
  std::vector<std::pair<std::string, Json>> facts;
  std::string says;
};

struct Input {
  const char* text;
  const char* says;
};

/// The vocabulary of reference/recipe.hpp.
constexpr auto kInputs = std::to_array<Input>({
    {"n_q=M n_kv=N d=D dv=E bh=B",
     "sizes: queries, keys, columns of Q and K, columns of V [d], batch-heads [1]"},
    {"rows=R", "R of the query rows, chosen by seed [all]; exact, as rows are independent"},
    {"scale=auto", "fp32(1/sqrt(d)) [auto], or any finite fp32 number"},
    {"seed=S", "from 0 to 2^64 - 1 [1]; every entry is a pure function of seed and position"},
    {"sigma=X",
     "a factor on every entry of Q [1]: the standard deviation of the scores of dist=normal"},
    {"recorded=NAME",
     "Q, K and V: a head of a real model, its first n_q and n_kv rows and d and dv columns [all]; "
     "an unknown name lists them"},
    {"dist=normal", "Q and K: N(0,1)"},
    {"dist=uniform", "Q and K: uniform in [-1,1)"},
    {"dist=outliers", "Q and K: N(0,1) with N(0,100) added to one entry in a thousand"},
    {"dist=pow2", "Q and K: +-2^e, e uniform in -8..8"},
    {"dist=ints", "Q and K: integers -4..4, so that every score is exact"},
    {"dist=subnormal", "Q and K: subnormal numbers, uniform in their bits"},
    {"dist=zero", "Q and K: 0, so that every score ties at 0"},
    {"order=free", "scores over the keys: as they fall"},
    {"order=ascending", "scores over the keys: rising, so that every tile sets a new maximum"},
    {"order=descending",
     "scores over the keys: falling, so that only the first tile sets a maximum"},
    {"order=tied", "scores over the keys: every key is key 0"},
    {"order=dominant gap=G", "scores over the keys: one key leads all others by at least G [120]"},
    {"v=normal|uniform|outliers|pow2|ints|subnormal|zero", "V: the families of dist"},
    {"v=positive", "V: uniform in [1,2), so that nothing cancels"},
    {"v=alternating", "V: (-1)^j times uniform in [1,2), so that sums cancel"},
    {"v=index", "V: V[j][c] = j"},
    {"v=index1", "V: V[j][c] = j + 1"},
    {"v=constant:X", "V: every entry X"},
    {"Q=1,2,0x1p-149,nan,0*5,1*", "entries one by one, row-major, the same in every batch-head; "
                                  "also K= and V=; x*n repeats, x* fills the rest"},
    {"scores=-inf*4,0*4", "the scores themselves: short for d=1 scale=1 Q=1* K=<list>"},
    {"put=K:3,1:nan;V:2,0:-inf", "single entries (row, column), after all else"},
});

std::vector<Row> kernel_rows() {
  std::vector<Row> rows;
  for (const auto table : kernels::all_tables())
    for (const kernels::Kernel& kernel : table) {
      Row row{kernel.id,
              {{"Br", kernel.Br},
               {"Bc", kernel.Bc},
               {"D", kernel.D},
               {"contracted", kernel.arithmetic.contracted}},
              kernel.says};
      if (!kernel.traffic.empty()) {
        Json given_up = Json::array();
        for (const kernels::GivenUp& law : kernel.given_up)
          given_up.push_back(
              {{"law", law.law}, {"within_bound", law.within_bound}, {"why", law.why}});
        row.facts.emplace_back("traffic", kernel.traffic);
        row.facts.emplace_back("resumes", kernel.resumes);
        row.facts.emplace_back("given_up", std::move(given_up));
      }
      if (kernel.mutant)
        row.says = fmt::format("wrong on purpose: {}; {}", kernel.says,
                               kernel.survives.empty() ? "caught by " + kernel.killed_by
                                                       : "survives: " + kernel.survives);
      rows.push_back(std::move(row));
    }
  return rows;
}

/// What the instances of a variant have in common, before the list of them.
std::string variants_text() {
  struct Variant {
    const kernels::Kernel* kernel;
    std::vector<std::string> tiles, dimensions;
  };
  std::vector<Variant> variants;
  const auto add = [](std::vector<std::string>& list, std::string text) {
    if (std::ranges::find(list, text) == list.end())
      list.push_back(std::move(text));
  };
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    auto found = std::ranges::find_if(
        variants, [&](const Variant& v) { return v.kernel->variant == kernel.variant; });
    if (found == variants.end())
      found = variants.insert(variants.end(), {&kernel, {}, {}});
    add(found->tiles, fmt::format("{}x{}", kernel.Br, kernel.Bc));
    add(found->dimensions, std::to_string(kernel.D));
  }
  const auto laws = properties::all_invariants();
  const auto about_carries = std::ranges::count_if(
      laws, [](const auto& law) { return law.needs == properties::Needs::carries; });
  std::string text;
  for (const auto& [kernel, tiles, dimensions] : variants) {
    text += fmt::format("{}: {}\n", kernel->variant, kernel->says);
    text += fmt::format("  tiles    Br x Bc = {}; D = {}\n", fmt::join(tiles, " "),
                        fmt::join(dimensions, " "));
    text += fmt::format("  traffic  {}\n", kernel->traffic);
    const auto asked = static_cast<std::ptrdiff_t>(laws.size()) -
                       static_cast<std::ptrdiff_t>(kernel->given_up.size()) -
                       (kernel->resumes ? 0 : about_carries);
    text += fmt::format(
        "  laws     {} of {} as they stand{}\n", asked, laws.size(),
        kernel->resumes
            ? std::string()
            : fmt::format("; {} about carries not asked: it goes on from none", about_carries));
    for (const kernels::GivenUp& law : kernel->given_up)
      text += fmt::format("           {} {}: {}\n", law.law,
                          law.within_bound ? "within the bound" : "given up", law.why);
  }
  return text + "\n";
}

std::vector<Row> invariant_rows() {
  std::vector<Row> rows;
  for (const properties::Invariant& law : properties::all_invariants())
    rows.push_back({std::string(law.id),
                    {{"kind", properties::name_of(law.kind)}, {"formula", law.formula}},
                    std::string(law.says)});
  return rows;
}

std::vector<Row> case_rows() {
  std::vector<Row> rows;
  for (const numerics::EdgeCase& edge_case : numerics::all_edge_cases())
    rows.push_back({std::string(edge_case.id),
                    {{"kind", numerics::name_of(edge_case.kind)}, {"recipe", edge_case.recipe()}},
                    std::string(edge_case.why)});
  return rows;
}

std::vector<Row> input_rows() {
  std::vector<Row> rows;
  for (const Input& input : kInputs)
    rows.push_back({input.text, {}, input.says});
  return rows;
}

std::vector<Row> format_rows() {
  std::vector<Row> rows;
  for (const numerics::Format& format : numerics::all_formats())
    rows.push_back({std::string(format.id),
                    {{"u", fmt::format("2^{}", -format.fraction_bits - 1)},
                     {"bits", format.bits()},
                     {"exponent_bits", format.exponent_bits},
                     {"fraction_bits", format.fraction_bits},
                     {"bias", format.bias},
                     {"largest", format.largest()},
                     {"smallest_normal", format.smallest_normal()},
                     {"smallest", format.smallest()},
                     {"infinities", format.infinities},
                     {"overflow", numerics::name_of(format.overflow)},
                     {"range", fmt::format("{:.3g}..{:.3g}", format.smallest(), format.largest())}},
                    std::string(format.says)});
  return rows;
}

struct Listing {
  std::string_view name;
  std::vector<Row> (*rows)();
  std::vector<std::string_view> shown; ///< facts on the line of text; all are in the JSON
  std::string (*preface)() = nullptr;  ///< of the text
};

const std::array<Listing, 5>& listings() {
  static const std::array<Listing, 5> all{{{"kernels", kernel_rows, {}, variants_text},
                                           {"invariants", invariant_rows, {"kind"}},
                                           {"cases", case_rows, {"kind"}},
                                           {"inputs", input_rows, {}},
                                           {"formats", format_rows, {"u", "range"}}}};
  return all;
}

int list(const std::string& name, bool json) {
  const Listing* chosen = nullptr;
  std::string names;
  for (const Listing& listing : listings()) {
    names += (names.empty() ? "" : " ") + std::string(listing.name);
    if (listing.name == name)
      chosen = &listing;
  }
  if (chosen == nullptr)
    throw UsageError("list: " + unknown("list", name, names));

  const std::vector<Row> rows = chosen->rows();
  std::size_t width = 0;
  std::map<std::string, std::size_t> fact_widths;
  for (const Row& row : rows) {
    width = std::max(width, row.id.size());
    for (const auto& [key, value] : row.facts)
      if (value.is_string())
        fact_widths[key] = std::max(fact_widths[key], value.get<std::string>().size());
  }
  if (!json && chosen->preface != nullptr)
    std::cout << chosen->preface();
  for (const Row& row : rows) {
    Json record{{"what", chosen->name.substr(0, chosen->name.size() - 1)}, {"id", row.id}};
    std::string facts;
    for (const auto& [key, value] : row.facts) {
      record[key] = value;
      if (std::ranges::find(chosen->shown, key) != chosen->shown.end())
        facts += fmt::format("{:<{}}  ", value.get<std::string>(), fact_widths[key]);
    }
    record["says"] = row.says;
    if (json)
      std::cout << record.dump() << "\n";
    else
      fmt::print(std::cout, "{:<{}}  {}{}\n", row.id, width, facts, row.says);
  }
  return kHeld;
}

/// Each variant and tile with the least head dimension that serves the shape.
std::vector<const kernels::Kernel*> serving(const reference::Shape& shape) {
  std::map<std::tuple<std::string, int, int>, const kernels::Kernel*> least;
  std::vector<const kernels::Kernel*> kernels;
  for (const kernels::Kernel& kernel : kernels::all_kernels()) {
    if (!kernel.serves(shape) || !kernels::traffic_is_counted(kernel) ||
        kernel.arithmetic.contracted)
      continue;
    auto& best = least[{kernel.variant, kernel.Br, kernel.Bc}];
    if (best == nullptr || kernel.D < best->D)
      best = &kernel;
  }
  for (const kernels::Kernel& kernel : kernels::all_kernels()) // in the order of the table
    if (const auto found = least.find({kernel.variant, kernel.Br, kernel.Bc});
        found != least.end() && found->second == &kernel)
      kernels.push_back(&kernel);
  return kernels;
}

/// What each kernel moves, counted where that is a matter of seconds, beside its closed form.
int list_traffic(const std::string& text, bool json) {
  constexpr double kMostWork = 1 << 28; ///< multiply-adds
  const reference::Recipe recipe = reference::parse_recipe(text);
  const reference::Shape shape = reference::shape_of(recipe);
  const bool counts = numerics::work_of(shape) <= kMostWork;
  const reference::Problem problem =
      counts ? reference::make_problem(recipe) : reference::Problem{};
  const std::vector<const kernels::Kernel*> kernels = serving(shape);
  if (kernels.empty())
    throw UsageError(fmt::format("list: no kernel serves d={} dv={}", shape.d, shape.dv));

  bool equal = true;
  std::size_t width = 0;
  for (const kernels::Kernel* kernel : kernels)
    width = std::max(width, kernel->id.size());
  if (!json)
    fmt::print(std::cout, "{:<{}} {:>14} {:>14} {:>14} {:>14} {:>8} {:>10}\n", "floats", width,
               "read", "written", "moved", "extra memory", "shared", "barriers");
  for (const kernels::Kernel* kernel : kernels) {
    const kernels::Traffic predicted = kernels::predicted_traffic(*kernel, shape);
    kernels::LaunchCounts counted;
    if (counts)
      counted = kernels::counted_traffic(*kernel, problem);
    const bool same = !counts || counted.traffic == predicted;
    equal = equal && same;
    std::int64_t read = 0, written = 0;
    Json arrays = Json::object();
    for (std::size_t a = 0; a < kernels::Traffic::kArrays.size(); ++a) {
      const kernels::Traffic::OfArray of = predicted.arrays[a], found = counted.traffic.arrays[a];
      read += of.read;
      written += of.written;
      Json array{{"read", of.read}, {"written", of.written}};
      if (counts)
        array.update({{"counted_read", found.read}, {"counted_written", found.written}});
      arrays[std::string(kernels::Traffic::kArrays[a])] = std::move(array);
    }
    const std::int64_t extra = kernels::extra_memory(*kernel, shape);
    if (json)
      std::cout << Json{{"what", "traffic"},
                        {"kernel", kernel->id},
                        {"recipe", text},
                        {"formula", kernel->traffic},
                        {"read", read},
                        {"written", written},
                        {"extra_memory", extra},
                        {"counted", counts},
                        {"as_counted", same},
                        {"shared_bytes", counts ? Json(counted.shared_bytes) : Json(nullptr)},
                        {"barriers", counts ? Json(counted.barriers) : Json(nullptr)},
                        {"arrays", std::move(arrays)}}
                       .dump()
                << "\n";
    else
      fmt::print(std::cout, "{:<{}} {:>14} {:>14} {:>14} {:>14} {:>8} {:>10}{}\n", kernel->id,
                 width, read, written, read + written, extra,
                 counts ? std::to_string(counted.shared_bytes / 4) : "-",
                 counts ? std::to_string(counted.barriers) : "-",
                 same ? "" : fmt::format("  counted {}", counted.traffic.total()));
  }
  if (!json)
    fmt::print(std::cout, "{}\n",
               !counts ? "by the formulas of variants.def; too large to be counted here"
               : equal ? "counted load by load; the formulas of variants.def say the same"
                       : "counted load by load; formula and count differ where both stand");
  return equal ? kHeld : kProvedWrong;
}

} // namespace

Command add_list(CLI::App& program) {
  struct Options {
    std::string name, traffic;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app = program.add_subcommand(
      "list", "What there is: kernels, invariants, edge cases, inputs, formats");
  app->footer("Examples:\n  fa1lab list cases\n"
              "  fa1lab list kernels --traffic 'n_q=256 n_kv=256 d=64'");
  app->add_option("LIST", options->name, "kernels | invariants | cases | inputs | formats")
      ->required();
  app->add_option("--traffic", options->traffic,
                  "RECIPE: of kernels, what each moves between global memory and its blocks");
  app->add_flag("--json", options->json, "One record a line");
  return {app, [options] {
            if (options->traffic.empty())
              return list(options->name, options->json);
            if (options->name != "kernels")
              throw UsageError(fmt::format("list: --traffic is about kernels, not {}; want `list "
                                           "kernels --traffic RECIPE`",
                                           options->name));
            return list_traffic(options->traffic, options->json);
          }};
}

} // namespace fa1::reports
