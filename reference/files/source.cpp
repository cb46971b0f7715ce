#include "reference/files/source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fa1::reference {
namespace {

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode))
    return "a directory";
  if (S_ISFIFO(mode))
    return "a FIFO";
  if (S_ISSOCK(mode))
    return "a socket";
  return "a device";
}

void require_inside(const Source& source, std::uint64_t offset, std::size_t count) {
  if (offset > source.size() || count > source.size() - offset)
    throw FileError(source.name() + ": ends at byte " + std::to_string(source.size()));
}

/// Fills `out`, as far as the file goes; gives the offset behind the last byte.
std::uint64_t read_at(int fd, const std::string& name, std::uint64_t offset,
                      std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      throw FileError(name + ": cannot be read: " + std::strerror(errno));
    if (got == 0)
      break;
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return offset;
}

std::string scratch_folder() {
  const char* const folder = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
  return folder != nullptr && *folder != '\0' ? folder : "/var/tmp";
}

/// Open for reading and writing, and without a name.
int nameless_file(const std::string& name) {
  std::string path = scratch_folder() + "/fa1lab-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0)
    throw FileError(name + ": no file can be made in " + scratch_folder() + ": " +
                    std::strerror(errno) + "; set TMPDIR to a folder that takes one");
  ::unlink(path.c_str());
  return fd;
}

} // namespace

FileSource::FileSource(const std::string& path) : path_(path) {
  if (path.find('\0') != std::string::npos)
    throw FileError("a file name holds NUL; want a path without it");
  // O_NONBLOCK: opening a FIFO that nobody writes to must not wait. It changes nothing for a regular file.
  fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0)
    throw FileError(path + ": cannot be opened: " + std::strerror(errno));
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(fd_);
    throw FileError(path + ": is " + kind_of(facts.st_mode) + "; want a regular file");
  }
  size_ = static_cast<std::uint64_t>(facts.st_size);
}

FileSource::~FileSource() { ::close(fd_); }

int FileSource::duplicate() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    throw FileError(path_ + ": cannot be opened twice: " + std::strerror(errno));
  return fd;
}

void FileSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t end = read_at(fd_, path_, offset, out);
  if (end < offset + out.size())
    throw FileError(path_ + ": ends at byte " + std::to_string(end) + " of " +
                    std::to_string(size_) + ": the file shrank while it was read");
}

void ViewSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(*this, offset, out.size());
  std::copy_n(bytes_.data() + offset, out.size(), out.data());
}

ScratchSource::~ScratchSource() {
  if (fd_ >= 0)
    ::close(fd_);
}

void ScratchSource::append(std::span<const std::byte> bytes) {
  if (fd_ < 0 && size_ + bytes.size() <= kInMemory) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    size_ += bytes.size();
    return;
  }
  const auto write = [&](std::span<const std::byte> rest) {
    while (!rest.empty()) {
      const ssize_t put = ::write(fd_, rest.data(), rest.size());
      if (put < 0 && errno == EINTR)
        continue;
      if (put < 0)
        throw FileError(name_ + ": " + scratch_folder() + " does not take its bytes: " +
                        std::strerror(errno) + "; set TMPDIR to a folder with room for it");
      rest = rest.subspan(static_cast<std::size_t>(put));
    }
  };
  if (fd_ < 0) {
    fd_ = nameless_file(name_);
    write(bytes_);
    bytes_ = {};
  }
  write(bytes);
  size_ += bytes.size();
}

void ScratchSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(*this, offset, out.size());
  if (fd_ < 0)
    std::copy_n(bytes_.data() + offset, out.size(), out.data());
  else if (read_at(fd_, name_, offset, out) < offset + out.size())
    throw FileError(name_ + ": was unpacked and is no longer whole");
}

} // namespace fa1::reference
