/// The map of an output's errors (numerics/error_map.hpp) as a picture, drawn by gnuplot.
///
/// draw_svg, draw_png   rows downwards, columns to the right, the error on a logarithmic colour scale that spans what
///                      the map holds; NaN, Inf, a number where the truth has none, exactly right and not judged have
///                      colours of their own, named above the picture. How many elements a cell stands for is said in it
/// Same                 for the same map, byte for byte; one file, with all in it
/// Errors               EnvironmentError where gnuplot is missing or draws nothing
#pragma once

#include "numerics/error_map.hpp"
#include "reports/records.hpp"

#include <string>

namespace fa1::reports {

inline constexpr std::int64_t kMostMapRows = 512, kMostMapColumns = 256;

struct MapPicture {
  std::string id;    ///< letters, digits, '-' and '_'
  std::string title; ///< plain text
  std::string unit;  ///< of the colours, in words
  const numerics::ErrorMap* map = nullptr;
};

/// For a page that has other drawings; `alone` for a file of its own.
std::string draw_svg(const MapPicture& picture);
std::string alone(const std::string& svg);
std::string draw_png(const MapPicture& picture);

/// `each cell is the largest of 128 x 1 elements`; what the picture says below itself.
std::string reduction_of(const numerics::ErrorMap& map);

/// Rows of cells: a number where there is one, else the name of what the cell is.
Json to_json(const numerics::ErrorMap& map);

} // namespace fa1::reports
