#include "reports/plot.hpp"

#include "reports/command.hpp"
#include "reports/gnuplot_parts.hpp"

#include <fmt/format.h>
#include <gnuplot-iostream.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>

namespace fa1::reports {
namespace {

/// One colour of the plots: what gnuplot is told, and what stands for it on the page.
struct Paint {
  int marker; ///< red, green and blue alike, a shade nobody uses
  const char* variable;
  const char* light;
  const char* dark;
};

constexpr auto kPaints = std::to_array<Paint>({{1, "--ink", "#1c2024", "#e6e8ea"},
                                               {2, "--series-1", "#1f5fbf", "#7db2ff"},
                                               {3, "--series-2", "#b3500b", "#ffad66"},
                                               {4, "--series-3", "#1c2024", "#e6e8ea"},
                                               {5, "--series-4", "#2c7a3f", "#7fd494"},
                                               {6, "--series-5", "#8a2f7a", "#e29ad2"},
                                               {7, "--series-6", "#0f7c86", "#6fd3dc"},
                                               {8, "--series-7", "#a8324a", "#ff97a8"},
                                               {9, "--series-8", "#7d6a00", "#dcc95a"},
                                               {10, "--series-9", "#5b4bb5", "#b3a6ff"},
                                               {11, "--series-10", "#6b6f75", "#a9aeb5"},
                                               {12, "--faint", "#c3c8ce", "#4a5058"}});

std::string colour(std::size_t paint) {
  return fmt::format("rgb '#{0:02x}{0:02x}{0:02x}'", kPaints[paint].marker);
}
std::string ink() { return colour(0); }
std::string faint() { return colour(kPaints.size() - 1); }

std::string style_of(const Series& series, int points_style) {
  const std::string paint = colour(static_cast<std::size_t>(series.colour));
  switch (series.mark) {
  case Mark::points:
    return fmt::format("with points pt {} ps 0.6 lc {}", points_style, paint);
  case Mark::line:
    return fmt::format("with lines lw 1.6 lc {}", paint);
  case Mark::dashes:
    return fmt::format("with lines lw 1.6 dt (7,4) lc {}", paint);
  case Mark::cells:
    return fmt::format("with points pt 5 ps 0.62 lc {}", paint);
  case Mark::stack:
    return fmt::format("with boxxyerror fs solid 0.75 noborder lc {}", paint);
  case Mark::bars:
    break;
  }
  return fmt::format("with boxes fs solid 0.75 noborder lc {}", paint);
}

/// Where the stack at each x has got to, upwards and downwards.
using Heights = std::map<double, std::pair<double, double>>;

/// The points as gnuplot reads them; of a stack x, y and the box's borders.
std::string data_of(const std::vector<std::pair<double, double>>& points, Mark mark, double width,
                    Heights& heights) {
  std::string text;
  for (const auto& [x, y] : points) {
    if (mark == Mark::stack) {
      auto& [up, down] = heights[x];
      double& from = y < 0.0 ? down : up;
      text += fmt::format("{} {} {} {} {} {}\n", x, from + y, x - 0.5 * width, x + 0.5 * width,
                          from, from + y);
      from += y;
    } else {
      text += fmt::format("{} {}\n", x, y);
    }
  }
  return text + "e\n";
}

std::string ticks(std::string_view axis, std::string_view options,
                  const std::vector<std::pair<double, std::string>>& at) {
  std::string places;
  for (const auto& [x, text] : at)
    places += fmt::format("{}{} {}", places.empty() ? "" : ", ", literal(text), x);
  return at.empty() ? "" : fmt::format("set {}tics {} ({})\n", axis, options, places);
}

std::string axis(char name, int base) {
  if (base == 0)
    return "";
  return fmt::format("set logscale {0} {1}\nset format {0} '{1}^{{%L}}'\n", name, base);
}

/// gnuplot writes markers as `rgb(  1,   1,   1)` and `rgb(1,1,1)`, and its own black for what has no colour setting.
std::string with_variables(std::string svg) {
  for (const Paint& paint : kPaints) {
    const std::regex marker(fmt::format(R"(rgb\(\s*{0},\s*{0},\s*{0}\))", paint.marker));
    svg = std::regex_replace(svg, marker, fmt::format("var({})", paint.variable));
  }
  return replaced(svg, "\"black\"", "\"var(--ink)\"");
}

/// Long labels below the axis and a long key above it take no height from what is drawn.
int height_of(const Plot& plot) {
  std::size_t longest = 0;
  for (const auto& [x, text] : plot.x_ticks)
    longest = std::max(longest, text.size());
  const std::size_t rows_of_key = (plot.series.size() + 1) / 2;
  return static_cast<int>(330 + 6 * (std::max<std::size_t>(longest, 6) - 6) +
                          18 * (std::max<std::size_t>(rows_of_key, 3) - 3));
}

bool has_negative(const Plot& plot) {
  return std::ranges::any_of(plot.series, [](const Series& series) {
    return std::ranges::any_of(series.points, [](const auto& point) { return point.second < 0.0; });
  });
}

} // namespace

void require_gnuplot() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/gnuplot").c_str(), X_OK) == 0)
      return;
  throw EnvironmentError(
      "the plots need the program gnuplot, which is not on PATH; want the package gnuplot-nox");
}

