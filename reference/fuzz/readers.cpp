#include "reference/fuzz/readers.hpp"

#include "reference/files/npy.hpp"
#include "reference/files/npz.hpp"
#include "reference/files/safetensors.hpp"
#include "reference/fuzz/one_line.hpp"
#include "reference/recipe.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace fa1::reference {
namespace {

/// The first and the last elements of the first axis against the last, so that both ends of the bytes are touched.
void read_elements(const Array& array) {
  constexpr std::int64_t kMost = 64;
  const std::size_t rank = array.shape.size();
  if (rank == 0 || std::ranges::find(array.shape, 0) != array.shape.end())
    return;
  const Axis rows{std::min(array.shape.front(), kMost), array.strides.front()};
  const Axis columns{rank == 1 ? 1 : std::min(array.shape.back(), kMost), array.strides.back()};
  std::vector<double> out(static_cast<std::size_t>(rows.count * columns.count));
  read_block(array, array.offset, rows, columns, out);
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t taken = axis == 0 ? rows.count : axis == rank - 1 ? columns.count : 1;
    last += (array.shape[axis] - taken) * array.strides[axis];
  }
  read_block(array, array.offset + static_cast<std::uint64_t>(last), rows, columns, out);
}

/// A regular file without a name, which is what the archive's reader wants.
class MemoryFile {
public:
  explicit MemoryFile(std::span<const std::byte> bytes)
      : fd_(::memfd_create("fa1lab", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::logic_error("no file in memory");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

private:
  int fd_;
};

void read_recipe(std::string_view text) {
  const Recipe recipe = parse_recipe(text);
  const std::string printed = to_string(recipe);
  const Recipe again = parse_recipe(printed);
  if (!(again == recipe) || to_string(again) != printed)
    throw std::logic_error("'" + printed + "' is another recipe");
  constexpr std::int64_t kSmall = 64;
  const Shape shape = shape_of(recipe);
  if (recipe.n_q <= kSmall &&
      std::max({shape.batch_heads, shape.n_kv, shape.d, shape.dv}) <= kSmall)
    make_problem(recipe);
}

void read_as(std::string_view format, std::span<const std::byte> bytes) {
  if (format == "recipe") {
    read_recipe({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return;
  }
  if (format == "npz") {
    const MemoryFile file(bytes);
    const NpzFile npz(std::make_shared<FileSource>(file.path()));
    for (const std::string& name : npz.names())
      read_elements(npz.array(name));
    return;
  }
  auto source =
      std::make_shared<MemorySource>("bytes", std::vector<std::byte>(bytes.begin(), bytes.end()));
  if (format == "npy") {
    read_elements(read_npy(std::move(source)));
    return;
  }
  const SafetensorsFile file(std::move(source));
  for (const std::string& name : file.names())
    read_elements(file.array(name));
}

} // namespace

void read_all(std::string_view format, std::span<const std::byte> bytes) {
  try {
    read_as(format, bytes);
  } catch (const FileError& error) {
    require_one_line(error);
  } catch (const RecipeError& error) {
    require_one_line(error);
  }
}

} // namespace fa1::reference
