/// What every drawing by gnuplot needs.
///
/// TemporaryFile   what gnuplot writes into; UsageError where none can be made
/// literal         a text as gnuplot quotes it
/// for_page        an SVG of gnuplot's for a page that has others: no size of its own, ids that begin with `id`, `title`
///                 for screen readers and as a tooltip
#pragma once

#include <string>
#include <string_view>

namespace fa1::reports {

/// A file of our own name that is gone when this ends.
class TemporaryFile {
public:
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  std::string text() const;

private:
  std::string path_;
};

std::string literal(std::string_view text);
std::string replaced(std::string text, std::string_view from, std::string_view to);
std::string for_page(std::string svg, const std::string& id, const std::string& title);

} // namespace fa1::reports
