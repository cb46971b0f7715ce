// Claims about the pictures of errors: the page of `judge --html` and the map of `run --full-map`.
#include "reference/tests/file_bytes.hpp"
#include "reports/records.hpp"
#include "reports/tests/scratch.hpp"
#include "reports/tests/shell.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace fa1::reports;
using namespace fa1::reports::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Four heads of 8 rows; K = 0, so that O is the mean of V, here 1, but for one element.
std::string case_with_wrong_element(const Scratch& folder, const std::string& name_of_O) {
  const std::vector<float> zeros(4 * 8 * 2, 0.0f), ones(4 * 8 * 2, 1.0f);
  std::vector<float> O = ones;
  O[(2 * 8 + 5) * 2 + 1] = 1.5f; // head 2, row 5, column 1
  std::string header = "{", data;
  const auto add = [&](const std::string& name, const std::vector<float>& values) {
    const std::size_t from = data.size();
    data += fa1::reference::floats(values);
    header += (from == 0 ? "" : ",") + Json(name).dump() +
              R"(:{"dtype":"F32","shape":[4,8,2],"data_offsets":[)" + std::to_string(from) + "," +
              std::to_string(data.size()) + "]}";
  };
  add("q", ones);
  add("k", zeros);
  add("v", ones);
  add(name_of_O, O);
  const std::filesystem::path file = folder / "case.safetensors";
  std::ofstream(file, std::ios::binary) << fa1::reference::safetensors(header + "}", data);
  return file.string();
}

Json map_in(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="map-1">)";
  const std::size_t from = page.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t at = from + begin.size();
  return Json::parse(page.substr(at, page.find("</script>", at) - at));
}

bool has_gnuplot() { return shell("command -v gnuplot").status == 0; }

} // namespace

TEST_CASE("judge --html shows the wrong place, the verdict and the rows", "[reports][quick]") {
  if (!has_gnuplot())
    SKIP("no gnuplot on PATH");
  const Scratch folder;
  const std::string page = (folder / "page.html").string();

  const Answer answer = fa1lab("judge " + case_with_wrong_element(folder, "o") + " --html " + page);

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  const std::string text = text_of(page);
  CHECK_THAT(text, ContainsSubstring("proved wrong"));
  CHECK_THAT(text, ContainsSubstring("O[0,2,5,1]"));
  CHECK_THAT(text, ContainsSubstring("0x1.8p+0"));
  CHECK_THAT(text, ContainsSubstring("Entropy of each row"));
  CHECK_THAT(text, ContainsSubstring("<image"));
  CHECK_THAT(text, !ContainsSubstring("http://") || ContainsSubstring("http://www.w3.org"));
  const Json map = map_in(text);
  REQUIRE(map["cells"].size() == 32);
  for (std::size_t r = 0; r < 32; ++r)
    for (std::size_t c = 0; c < 2; ++c) {
      const Json& cell = map["cells"][r][c];
      CAPTURE(r, c, cell.dump());
      CHECK((cell.is_number() && cell.get<double>() > 1.0) == (r == 2 * 8 + 5 && c == 1));
    }
}

TEST_CASE("judge --html escapes hostile names", "[reports][quick]") {
  if (!has_gnuplot())
    SKIP("no gnuplot on PATH");
  const Scratch folder;
  const std::string page = (folder / "page.html").string(),
                    name = "</h2><script>alert('1')</script>`&";

  const Answer answer = fa1lab("judge " + case_with_wrong_element(folder, name) +
                               " --o \"</h2><script>alert('1')</script>\\`&\" --html " + page);

  CAPTURE(answer.out);
  CHECK(answer.status == 1);
  const std::string text = text_of(page);
  CHECK_THAT(text, ContainsSubstring("&lt;/h2&gt;&lt;script&gt;alert("));
  CHECK_THAT(text, !ContainsSubstring("<script>alert"));
}

TEST_CASE("run --full-map draws the same file each time, as PNG and as SVG", "[reports][quick]") {
  if (!has_gnuplot())
    SKIP("no gnuplot on PATH");
  const Scratch folder;
  const std::string recipe = " 'n_q=600 n_kv=5 d=2' --kernel fa1.Br4xBc2 --full-map ";
  const auto draw = [&](const char* file) {
    const Answer answer = fa1lab("run" + recipe + (folder / file).string());
    CAPTURE(answer.out);
    CHECK(answer.status == 0);
    return text_of(folder / file);
  };

  const std::string png = draw("a.png"), svg = draw("a.svg");

  CHECK(png.starts_with("\x89PNG"));
  CHECK(draw("b.png") == png);
  CHECK(draw("b.svg") == svg);
  CHECK_THAT(svg, ContainsSubstring("600 x 2 elements; each cell is the largest of 2 x 1"));
  CHECK_THAT(svg, ContainsSubstring("in u sum p|v|"));
  CHECK_THAT(svg, ContainsSubstring("data:image/png;base64"));
  CHECK(folder.entries() == 4);
}

TEST_CASE("run --full-map says what it cannot draw", "[reports][quick]") {
  CHECK_THAT(fa1lab("run 'n_q=3 n_kv=5 d=2' --full-map map.gif").out,
             ContainsSubstring("ends in .png or .svg"));
  const Answer sampled = fa1lab("run 'n_q=30 rows=3 n_kv=5 d=2' --full-map map.png");
  CHECK(sampled.status == 2);
  CHECK_THAT(sampled.out, ContainsSubstring("takes 3 of 30 rows"));
}
