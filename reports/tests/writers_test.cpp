// Claims about what is written: the same report as JSON, CSV, Markdown and a page; the page needs nothing but itself; plots
// follow the colours of their page.

#include "reports/collect.hpp"
#include "reports/command.hpp"
#include "reports/costs.hpp"
#include "reports/family.hpp"
#include "reports/plot.hpp"
#include "reports/tests/small_topic.hpp"
#include "reports/writers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <string>

using namespace fa1::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

Json error_record(double x, double error, const char* verdict) {
  return {{"what", "error"},
          {"recipe", "n_q=1 n_kv=4"},
          {"truth", "exact"},
          {"schedule", "forward"},
          {"x", x},
          {"runs", 1},
          {"elements", 64},
          {"not_finite", 0},
          {"max_error", error},
          {"max_l_error", error},
          {"rms_error", 0.5 * error},
          {"bound", 10 * error},
          {"expected", 2 * error},
          {"max_fraction", 0.1},
          {"verdict", verdict},
          {"why", ""},
          {"kernel", "fa1.Br1xBc1xD1.cpu"},
          {"reproduce", "fa1lab run 'n_q=1 n_kv=4' --kernel fa1.Br1xBc1xD1.cpu"}};
}

Json law(const char* id, const char* kind, const char* answer, double fraction,
         const char* violation) {
  Json results = Json::array();
  for (const char* kernel : {"fa1.Br1xBc1xD1.cpu", "fa1.Br4xBc2xD8.cpu", "fa1.Br4xBc2xD8.cpu-fma"})
    results.push_back({{"kernel", kernel},
                       {"variant", "fa1"},
                       {"Br", 4},
                       {"Bc", 2},
                       {"D", 8},
                       {"answer", answer},
                       {"worst_fraction", fraction},
                       {"violation", violation}});
  return {{"id", id},
          {"kind", kind},
          {"says", "a < b | c"},
          {"answer", answer},
          {"held", 12},
          {"not_applicable", 0},
          {"cases", 4},
          {"worst_fraction", fraction},
          {"worst_kernel", "fa1.Br1xBc1xD1.cpu"},
          {"worst_recipe", "n_q=1"},
          {"violation", violation},
          {"reproduce", "fa1lab repro 'n_q=1'"},
          {"kernels", results}};
}

Json specimen(const char* name, const char* fault, const char* truth, const char* repeat,
              const char* gate) {
  const int kills =
      (std::string_view(truth) == "violated") + (std::string_view(repeat) == "violated");
  return {{"what", "zoo"},
          {"kernel", name},
          {"wrong", *fault != '\0'},
          {"fault", fault},
          {"says", "changed <so>"},
          {"named_law", "truth"},
          {"survives_because", ""},
          {"kills", kills},
          {"cases", 5},
          {"seed", 7},
          {"laws", {{"truth", {{"answer", truth}}}, {"repeat", {{"answer", repeat}}}}},
          {"gates", {{"loose", gate}}}};
}

Json small_zoo() {
  return {specimen("mutant.one", "tail", "violated", "held", "accepted"),
          specimen("mutant.two", "tail", "violated", "violated", "rejected"),
          specimen("mutant.three", "scale", "held", "not-applicable", "accepted"),
          specimen("rewrite.four", "", "held", "held", "rejected"),
          {{"what", "zoo-law"}, {"law", "truth"}, {"caught", 2}, {"alone", {"one"}}},
          {{"what", "zoo-law"}, {"law", "repeat"}, {"caught", 1}, {"alone", Json::array()}},
          {{"what", "zoo-gate"},
           {"gate", "loose"},
           {"says", "rtol = 1"},
           {"caught", 1},
           {"right_ones_rejected", 1}}};
}

