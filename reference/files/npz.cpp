#include "reference/files/npz.hpp"

#include "reference/files/npy.hpp"
#include "reference/files/safetensors.hpp"

#include <zip.h>

#include <algorithm>
#include <set>
#include <utility>

namespace fa1::reference {
namespace {

constexpr std::int64_t kMostMembers = 65536;
constexpr std::uint64_t kLargestMember = std::uint64_t{1} << 36;
/// Deflate makes at most 1032 bytes of one.
constexpr std::uint64_t kMostGrowth = 1032;
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

std::string label_of(std::string name) {
  constexpr std::string_view kEnding = ".npy";
  if (name.ends_with(kEnding))
    name.resize(name.size() - kEnding.size());
  return name;
}

} // namespace

struct NpzFile::Archive {
  std::string path;
  std::shared_ptr<const FileSource> file;
  zip_t* zip = nullptr;
  std::vector<std::string> labels;

  ~Archive() {
    if (zip != nullptr)
      zip_discard(zip);
  }
};

NpzFile::NpzFile(std::shared_ptr<const FileSource> file) : archive_(new Archive) {
  archive_->path = file->name();
  archive_->file = std::move(file);
  int code = 0;
  // Through the descriptor that was checked; libzip takes a copy.
  archive_->zip = zip_fdopen(archive_->file->duplicate(), ZIP_CHECKCONS, &code);
  if (archive_->zip == nullptr)
    throw FileError(archive_->path + ": is no npz file that can be read: " + text_of(code));
  const std::int64_t count = zip_get_num_entries(archive_->zip, 0);
  if (count > kMostMembers)
    throw FileError(archive_->path + ": has " + std::to_string(count) + " members; want at most " +
                    std::to_string(kMostMembers));
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive_->zip, static_cast<zip_uint64_t>(i), 0);
    archive_->labels.push_back(label_of(name == nullptr ? "" : name));
    if (!seen.insert(archive_->labels.back()).second)
      throw FileError(archive_->path + ": has the member '" +
                      list_of({&archive_->labels.back(), 1}) + "' twice; want it once");
  }
}

NpzFile::~NpzFile() = default;

std::vector<std::string> NpzFile::names() const { return archive_->labels; }

Array NpzFile::array(const std::string& name) const {
  const Archive& all = *archive_;
  const auto found = std::ranges::find(all.labels, name);
  if (found == all.labels.end())
    throw FileError(all.path + ": has no member '" + list_of({&name, 1}) + "'; want one of " +
                    list_of(all.labels));
  const auto index = static_cast<zip_uint64_t>(found - all.labels.begin());
  const std::string label = all.path + ": " + list_of({&name, 1});

  zip_stat_t facts;
  zip_stat_init(&facts);
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(all.zip, index, 0, &facts) != 0 || (facts.valid & kNeeded) != kNeeded)
    throw FileError(label + ": the archive does not describe it; want a whole archive");
  if (facts.encryption_method != ZIP_EM_NONE)
    throw FileError(label + ": is encrypted; want it in the open");
  if (facts.comp_method != ZIP_CM_STORE && facts.comp_method != ZIP_CM_DEFLATE)
    throw FileError(label + ": is packed by method " + std::to_string(facts.comp_method) +
                    "; want stored or deflated");
  if (facts.size > kLargestMember || facts.size / kMostGrowth > facts.comp_size + kMostGrowth)
    throw FileError(label + ": is said to hold " + std::to_string(facts.size) + " bytes in " +
                    std::to_string(facts.comp_size) +
                    " packed ones; want at most 1032 for one, and "
                    "64 GiB");

  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> member(zip_fopen_index(all.zip, index, 0),
                                                                 &zip_fclose);
  if (!member)
    throw FileError(label + ": cannot be unpacked: " + zip_strerror(all.zip));
  const auto unpacked = std::make_shared<ScratchSource>(label);
  std::vector<std::byte> piece(kPiece);
  // What is kept grows with what arrives, not with what is claimed.
  const auto unpack_up_to = [&](std::uint64_t size) {
    while (unpacked->size() < size) {
      const zip_int64_t got =
          zip_fread(member.get(), piece.data(), std::min(kPiece, size - unpacked->size()));
      if (got < 0)
        throw FileError(label + ": cannot be unpacked: " + zip_file_strerror(member.get()));
      if (got == 0)
        return;
      unpacked->append(std::span(piece).first(static_cast<std::size_t>(got)));
    }
  };
  unpack_up_to(std::min<std::uint64_t>(facts.size, kLongestNpyHeader + 12));
  std::vector<std::byte> start(unpacked->size());
  unpacked->read(0, start);
  NpyHeader header = parse_npy_header(label, start);
  if (facts.size != header.size)
    throw FileError(label + ": holds " + std::to_string(facts.size) + " bytes; shape " +
                    shape_text(header.array.shape) + " of " +
                    std::string(name_of(header.array.dtype)) + " wants " +
                    std::to_string(header.size));
  unpack_up_to(header.size);
  std::byte beyond{};
  const zip_int64_t more = zip_fread(member.get(), &beyond, 1); // at the end libzip checks the CRC
  if (more < 0)
    throw FileError(label + ": cannot be unpacked: " + zip_file_strerror(member.get()));
  if (unpacked->size() != header.size || more > 0)
    throw FileError(label + ": unpacks to " +
                    (more > 0 ? "more than " : std::to_string(unpacked->size()) + " of ") +
                    std::to_string(header.size) +
                    " bytes; want exactly as many as its header says");
  header.array.source = unpacked;
  return std::move(header.array);
}

} // namespace fa1::reference
