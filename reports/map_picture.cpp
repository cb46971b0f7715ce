#include "reports/map_picture.hpp"

#include "reports/command.hpp"
#include "reports/gnuplot_parts.hpp"
#include "reports/plot.hpp"

#include <fmt/format.h>
#include <gnuplot-iostream.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace fa1::reports {
namespace {

using numerics::CellKind;
using numerics::ErrorMap;

struct Shade {
  CellKind kind;
  std::string_view colour;
};
constexpr std::array kShades{Shade{CellKind::unjudged, "#d0d4d9"},
                             Shade{CellKind::exact, "#e3f1e5"},
                             Shade{CellKind::number_for_nan, "#00b3a4"},
                             Shade{CellKind::infinite, "#1f6fff"}, Shade{CellKind::nan, "#ff00c8"}};

/// Powers of ten around what there is.
std::pair<double, double> range_of(const ErrorMap& map) {
  double low = 0.0, high = 0.0;
  for (std::int64_t r = 0; r < map.rows(); ++r)
    for (std::int64_t c = 0; c < map.columns(); ++c)
      if (map(r, c).kind == CellKind::number && std::isfinite(map(r, c).error)) {
        const double error = map(r, c).error;
        low = low == 0.0 ? error : std::min(low, error);
        high = std::max(high, error);
      }
  if (high == 0.0)
    return {0.1, 10.0};
  const double from = std::floor(std::log10(low)), up_to = std::ceil(std::log10(high));
  return {std::pow(10.0, from), std::pow(10.0, std::max(up_to, from + 1.0))};
}

/// Cells [from, to) of a row.
std::string box_of(const ErrorMap& map, std::int64_t row, std::int64_t from, std::int64_t to) {
  const std::int64_t left = from * map.block_columns(), right = to * map.block_columns(),
                     top = row * map.block_rows(), bottom = (row + 1) * map.block_rows();
  return fmt::format("{} {} {} {} {} {}", 0.5 * static_cast<double>(left + right),
                     0.5 * static_cast<double>(top + bottom), left, right, top, bottom);
}

/// gnuplot's images have two rows and two columns at least.
bool is_image(const ErrorMap& map) { return map.rows() > 1 && map.columns() > 1; }

/// Box and error of each cell, Inf as the largest; an image wants the others, too.
std::string numbers_of(const ErrorMap& map, double largest) {
  std::string text;
  for (std::int64_t r = 0; r < map.rows(); ++r)
    for (std::int64_t c = 0; c < map.columns(); ++c) {
      const numerics::Cell& cell = map(r, c);
      if (cell.kind == CellKind::number)
        text += fmt::format("{} {:.6g}\n", box_of(map, r, c, c + 1), std::min(cell.error, largest));
      else if (is_image(map))
        text += box_of(map, r, c, c + 1) + " NaN\n";
    }
  return text + "e\n";
}

/// Neighbours in a row are one box.
std::string boxes_of(const ErrorMap& map, CellKind kind) {
  std::string text;
  for (std::int64_t r = 0; r < map.rows(); ++r)
    for (std::int64_t c = 0; c < map.columns(); ++c) {
      if (map(r, c).kind != kind)
        continue;
      const std::int64_t from = c;
      while (c + 1 < map.columns() && map(r, c + 1).kind == kind)
        ++c;
      text += box_of(map, r, from, c + 1) + "\n";
    }
  return text.empty() ? text : text + "e\n";
}

std::string drawn(const MapPicture& picture, std::string_view terminal) {
  require_gnuplot();
  const ErrorMap& map = *picture.map;
  const TemporaryFile file;
  {
    Gnuplot gnuplot("gnuplot");
    const auto [low, high] = range_of(map);
    gnuplot << "set terminal " << terminal << "\nset output " << literal(file.path()) << "\n"
            << "set title " << literal(picture.title) << " noenhanced\n"
            << "set xlabel \"column of O\\n"
            << reduction_of(map) << "\" noenhanced\n"
            << "set ylabel 'row of O, batch-heads below each other'\n"
            << "set xrange [0:" << map.columns() * map.block_columns() << "]\n"
            << "set yrange [" << map.rows() * map.block_rows() << ":0]\n"
            << "set tics out nomirror\nset key outside top center horizontal samplen 1\n"
            << "set logscale cb 10\nset format cb '10^{%L}'\n"
            << "set cbrange [" << low << ":" << high << "]\n"
            << "set cblabel " << literal(picture.unit) << " noenhanced\n"
            << "set palette defined (0 '#10124a', 0.35 '#3c5fb8', 0.6 '#e8c15a', 0.8 '#d9622b', 1 "
               "'#7a0c16')\n";
    std::string command, data;
    if (map.count(CellKind::number) > 0) {
      command =
          is_image(map)
              ? "'-' using 1:2:7 with image notitle"
              : "'-' using 1:2:3:4:5:6:7 with boxxyerror fs solid noborder lc palette notitle";
      data = numbers_of(map, high);
    }
    for (const Shade& shade : kShades)
      if (const std::string boxes = boxes_of(map, shade.kind); !boxes.empty()) {
        command += fmt::format(
            "{}'-' using 1:2:3:4:5:6 with boxxyerror fs solid 1 noborder lc rgb '{}' title {}",
            command.empty() ? "" : ", ", shade.colour, literal(numerics::name_of(shade.kind)));
        data += boxes;
      }
    gnuplot << "plot " << command << "\n" << data;
  } // gnuplot ends, and its file is complete
  std::string bytes = file.text();
  if (bytes.empty())
    throw EnvironmentError(
        fmt::format("gnuplot drew no map '{}' into '{}'", picture.id, file.path()));
  return bytes;
}

} // namespace

std::string reduction_of(const ErrorMap& map) {
  if (map.block_rows() == 1 && map.block_columns() == 1)
    return fmt::format("each of the {} x {} elements is a cell", map.all_rows(), map.all_columns());
  return fmt::format("{} x {} elements; each cell is the largest of {} x {}", map.all_rows(),
                     map.all_columns(), map.block_rows(), map.block_columns());
}

std::string draw_svg(const MapPicture& picture) {
  std::string svg = drawn(picture, "svg size 860,820 font 'sans-serif,14' background '#ffffff'");
  // Cells have borders, however large they are shown.
  svg = replaced(std::move(svg), "<image ", "<image style=\"image-rendering:pixelated\" ");
  return for_page(std::move(svg), picture.id, picture.title);
}

std::string alone(const std::string& svg) {
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + svg;
}

std::string draw_png(const MapPicture& picture) {
  return drawn(picture, "pngcairo size 1290,1230 font 'sans,18' background '#ffffff'");
}

Json to_json(const ErrorMap& map) {
  Json rows = Json::array();
  for (std::int64_t r = 0; r < map.rows(); ++r) {
    Json row = Json::array();
    for (std::int64_t c = 0; c < map.columns(); ++c) {
      const numerics::Cell& cell = map(r, c);
      row.push_back(cell.kind == CellKind::number ? number(cell.error)
                                                  : Json(numerics::name_of(cell.kind)));
    }
    rows.push_back(std::move(row));
  }
  return {{"rows", map.all_rows()},
          {"columns", map.all_columns()},
          {"rows_of_a_cell", map.block_rows()},
          {"columns_of_a_cell", map.block_columns()},
          {"cells", std::move(rows)}};
}

} // namespace fa1::reports
