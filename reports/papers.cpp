#include "reports/papers.hpp"

#include "reports/parallel.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <string>

namespace fa1::reports {

Json to_json(const numerics::PaperRow& row) {
  return {{"what", "paper"},
          {"source", row.source},
          {"quantity", row.quantity},
          {"unit", row.unit},
          {"theirs", number(row.theirs)},
          {"says", row.says},
          {"ours", number(row.ours)},
          {"low", number(row.low)},
          {"high", number(row.high)},
          {"ratio", number(row.ratio())},
          {"shapes", row.shapes},
          {"differs", row.differs}};
}

std::vector<numerics::PaperRow> measure_papers(numerics::PaperSet set) {
  double jobs = 0.0;
  for (const numerics::Paper paper : numerics::kPapers)
    jobs += static_cast<double>(numerics::paper_jobs(paper, set));
  Progress progress("papers", jobs);
  std::vector<numerics::PaperRow> rows;
  for (const numerics::Paper paper : numerics::kPapers)
    std::ranges::move(numerics::paper_rows(paper, set, cores(), [&] { progress.done(1.0); }),
                      std::back_inserter(rows));
  progress.clear();
  return rows;
}

namespace {

void print_table(std::ostream& out, std::span<const numerics::PaperRow> rows) {
  std::size_t width = 0;
  for (const numerics::PaperRow& row : rows)
    width = std::max(width, row.quantity.size());
  std::string source, shapes, differs;
  for (const numerics::PaperRow& row : rows) {
    if (row.source != source)
      fmt::print(out, "{}{}\n  {:<{}}  {:>10}  {:>10}  {:<22}  {:>11}  {}\n",
                 source.empty() ? "" : "\n", row.source, "", width, "theirs", "ours",
                 "smallest..largest", "ours/theirs", "unit");
    if (row.shapes != shapes)
      fmt::print(out, "  on {}\n", row.shapes);
    if (row.differs != differs)
      fmt::print(out, "  differs: {}\n", row.differs);
    source = row.source;
    shapes = row.shapes;
    differs = row.differs;
    const bool has_number = !std::isnan(row.theirs);
    const std::string range =
        row.low == row.high ? "" : fmt::format("{:.3g}..{:.3g}", row.low, row.high);
    fmt::print(out, "  {:<{}}  {:>10}  {:>10.5g}  {:<22}  {:>11}  {}\n", row.quantity, width,
               has_number ? fmt::format("{:.5g}", row.theirs) : "-", row.ours, range,
               std::isfinite(row.ratio()) ? fmt::format("{:.3g}", row.ratio()) : "-", row.unit);
    if (!has_number)
      fmt::print(out, "  {:<{}}  they say: {}\n", "", width, row.says);
  }
}

} // namespace

void print_papers(std::ostream& out, std::span<const numerics::PaperRow> rows, bool json) {
  if (!json)
    return print_table(out, rows);
  for (const numerics::PaperRow& row : rows)
    out << one_line(to_json(row)) << "\n";
}

} // namespace fa1::reports
