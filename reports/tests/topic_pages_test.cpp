// Claims about the pages of topics: all that a topic measured is on its page, in its CSV files and in the report; stacks add up.

#include "reports/plot.hpp"
#include "reports/tests/small_topic.hpp"
#include "reports/topic_pages.hpp"
#include "reports/topics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace fa1::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string file(const Json& topic, const std::string& name) {
  const std::vector<ReportFile> files = topic_files(topic);
  const auto found = std::ranges::find(files, name, &ReportFile::name);
  REQUIRE(found != files.end());
  return found->text;
}

struct Box {
  double low, high;
};

/// The rectangles of one colour, in units of the drawing, upwards.
std::vector<Box> boxes_of(const std::string& svg, const std::string& colour) {
  const std::regex box("<polygon fill = 'var\\(" + colour + "\\)' .*? points = '([^']*)'");
  const std::regex corner(R"(([-0-9.]+),([-0-9.]+))");
  std::vector<Box> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
    const std::string points = (*at)[1];
    std::set<double> ys;
    for (std::sregex_iterator xy(points.begin(), points.end(), corner); xy != end; ++xy)
      ys.insert(-std::stod((*xy)[2]));
    boxes.push_back({*ys.begin(), *ys.rbegin()});
  }
  return boxes;
}

} // namespace

TEST_CASE("a page holds the sentences, plots, tables and commands of its topic",
          "[reports][quick]") {
  const Json topic = small_topic();

  const std::string page = file(topic, "pages/parts.html");

  CHECK_THAT(page, ContainsSubstring("Parts &lt;and&gt; whole"));
  CHECK_THAT(page, ContainsSubstring("Which part is how large?"));
  CHECK_THAT(page, ContainsSubstring("<li>The exp makes 70 % of it.</li>"));
  CHECK_THAT(page, ContainsSubstring("<svg role=\"img\""));
  CHECK_THAT(page, ContainsSubstring("<td>exp</td><td class=\"n\">0.7</td>"));
  CHECK_THAT(page, ContainsSubstring("<td>a,b</td><td class=\"n\">-</td>"));
  CHECK_THAT(page, ContainsSubstring("fa1lab budget &apos;n_kv=64&apos;"));
  CHECK_THAT(page, ContainsSubstring("--series-10: #")); // the colours its plots ask for
  CHECK(page.find("{{") == std::string::npos);
}

TEST_CASE("the CSV file of a table holds what its records hold and the page leaves out",
          "[reports][quick]") {
  CHECK(file(small_topic(), "pages/parts-shares.csv") ==
        "stage,share,keys\nexp,0.70001,64\n\"a,b\",NaN,64\n");
}

TEST_CASE("the bars of a stack stand on each other, the negative ones below zero",
          "[reports][quick]") {
  const std::string svg = file(small_topic(), "pages/parts-shares.svg");

  const std::vector<Box> exp = boxes_of(svg, "--series-1"), l = boxes_of(svg, "--series-10"),
                         O = boxes_of(svg, "--series-6");

  // The box in the key, then those at both places.
  REQUIRE(exp.size() == 3);
  REQUIRE(l.size() == 3);
  REQUIRE(O.size() == 2);
  const double zero = exp[1].low, unit = (exp[1].high - zero) / 70.0, tenth_of_a_pixel = 0.1;
  const auto spans = [&](const Box& box, double low, double high) {
    return std::abs(box.low - zero - low * unit) <= tenth_of_a_pixel &&
           std::abs(box.high - zero - high * unit) <= tenth_of_a_pixel;
  };
  CHECK(spans(exp[2], 0.0, 90.0));
  CHECK(spans(l[1], 70.0, 100.0));
  CHECK(spans(l[2], 90.0, 110.0));
  CHECK(spans(O[1], -10.0, 0.0));
}

TEST_CASE("a mark that no plot has is an error that names it", "[reports][quick]") {
  Json topic = small_topic();
  topic["plots"][0]["series"][0]["mark"] = "pie";

  CHECK_THROWS_WITH(topic_files(topic), ContainsSubstring("no mark 'pie'"));
}

TEST_CASE("topics have names of their own, and a folder may hold the files of each",
          "[reports][quick]") {
  const std::vector<std::string> patterns = topic_file_patterns();
  std::set<std::string> ids;

  for (const Topic& topic : all_topics()) {
    CAPTURE(topic.id);
    CHECK(ids.insert(topic.id).second);
    for (const char* ending : {".html", "-a.svg", "-b.csv"})
      CHECK(std::ranges::any_of(patterns, [&](const std::string& pattern) {
        const std::string name = std::string("pages/") + topic.id + ending;
        return fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME) == 0;
      }));
  }

  REQUIRE(ids.size() >= 6);
}