Json small_family() {
  const auto growth = [](const char* variant, bool contracted, double error) {
    return Json{{"kernel", std::string(variant) + ".Br4xBc2xD8.cpu"},
                {"variant", variant},
                {"contracted", contracted},
                {"points",
                 {{{"keys", 16},
                   {"runs", 2},
                   {"rms_error", error},
                   {"max_error", 2 * error},
                   {"max_fraction", 0.1}},
                  {{"keys", 32},
                   {"runs", 2},
                   {"rms_error", 2 * error},
                   {"max_error", 4 * error},
                   {"max_fraction", 0.1}}}},
                {"reproduce", "./fa1lab sweep"}};
  };
  const auto moved = [](const char* variant, int shared, int floats, int predicted) {
    return Json{{"kernel", std::string(variant) + ".Br4xBc2xD64.cpu"},
                {"variant", variant},
                {"recipe", "n_q=4 n_kv=8 d=64"},
                {"shared_floats", shared},
                {"floats", floats},
                {"predicted", predicted}};
  };
  return {
      {"recipe", "d=8 v=positive"},
      {"growth",
       {growth("fa1", false, 2.0), growth("fa1", true, 1.5), growth("fa1_deferred", false, 1.0)}},
      {"ratios",
       {{{"over", "fa1"},
         {"under", "fa1_deferred"},
         {"contracted", false},
         {"problems", 6},
         {"predicted", std::sqrt(2.0)},
         {"measured", 1.5},
         {"low", 1.25},
         {"high", 1.75}}}},
      {"traffic", {moved("fa1", 512, 1000, 1000), moved("fa2", 1024, 700, 701)}},
      {"memory",
       {{{"variant", "fa1"}, {"keys", 64}, {"floats", 128}},
        {{"variant", "standard"}, {"keys", 64}, {"floats", 4224}}}}};
}

/// A small report in which something is wrong, so that every branch of the templates is filled.
Json small_report() {
  Json points{error_record(1, 1.0, "proved right"), error_record(2, 2.0, "proved right"),
              error_record(4, 3.0, "undecided")};
  Json slopes{{{"quantity", "RMS error"},
               {"from", 1.0},
               {"to", 4.0},
               {"slope", 0.5},
               {"low", 0.25},
               {"high", "NaN"},
               {"points", 3}}};
  Json bins = Json::array();
  for (int bin = 0; bin < 24; ++bin)
    bins.push_back(bin < 4 ? 16 : 0);
  return {{"what", "fa1lab report"},
          {"level", "quick"},
          {"seed", 7},
          {"environment", to_json(Environment{"abc", "g++ 0", "-O2", "Release", "glibc 0", "system",
                                              "cpu", 2, "no: why"})},
          {"summary",
           {{"held", false},
            {"sentence", "Not everything held."},
            {"rows",
             {{{"what", "laws"},
               {"asked", 2},
               {"held", 1},
               {"undecided", 0},
               {"wrong", 1},
               {"worst_fraction", 0.25},
               {"note", "on 3"}}}}}},
          {"figures",
           {{{"id", "keys"},
             {"title", "Error <against> keys"},
             {"says", "grows"},
             {"key", "n_kv"},
             {"x_title", "keys N"},
             {"x_base", 2},
             {"shows_l", true},
             {"recipe", "d=1"},
             {"kernel", "fa1"},
             {"reproduce", "fa1lab sweep"},
             {"points", points},
             {"slopes", slopes},
             {"records", points}}}},
          {"histogram", {{{"figure", "keys"}, {"name", "all"}, {"bins", bins}}}},
          {"laws",
           {law("repeat", "exact", "held", 0.0, ""),
            law("truth", "bound", "violated", 2.5, "O[0,0,0] is \"off\"")}},
          {"edge_cases",
           {{{"what", "edge-case"},
             {"id", "inf-all"},
             {"section", "Infinities"},
             {"kind", "limit"},
             {"why", "0/0"},
             {"recipe", "scores=-inf"},
             {"kernel", "fa1"},
             {"truth", "NaN"},
             {"gives", "0"},
             {"as_catalogued", false},
             {"verdict", "proved wrong"},
             {"detail", "found 0, want NaN"},
             {"first_bad_tile", 3},
             {"why_bad", "no reason"},
             {"reproduce", "fa1lab repro inf-all --trace"}}}},
          {"family", small_family()},
          {"zoo", small_zoo()},
          {"topics", Json::array({small_topic()})}};
}

Json cost(const char* subject, const char* unit, double ns, Json radius, bool within) {
  return {{"what", "bench"},  {"subject", subject}, {"says", "a < b"},
          {"rows", 2},        {"keys", 64},         {"d", 8},
          {"threads", 1},     {"unit", unit},       {"ns", ns},
          {"median_ns", ns},  {"ratio", nullptr},   {"radius", std::move(radius)},
          {"error", 0x1p-90}, {"note", "-O2"},      {"within_radius", within}};
}

Json goal(const char* id, const char* sense, double asked, double measured, double factor) {
  return {{"what", "bench-goal"},     {"goal", id},      {"says", id},
          {"sense", sense},           {"asked", asked},  {"measured", measured},
          {"reached", factor >= 1.0}, {"factor", factor}};
}

