#include "reports/sweep_file.hpp"

#include "reports/arguments.hpp"
#include "reports/command.hpp"
#include "reports/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace fa1::reports {
namespace fs = std::filesystem;
namespace {

constexpr int kFormat = 1; ///< of the records; one more where a field changes its meaning

constexpr auto kOfVersion = {"format", "revision", "compiler", "flags", "libc"};
constexpr auto kOfSweep = {"recipe", "kernel", "vary", "points", "runs"};

std::string cut(const std::string& text) {
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

/// The lines of a file of records, one at a time.
class Reader {
public:
  explicit Reader(std::string path) : path_(std::move(path)), in_(path_, std::ios::binary) {
    if (!in_ || fs::is_directory(path_))
      throw UsageError(fmt::format("'{}': cannot be read; want a file that `fa1lab sweep --out` "
                                   "wrote",
                                   path_));
  }

  /// The next line that has its end; false after the last of these.
  bool next() {
    if (!std::getline(in_, line_) || in_.eof())
      return false;
    ++number_;
    bytes_ += static_cast<std::int64_t>(line_.size()) + 1;
    return true;
  }

  Json json() const {
    Json json = Json::parse(line_, nullptr, false);
    if (json.is_discarded() || !json.is_object())
      fail("is no record (a JSON object on one line)");
    return json;
  }

  Json title() {
    if (!next())
      throw UsageError(
          fmt::format("'{}': has no line; want a file that `fa1lab sweep --out` wrote", path_));
    Json title = json();
    if (!is_sweep_title(title))
      fail("is not the first line of a sweep's file");
    return title;
  }

  /// Checks a record against the point it has to be and returns the point's number.
  std::uint64_t point_of(const Json& record, const numerics::Grid& grid) const {
    const auto number = record.find("point"), recipe = record.find("recipe");
    if (number == record.end() || !number->is_number_unsigned() || recipe == record.end() ||
        number->get<std::uint64_t>() < 1 || number->get<std::uint64_t>() > grid.points())
      fail("is no record of a point of this sweep");
    const auto point = number->get<std::uint64_t>();
    if (*recipe != reference::to_string(grid.point(point - 1).recipe))
      fail(fmt::format("does not hold the recipe of {}", point_in_words(grid, point)));
    return point;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}; found '{}'", path_, number_, what, cut(line_)));
  }

  const std::string& path() const { return path_; }
  const std::string& line() const { return line_; }
  const std::string& rest() const { return line_; } ///< after the last whole line
  std::int64_t bytes() const { return bytes_; }     ///< of whole lines so far

private:
  std::string path_, line_;
  std::ifstream in_;
  std::int64_t number_ = 0, bytes_ = 0;
};

/// Throws where two first lines do not belong together. `whose` is the other one's owner.
void require_same(const std::string& path, const Json& title, const Json& want,
                  const std::string& whose, bool with_shard) {
  const auto compare = [&](const char* key, const char* kind) {
    const Json found = title.value(key, Json()), right = want.value(key, Json());
    if (found != right)
      throw UsageError(fmt::format("{}:1: is of another {}: {} is {}, and {} of {}", path, kind,
                                   key, cut(one_line(found)), cut(one_line(right)), whose));
  };
  for (const char* key : kOfVersion)
    compare(key, "version");
  for (const char* key : kOfSweep)
    compare(key, "sweep");
  if (with_shard)
    compare("shard", "part of the sweep");
}

/// The grid that a first line describes.
numerics::Grid grid_of(const Reader& reader, const Json& title) {
  try {
    std::vector<numerics::Axis> axes;
    for (const auto& [key, values] : title.at("vary").items())
      axes.push_back({key, values.get<std::vector<std::string>>()});
    numerics::Grid grid(title.at("recipe").get<std::string>(), std::move(axes));
    if (title.at("points").is_number_unsigned() &&
        title.at("points").get<std::uint64_t>() == grid.points())
      return grid;
  } catch (const std::exception&) { // told below, whatever it was
  }
  reader.fail("does not describe a sweep");
}

} // namespace

Shard shard_from(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto which = read_number<std::uint64_t>(text.substr(0, slash));
  const auto of = slash == std::string_view::npos
                      ? std::nullopt
                      : read_number<std::uint64_t>(text.substr(slash + 1));
  constexpr std::uint64_t kMost = 1'000'000;
  if (!which || !of || *of < 1 || *of > kMost)
    throw UsageError(
        fmt::format("--shard {}: want i/n such as 2/8, n from 1 to {}", text.substr(0, 40), kMost));
  if (*which < 1 || *which > *of)
    throw UsageError(fmt::format("--shard {}: there is no part {} of {}; want 1/{} to {}/{}",
                                 text.substr(0, 40), *which, *of, *of, *of, *of));
  return {*which, *of};
}

