#include "reports/gnuplot_parts.hpp"

#include "reports/command.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace fa1::reports {
namespace fs = std::filesystem;
namespace {

std::string with_own_ids(std::string svg, const std::string& id) {
  svg = std::regex_replace(svg, std::regex(R"(\bid=(['"]))"), "id=$1" + id + "-");
  svg = std::regex_replace(svg, std::regex(R"(xlink:href=(['"])#)"), "href=$1#" + id + "-");
  return replaced(svg, "url(#", "url(#" + id + "-");
}

std::string escaped(std::string text) {
  text = replaced(text, "&", "&amp;");
  text = replaced(text, "<", "&lt;");
  return replaced(text, ">", "&gt;");
}

} // namespace

TemporaryFile::TemporaryFile() {
  std::error_code error;
  path_ = (fs::temp_directory_path(error) / "fa1lab-plot-XXXXXX").string();
  const int file = error ? -1 : mkstemp(path_.data());
  if (file < 0)
    throw UsageError(fmt::format(
        "cannot write a temporary file '{}': want TMPDIR to name a writable folder", path_));
  close(file);
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

std::string TemporaryFile::text() const {
  std::ifstream in(path_, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string for_page(std::string svg, const std::string& id, const std::string& title) {
  svg.erase(0, svg.find("<svg"));
  svg = with_own_ids(std::move(svg), id);
  svg = std::regex_replace(svg, std::regex("<title>Gnuplot</title>"),
                           "<title>" + escaped(title) + "</title>");
  // As wide as the page lets it be.
  return std::regex_replace(svg, std::regex(R"(<svg\s+width="\d+" height="\d+")"),
                            "<svg role=\"img\"", std::regex_constants::format_first_only);
}

} // namespace fa1::reports