std::string draw(const Plot& plot) {
  require_gnuplot();
  const TemporaryFile file;
  {
    Gnuplot gnuplot("gnuplot");
    gnuplot << "set terminal svg size "
            << (plot.is_matrix() ? "1240,760" : fmt::format("400,{}", height_of(plot)))
            << " font 'sans-serif,13' enhanced\n"
            << "set output " << literal(file.path()) << "\n"
            << "set border 3 lc " << ink() << "\nset tics nomirror textcolor " << ink() << "\n"
            << "set grid lw 0.5 lc " << faint() << " dt 1\n"
            << "set key above left Left reverse maxcols 2 width -2 samplen 2 textcolor " << ink()
            << "\n"
            << "set xlabel " << literal(plot.x_title) << " textcolor " << ink() << "\n"
            << "set ylabel " << literal(plot.y_title) << " textcolor " << ink() << "\n"
            << axis('x', plot.x_base) << axis('y', plot.y_log ? 10 : 0)
            << (plot.y_log || has_negative(plot) ? "" : "set yrange [0:*]\n")
            << "set offsets graph 0.02, graph 0.02, graph 0.05, graph " << (plot.y_log ? 0.05 : 0.0)
            << "\nset boxwidth " << plot.bar_width << "\n";
    if (plot.is_matrix())
      gnuplot << "set yrange [*:*]\nset link x2\nset border 0\nunset grid\n"
              << ticks("x", "rotate by 90 right scale 0 font ',8' noenhanced", plot.x_ticks)
              << ticks("y", "scale 0 font ',9' noenhanced", plot.y_ticks)
              << ticks("x2", "scale 0 font ',10' textcolor " + ink(), plot.top_ticks);
    else
      gnuplot << ticks("x", "rotate by -55 noenhanced", plot.x_ticks);
    Heights heights;
    std::string command, data;
    int points_style = 5; // a filled square, then a filled circle, a filled triangle
    for (const Series& series : plot.series) {
      std::vector<std::pair<double, double>> kept;
      std::ranges::copy_if(series.points, std::back_inserter(kept), [&](const auto& point) {
        return std::isfinite(point.first) && std::isfinite(point.second) &&
               (plot.x_base == 0 || point.first > 0.0) && (!plot.y_log || point.second > 0.0);
      });
      if (kept.empty())
        continue;
      data += data_of(kept, series.mark, plot.bar_width, heights);
      command += fmt::format("{} '-' {} title {}", command.empty() ? "plot" : ",",
                             style_of(series, points_style), literal(series.name));
      if (series.mark == Mark::points)
        points_style += 2;
    }
    if (data.empty())
      throw EnvironmentError(fmt::format("plot '{}' has no point that can be drawn", plot.id));
    gnuplot << command << "\n" << data;
  } // gnuplot ends, and its file is complete
  std::string svg = file.text();
  if (svg.find("</svg>") == std::string::npos)
    throw EnvironmentError(
        fmt::format("gnuplot drew no plot '{}' into '{}'", plot.id, file.path()));

  return for_page(with_variables(std::move(svg)), plot.id, plot.title);
}

std::string plot_colours(bool dark) {
  std::string css;
  for (const Paint& paint : kPaints)
    css += fmt::format("{}: {}; ", paint.variable, dark ? paint.dark : paint.light);
  return css;
}

std::string stand_alone(const std::string& svg) {
  const std::size_t after_tag = svg.find('>') + 1;
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + svg.substr(0, after_tag) +
         fmt::format(
             "\n<style>svg {{ {} }} @media (prefers-color-scheme: dark) {{ svg {{ {} }} }}</style>",
             plot_colours(false), plot_colours(true)) +
         svg.substr(after_tag);
}

} // namespace fa1::reports
