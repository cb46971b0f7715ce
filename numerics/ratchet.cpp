#include "numerics/ratchet.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fa1::numerics {
namespace {

/// Rounded up, so that the row admits what was measured and little more.
double up_to_two_digits(double x) {
  if (!(x > 0.0) || std::isinf(x))
    return x;
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1.0);
  return std::ceil(x / unit) * unit;
}

} // namespace

std::filesystem::path ratchet_file() {
  return std::filesystem::path(FA1_SOURCE_DIR) / "numerics" / "ratchet.csv";
}

RatchetRow ratchet(std::string_view key, const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    throw std::runtime_error("ratchet: cannot read " + file.string());
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (number == 1 || line.empty() || line.front() == '#')
      continue;
    std::istringstream cells(line);
    RatchetRow row;
    std::string worst, median, cases;
    if (!std::getline(cells, row.key, ',') || !std::getline(cells, worst, ',') ||
        !std::getline(cells, median, ',') || !std::getline(cells, cases, ',') ||
        !std::getline(cells, row.how))
      throw std::runtime_error(
          fmt::format("ratchet: {}:{}: want key,worst,median,cases,how", file.string(), number));
    if (row.key != key)
      continue;
    try {
      row.worst = std::stod(worst);
      row.median = std::stod(median);
      row.cases = std::stoll(cases);
    } catch (const std::exception&) {
      throw std::runtime_error(fmt::format(
          "ratchet: {}:{}: worst, median and cases must be numbers", file.string(), number));
    }
    return row;
  }
  throw std::runtime_error(fmt::format("ratchet: {} has no row '{}'", file.string(), key));
}

std::string to_csv(const RatchetRow& row) {
  return fmt::format("{},{:.2g},{:.2g},{},{}", row.key, up_to_two_digits(row.worst),
                     up_to_two_digits(row.median), row.cases, row.how);
}

} // namespace fa1::numerics
