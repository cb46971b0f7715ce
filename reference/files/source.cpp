#include "reference/files/source.hpp"

#include <algorithm>
#include <cerrno>
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
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      throw FileError(path_ + ": cannot be read: " + std::strerror(errno));
    if (got == 0)
      throw FileError(path_ + ": ends at byte " + std::to_string(offset) + " of " +
                      std::to_string(size_) + ": the file shrank while it was read");
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void ViewSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
    throw FileError(name_ + ": ends at byte " + std::to_string(bytes_.size()));
  std::copy_n(bytes_.data() + offset, out.size(), out.data());
}

} // namespace fa1::reference
