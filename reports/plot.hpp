/// Plots as SVG, drawn by gnuplot, that follow the page they stand on: dark on a light screen, light on a dark one.
///
/// draw        gnuplot draws in marker colours; they are replaced by the CSS variables --ink, --faint and --series-1 to
///             --series-10, and every id is made unique with `plot.id`, so that many plots fit on one page
/// stand_alone the same SVG with the variables' values inside, for a file of its own
/// Size        400 x 330, higher where labels or key are long, with 13 pt text: readable where a 360 pixel
///             screen shows it unscaled; a matrix is 1240 x 760 with small text, for a page that lets it scroll
/// Errors      EnvironmentError where gnuplot is missing or draws nothing
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fa1::reports {

/// A stack is bars on top of each other in the order of the series, from 0 upwards and, where negative, downwards.
enum class Mark { points, line, dashes, bars, stack, cells };

struct Series {
  std::string name;
  Mark mark = Mark::points;
  int colour = 1; ///< 1 to 10; 0 is the ink
  std::vector<std::pair<double, double>>
      points; ///< those not finite, or not positive on a log axis, are left out
};

struct Plot {
  std::string id;               ///< letters, digits, '-' and '_'
  std::string title;            ///< for screen readers and as a tooltip
  std::string x_title, y_title; ///< with units
  int x_base = 10;              ///< of the logarithmic axis; 0: even axis
  bool y_log = true;
  std::vector<Series> series;
  std::vector<std::pair<double, std::string>> x_ticks; ///< own tick labels, where there are any
  double bar_width = 0.8;
  std::vector<std::pair<double, std::string>> y_ticks = {};
  std::vector<std::pair<double, std::string>> top_ticks = {}; ///< a second row of labels, above

  /// Of cells, each a point of a series; rows and columns are what the ticks name.
  bool is_matrix() const { return !y_ticks.empty(); }
};

/// Throws EnvironmentError where there is no gnuplot, so that nobody waits minutes to hear it.
void require_gnuplot();

std::string draw(const Plot& plot);
std::string stand_alone(const std::string& svg);

/// The values of the variables, for the page: `light` or `dark`.
std::string plot_colours(bool dark);

} // namespace fa1::reports
