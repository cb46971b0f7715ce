#include "numerics/ratchet.hpp"

#include "reference/hash.hpp"

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

constexpr std::string_view kSealMark = "# seal ";

/// It has to notice an edit, not an attack.
std::string seal_of(std::string_view text) {
  return fmt::format("{}{:016x}\n", kSealMark, reference::hash_of(text));
}

/// The text without its seal, which is its last line.
std::string_view without_seal(std::string_view text) {
  const std::size_t at = text.rfind(kSealMark);
  const bool is_last_line = at != std::string_view::npos && (at == 0 || text[at - 1] == '\n') &&
                            text.find('\n', at) + 1 >= text.size();
  return is_last_line ? text.substr(0, at) : text;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw std::runtime_error("ratchet: cannot read " + file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_row(std::string_view line) {
  return !line.empty() && line.front() != '#' && line != kRatchetHeader;
}

} // namespace

std::filesystem::path ratchet_file() {
  return std::filesystem::path(FA1_SOURCE_DIR) / "numerics" / "ratchet.csv";
}

RatchetRow row_from_csv(std::string_view line, const std::string& where) {
  std::istringstream cells{std::string(line)};
  RatchetRow row;
  std::string worst, median, cases;
  if (!std::getline(cells, row.key, ',') || !std::getline(cells, worst, ',') ||
      !std::getline(cells, median, ',') || !std::getline(cells, cases, ',') ||
      !std::getline(cells, row.how))
    throw std::runtime_error(fmt::format("{}: want {}", where, kRatchetHeader));
  try {
    row.worst = std::stod(worst);
    row.median = std::stod(median);
    row.cases = std::stoll(cases);
  } catch (const std::exception&) {
    throw std::runtime_error(fmt::format("{}: worst, median and cases must be numbers", where));
  }
  return row;
}

std::vector<RatchetRow> ratchet_rows(const std::filesystem::path& file) {
  return ratchet_rows_in(text_of(file), file.string());
}

std::vector<RatchetRow> ratchet_rows_in(const std::string& text, const std::string& file) {
  if (without_seal(text).size() != text.size() && !is_sealed(text))
    throw std::runtime_error(fmt::format(
        "ratchet: {} was changed by hand; want it as it was, and `fa1lab ratchet --update --reason "
        "TEXT` for the change",
        file));
  std::vector<RatchetRow> rows;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number)
    if (is_row(line))
      rows.push_back(row_from_csv(line, fmt::format("ratchet: {}:{}", file, number)));
  return rows;
}

RatchetRow ratchet(std::string_view key, const std::filesystem::path& file) {
  for (RatchetRow& row : ratchet_rows(file))
    if (row.key == key)
      return std::move(row);
  throw std::runtime_error(fmt::format("ratchet: {} has no row '{}'", file.string(), key));
}

std::string to_csv(const RatchetRow& row) {
  return fmt::format("{},{:.2g},{:.2g},{},{}", row.key, up_to_two_digits(row.worst),
                     up_to_two_digits(row.median), row.cases, row.how);
}

RatchetMove move_of(const RatchetRow& before, const RatchetRow& now) {
  const std::string rounded = to_csv(now);
  const RatchetRow held = row_from_csv(rounded, rounded);
  if (!(held.worst <= before.worst) || !(held.median <= before.median) ||
      held.cases < before.cases || held.how != before.how)
    return RatchetMove::loosens;
  return held.worst < before.worst || held.median < before.median || held.cases > before.cases
             ? RatchetMove::tightens
             : RatchetMove::same;
}

std::string with_row(const std::string& text, const RatchetRow& now, const std::string& reason) {
  std::string result;
  bool placed = false;
  const auto place = [&] {
    if (!reason.empty())
      result += fmt::format("# {}: {}\n", now.key, reason);
    result += to_csv(now) + "\n";
    placed = true;
  };
  std::istringstream lines{std::string(without_seal(text))};
  for (std::string line; std::getline(lines, line);)
    if (is_row(line) && line.substr(0, line.find(',')) == now.key)
      place();
    else
      result += line + "\n";
  if (!placed)
    place();
  return result + seal_of(result);
}

bool is_sealed(const std::string& text) {
  const std::string_view body = without_seal(text);
  return std::string(body) + seal_of(body) == text;
}

std::filesystem::path measured_folder() {
  return std::filesystem::path(FA1_BINARY_DIR) / "ratchet";
}

void note_measured(const RatchetRow& row) {
  std::filesystem::create_directories(measured_folder());
  std::ofstream(measured_folder() / (row.key + ".csv")) << to_csv(row) << "\n";
}

} // namespace fa1::numerics