Json small_costs() {
  return {{"keys", 64},
          {"d", 8},
          {"repetitions", 3},
          {"unit", "AVX9"},
          {"seconds", 0.1},
          {"load", 0.5},
          {"subjects",
           {cost("certify", "multiply-add", 0.25, 0x1p-80, true),
            cost("certify-AVX2", "multiply-add", 0.5, 0x1p-95, false),
            cost("arb-113", "multiply-add", 25.0, nullptr, true),
            cost("vector-operation", "vector operation", 0.125, nullptr, true)}},
          {"goals",
           {goal("radius", "at most", 0x1p-85, 0x1p-87, 4.0),
            goal("threads", "at least", 1.8, 0.9, 0.5)}}};
}

const std::vector<ReportFile>& files() {
  static const std::vector<ReportFile> all = report_files(small_report(), small_costs());
  return all;
}

std::string file(const std::string& name) {
  const auto found = std::ranges::find(files(), name, &ReportFile::name);
  REQUIRE(found != files().end());
  return found->text;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

} // namespace

TEST_CASE("the page needs nothing but itself", "[reports][quick]") {
  const std::string page = file("index.html");

  // No scripts, style sheets, fonts or images from elsewhere; the names of XML's own vocabularies are no addresses.
  const std::string without_names =
      std::regex_replace(page, std::regex(R"(xmlns(:xlink)?="[^"]*")"), "");
  CHECK(count(without_names, "http") == 0);
  CHECK(count(without_names, "src=") == 0);
  CHECK(count(without_names, "<link") == 0);
  CHECK(count(without_names, "<script") == 0);
  CHECK(count(page, "<svg") == 7);
  CHECK(count(page, "{{") == 0); // no tag of the template is left
}

TEST_CASE("the page says what was wrong, and escapes what it is told", "[reports][quick]") {
  const std::string page = file("index.html");

  CHECK_THAT(page, ContainsSubstring("Not everything held."));
  CHECK_THAT(page, ContainsSubstring("O[0,0,0] is &quot;off&quot;"));
  CHECK_THAT(page, ContainsSubstring("found 0, want NaN"));
  CHECK_THAT(page, ContainsSubstring("parts from the truth in tile 3"));
  CHECK_THAT(page, ContainsSubstring("Error &lt;against&gt; keys"));
  CHECK_THAT(page, ContainsSubstring("RMS error ~ n_kv^0.500 (95 %: 0.250 to -)"));
  CHECK(count(page, "✗</td>") == 3); // one cell for each kernel of the violated law
  CHECK(count(page, ">=</td>") == 3);
  CHECK_THAT(page, ContainsSubstring("fa1 on cpu (2 instances)"));
  CHECK_THAT(page, ContainsSubstring("fa1 on cpu-fma (1 instances)"));
}

TEST_CASE("every id on the page is there once", "[reports][quick]") {
  const std::string page = file("index.html");
  const std::regex id(R"(\bid=['"]([^'"]*)['"])");

  std::multiset<std::string> ids;
  for (std::sregex_iterator at(page.begin(), page.end(), id), end; at != end; ++at)
    ids.insert((*at)[1]);

  REQUIRE(ids.size() > 10);
  for (const std::string& one : ids) {
    CAPTURE(one);
    CHECK(ids.count(one) == 1);
  }
}

TEST_CASE("plots hold no colour of their own", "[reports][quick]") {
  const std::string svg = file("plots/keys.svg");
  const std::string drawing = svg.substr(svg.find("</style>"));

  CHECK(count(drawing, "rgb(") == 0);
  CHECK(count(drawing, "\"black\"") == 0);
  CHECK_THAT(drawing, ContainsSubstring("var(--ink)"));
  CHECK_THAT(drawing, ContainsSubstring("var(--series-1)"));
  CHECK_THAT(svg, ContainsSubstring("prefers-color-scheme: dark"));
  CHECK_THAT(svg, ContainsSubstring("<title>Error &lt;against&gt; keys</title>"));
  CHECK_THAT(svg, ContainsSubstring("keys N"));
}

TEST_CASE("where nothing is promised nothing is drawn", "[reports][quick]") {
  const std::string svg = file("plots/keys.svg");

  // For each of two kinds of points: the two that are promised something, and the one in the key.
  CHECK(count(svg, "<use href='#keys-gpPt4'") + count(svg, "<use href='#keys-gpPt6'") == 2 * 3);
}

TEST_CASE("a cell of CSV survives its separators", "[reports][quick]") {
  const Json records{{{"a", "x,y"}, {"b", "say \"so\""}, {"list", {1, 2}}, {"c", 0.25}},
                     {{"a", ""}, {"b", nullptr}, {"list", Json::array()}, {"c", "NaN"}}};

  CHECK(csv_of_records(records) == "a,b,c\n\"x,y\",\"say \"\"so\"\"\",0.25\n,,NaN\n");
  CHECK(csv_of_records(Json::array()).empty());
}

TEST_CASE("the tables of a report hold one line for each record", "[reports][quick]") {
  CHECK(count(file("laws.csv"), "\n") == 1 + 2 * 3); // header, laws x kernels
  CHECK(count(file("errors.csv"), "\n") == 1 + 3);
  CHECK(count(file("edge_cases.csv"), "\n") == 1 + 1);
  CHECK(count(file("histogram.csv"), "\n") == 1 + 24);
  CHECK(count(file("costs.csv"), "\n") == 1 + 4);
  CHECK(Json::parse(file("report.json")) == small_report()); // and no times
}

TEST_CASE("what a truth costs is shown as powers of 2, rates and answers", "[reports][quick]") {
  const Json costs = small_costs();

  const CostRow certify = cost_row(costs["subjects"][0]), wrong = cost_row(costs["subjects"][1]);
  const CostRow peak = cost_row(costs["subjects"][3]);
  const GoalRow reached = goal_row(costs["goals"][0]), missed = goal_row(costs["goals"][1]);

  CHECK(certify.ns == "0.250");
  CHECK(certify.radius == "2^-80.0");
  CHECK(certify.error == "2^-90.0");
  CHECK(certify.says == "a < b (-O2)");
  CHECK(wrong.error == "2^-90.0 beyond the radius");
  CHECK(peak.radius == "-");
  CHECK(peak.says == "a < b, 8.00 a nanosecond (-O2)");
  CHECK(reached.asked == "at most 2^-85.0");
  CHECK(reached.measured == "2^-87.0");
  CHECK(reached.answer == "yes, by a factor of 4.00");
  CHECK(missed.asked == "at least 1.8");
  CHECK(missed.answer == "no, short by a factor of 2.00");
  CHECK_THAT(beyond_radius(costs), EndsWith(": certify-AVX2"));
}

TEST_CASE("the page tells what the truth costs, and the plot leaves out what is no multiply-add",
          "[reports][quick]") {
  const std::string page = file("index.html"), text = file("report.md");
  const std::string svg = file("plots/costs.svg");

  for (const std::string& told : {page, text}) {
    CHECK_THAT(told, ContainsSubstring("What the truth costs"));
    CHECK_THAT(told, ContainsSubstring("no, short by a factor of 2.00"));
    CHECK_THAT(told, ContainsSubstring("arb-113"));
    CHECK_THAT(told, ContainsSubstring("vector-operation"));
  }
  CHECK_THAT(svg, ContainsSubstring(">arb-113<"));
  CHECK_THAT(svg, !ContainsSubstring("vector-operation") && !ContainsSubstring("AVX2"));
}

TEST_CASE("the page compares the family: ratio with prediction, traffic counted with its formula",
          "[reports][quick]") {
  for (const std::string& told : {file("index.html"), file("report.md")}) {
    CHECK_THAT(told, ContainsSubstring("fa1 over fa1_deferred, every rounding: 1.5 (95 %: 1.25 to "
                                       "1.75; 6 problems), predicted 1.41"));
    CHECK_THAT(told, ContainsSubstring("./fa1lab list kernels --traffic 'n_q=4 n_kv=8 d=64'"));
  }
  CHECK_THAT(file("index.html"), ContainsSubstring("<td class=\"n good\">1000</td>"));
  CHECK_THAT(file("index.html"), ContainsSubstring("<td class=\"n bad\">700</td>"));
  // Two points for each kernel that rounds everything, and one in the key.
  const std::string svg = file("plots/family.svg");
  CHECK(count(svg, "<use href='#family-gpPt4'") + count(svg, "<use href='#family-gpPt6'") ==
        2 * (2 + 1));
  CHECK(count(file("family.csv"), "\n") == 1 + 3 * 2);
  CHECK(count(file("traffic.csv"), "\n") == 1 + 2);
}

TEST_CASE(
    "a product with the divisor undoes most of a division, so fa1 loses less than its roundings",
    "[reports][quick]") {
  const double left = roundings_left();

  // Between a product that gives everything back and one that rounds for itself.
  CHECK(left > 0.0);
  CHECK(left < 1.0);
  CHECK(left == roundings_left());
}

TEST_CASE("the report names its pages with their first answer, and its text holds them whole",
          "[reports][quick]") {
  const std::string page = file("index.html"), text = file("report.md");

  CHECK(count(page, "href=\"pages/parts.html\"") == 2); // in the line of links and in the list
  CHECK_THAT(page, ContainsSubstring("The exp makes 70 % of it."));
  CHECK_THAT(text, ContainsSubstring("![Shares](pages/parts-shares.svg)"));
  CHECK_THAT(text, ContainsSubstring("- The rest \\| is l.\n"));
  CHECK_THAT(text,
             ContainsSubstring("| stage | share |\n|---|---:|\n| exp | 0.7 |\n| a,b | - |\n"));
  CHECK_THAT(text, ContainsSubstring("\n    fa1lab budget 'n_kv=64'\n"));
}

TEST_CASE("the zoo is a picture with a mark for each kernel that a law or a gate catches",
          "[reports][quick]") {
  const std::string svg = file("plots/zoo.svg");

  // In the order of the series: laws with others, one law alone, gates; each stands once more in the key.
  CHECK(count(svg, "<use href='#zoo-gpPt4'") == 2 + 1 + 1 + 1 + 2 + 1);
  for (const char* label : {">one<", ">two<", ">three<", ">four<", ">truth<", ">repeat<", ">loose<",
                            ">tail<", ">scale<", ">right<"})
    CHECK_THAT(svg, ContainsSubstring(label));
}

TEST_CASE("the page counts what the zoo showed and names what was not caught", "[reports][quick]") {
  for (const std::string& told : {file("index.html"), file("report.md")}) {
    CHECK_THAT(told, ContainsSubstring("2 of 3 wrong kernels caught, 1 of 1 right ones let pass, "
                                       "with 5 cases of each law on each tile."));
    CHECK_THAT(told, ContainsSubstring("mutant.three"));
    CHECK_THAT(told, ContainsSubstring("not seen in so few cases; law truth sees it in more"));
    CHECK_THAT(told, ContainsSubstring("./fa1lab check --zoo --cases 5 --seed 7"));
  }
  CHECK(count(file("zoo.csv"), "\n") == 1 + 4);
  CHECK_THAT(file("zoo.csv"), ContainsSubstring(",truth,repeat,loose\n"));
}

TEST_CASE("where the zoo stayed shut nothing is said of it", "[reports][quick]") {
  Json report = small_report();
  report["zoo"] = Json::array();

  for (const ReportFile& file : report_files(report, small_costs())) {
    CAPTURE(file.name);
    CHECK(file.name != "plots/zoo.svg");
    CHECK_THAT(file.text, !ContainsSubstring("wrong kernels caught"));
  }
}

TEST_CASE("Markdown's tables survive a bar in a cell", "[reports][quick]") {
  const std::string text = file("report.md");

  CHECK_THAT(text, ContainsSubstring("| repeat | exact | a < b \\| c | held | 12 | bitwise |"));
  CHECK_THAT(text, ContainsSubstring("![Error <against> keys](plots/keys.svg)"));
  CHECK(count(text, "{{") == 0);
}

TEST_CASE("numbers that JSON lacks go there and back", "[reports][quick]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();

  CHECK(number_of(number(0.1)) == 0.1);
  CHECK(number_of(number(kInfinity)) == kInfinity);
  CHECK(number_of(number(-kInfinity)) == -kInfinity);
  CHECK(std::isnan(number_of(number(std::nan("")))));
  CHECK(Json::parse(Json{number(kInfinity)}.dump())[0] == "Infinity");
}

TEST_CASE("a plot without a point is an error and not an empty picture", "[reports][quick]") {
  Plot plot{"none",
            "nothing",
            "x",
            "y",
            10,
            true,
            {{"zeros", Mark::points, 1, {{1.0, 0.0}, {0.0, 1.0}, {1.0, NAN}}}},
            {}};

  CHECK_THROWS_AS(draw(plot), EnvironmentError);
}