Json sweep_title(const std::string& recipe, const std::vector<numerics::Axis>& axes,
                 const std::string& kernel, const numerics::Grid& grid, const Shard& shard) {
  const Environment& here = environment();
  Json vary = Json::object();
  for (const numerics::Axis& axis : axes)
    vary[axis.key] = axis.values;
  Json title{{"what", "sweep"},           {"format", kFormat},   {"revision", here.revision},
             {"compiler", here.compiler}, {"flags", here.flags}, {"libc", here.libc},
             {"recipe", recipe},          {"kernel", kernel},    {"vary", std::move(vary)},
             {"points", grid.points()},   {"runs", grid.runs()}};
  if (shard.of > 1)
    title["shard"] = fmt::format("{}/{}", shard.which, shard.of);
  return title;
}

bool is_sweep_title(const Json& line) {
  return line.is_object() && line.value("what", Json()) == "sweep";
}

std::string point_in_words(const numerics::Grid& grid, std::uint64_t number) {
  const numerics::GridPoint point = grid.point(number - 1);
  std::string values;
  for (std::size_t a = 0; a < point.values.size(); ++a)
    values += fmt::format("{}{}={}", a == 0 ? "" : " ", grid.axes()[a].key, point.values[a]);
  return fmt::format("point {}{}", number, values.empty() ? "" : " (" + cut(values) + ")");
}

SweepLog::SweepLog(const fs::path& path, const Json& title, const numerics::Grid& grid,
                   const Shard& shard, const SeenRecord& seen)
    : file_(path) {
  const std::string first = one_line(title) + "\n";
  std::int64_t sound = 0;
  if (fs::is_regular_file(path) && fs::file_size(path) > 0) {
    Reader first_line(path.string());
    if (first_line.next()) {
      check(path.string(), title, grid, shard, {}); // all of it is sound before any of it is told
      sound = check(path.string(), title, grid, shard, seen);
    } else if (!first.starts_with(first_line.rest())) {
      throw UsageError(
          fmt::format("'{}': is no file of a sweep; want another --out", path.string()));
    }
  }
  file_.keep(sound);
  if (sound == 0)
    file_.append(first);
}

std::int64_t SweepLog::check(const std::string& path, const Json& title, const numerics::Grid& grid,
                             const Shard& shard, const SeenRecord& seen) {
  Reader reader(path);
  require_same(path, reader.title(), title, "this one; want another --out", true);
  done_ = 0;
  while (reader.next()) {
    const Json record = reader.json();
    const std::uint64_t number = reader.point_of(record, grid);
    if (done_ == shard.points(grid.points()))
      reader.fail("comes after the last point");
    if (number != shard.point(done_))
      reader.fail(fmt::format("holds point {} where {} is due", number,
                              point_in_words(grid, shard.point(done_))));
    if (seen)
      seen(number, record);
    ++done_;
  }
  return reader.bytes();
}

void SweepLog::append(const Json& record) {
  file_.append(one_line(record) + "\n");
  ++done_;
}

std::uint64_t merge(const std::vector<std::string>& files, const std::string& out,
                    const SeenRecord& seen) {
  struct Part {
    Reader reader;
    std::string shard;
    std::uint64_t number = 0; ///< of the record it stands at; 0 after the last
    Json record;
  };
  std::vector<Part> parts;
  Json title;
  for (const std::string& file : files) {
    Part part{Reader(file), "", 0, {}};
    Json found = part.reader.title();
    part.shard = found.contains("shard") ? one_line(found["shard"]) : "the whole sweep";
    found.erase("shard");
    if (parts.empty())
      title = std::move(found);
    else
      require_same(file, found, title, "'" + files.front() + "'", false);
    parts.push_back(std::move(part));
  }
  const numerics::Grid grid = grid_of(parts.front().reader, title);
  const auto advance = [&](Part& part) {
    const std::uint64_t before = part.number;
    part.number = 0;
    if (!part.reader.next())
      return;
    part.record = part.reader.json();
    part.number = part.reader.point_of(part.record, grid);
    if (part.number <= before)
      part.reader.fail(
          fmt::format("holds {} after point {}", point_in_words(grid, part.number), before));
  };
  for (Part& part : parts)
    advance(part);

  NewFile file(out);
  file.write(one_line(title) + "\n");
  for (std::uint64_t number = 1; number <= grid.points(); ++number) {
    Part* holder = nullptr;
    for (Part& part : parts) {
      if (part.number != number)
        continue;
      if (holder != nullptr)
        throw UsageError(fmt::format("merge: {} is both in '{}' and in '{}'; want each part once",
                                     point_in_words(grid, number), holder->reader.path(),
                                     part.reader.path()));
      holder = &part;
    }
    if (holder == nullptr) {
      std::string shards;
      for (const Part& part : parts)
        shards += fmt::format("{}{}", shards.empty() ? "" : ", ", part.shard);
      throw UsageError(
          fmt::format("merge: {} is in none of the {} files (parts {}); want all parts, "
                      "each of them finished",
                      point_in_words(grid, number), parts.size(), cut(shards)));
    }
    file.write(holder->reader.line() + "\n");
    seen(number, holder->record);
    advance(*holder);
  }
  file.publish();
  return grid.points();
}

} // namespace fa1::reports
