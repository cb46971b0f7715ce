#include "reports/output.hpp"

#include "reports/command.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

namespace fa1::reports {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBesideMark = ".fa1lab-";

[[noreturn]] void fail(const fs::path& path, int error) {
  throw UsageError(fmt::format("cannot write '{}': {}", path.string(), std::strerror(error)));
}

[[nodiscard]] int write_bytes(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// The medium's own word that every byte is there: a full disk may only show when the file is closed.
[[nodiscard]] int synchronise_and_close(int fd) {
  int error = 0;
  if (fsync(fd) != 0 && errno != EINVAL &&
      errno != EROFS) // pipes and devices have nothing to synchronise
    error = errno;
  if (close(fd) != 0 && error == 0)
    error = errno;
  return error;
}

void write_all(const fs::path& file, std::string_view text, const fs::path& shown) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    fail(shown, errno);
  if (const int error = write_bytes(fd, text)) {
    close(fd);
    fail(shown, error);
  }
  if (const int error = synchronise_and_close(fd))
    fail(shown, error);
}

fs::path beside(const fs::path& target) {
  fs::path name = "." + target.filename().string();
  name += kBesideMark;
  name += std::to_string(getpid());
  return target.parent_path() / name;
}

/// What killed runs left beside `target`: `.NAME.fa1lab-PID` of processes that are no more.
void remove_leftovers(const fs::path& target) {
  const std::string start = "." + target.filename().string() + std::string(kBesideMark);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start))
      continue;
    pid_t process = 0;
    const auto [end, error] =
        std::from_chars(name.data() + start.size(), name.data() + name.size(), process);
    if (error == std::errc{} && end == name.data() + name.size() && process > 0 &&
        kill(process, 0) != 0 && errno == ESRCH)
      fs::remove_all(entry.path(), ignored);
  }
}

} // namespace

NewFile::NewFile(const fs::path& path) : shown_(path), written_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    fail(path, EISDIR);
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    // Through a link, the file it names is replaced and not the link.
    target_ = fs::exists(status) ? fs::canonical(path) : fs::absolute(path);
    remove_leftovers(target_);
    written_ = beside(target_);
  }
  fd_ = open(written_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0)
    fail(shown_, errno);
}

NewFile::~NewFile() {
  if (fd_ >= 0)
    close(fd_);
  std::error_code ignored;
  if (!target_.empty())
    fs::remove(written_, ignored);
}

void NewFile::write(std::string_view text) {
  if (const int error = write_bytes(fd_, text))
    fail(shown_, error);
}

void NewFile::publish() {
  const int error = synchronise_and_close(fd_);
  fd_ = -1;
  if (error != 0)
    fail(shown_, error);
  if (target_.empty())
    return;
  if (rename(written_.c_str(), target_.c_str()) != 0)
    fail(shown_, errno);
  target_.clear();
}

void write_file(const fs::path& path, std::string_view text) {
  NewFile file(path);
  file.write(text);
  file.publish();
}

GrowingFile::GrowingFile(const fs::path& path) : shown_(path) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    fail(path, errno);
  struct stat status {};
  const int error = fstat(fd_, &status) != 0                                         ? errno
                    : !S_ISREG(status.st_mode) || flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0
                                                                                     : errno;
  if (error == 0)
    return;
  close(fd_);
  if (error == EWOULDBLOCK)
    throw UsageError(fmt::format(
        "'{}': another process is writing it; want a file of its own for each", path.string()));
  fail(path, error);
}

GrowingFile::~GrowingFile() { close(fd_); }

void GrowingFile::keep(std::int64_t bytes) {
  struct stat status {};
  if (fstat(fd_, &status) != 0)
    fail(shown_, errno);
  if (!S_ISREG(status.st_mode))
    return;
  if (status.st_size > bytes && ftruncate(fd_, bytes) != 0)
    fail(shown_, errno);
  if (lseek(fd_, bytes, SEEK_SET) < 0)
    fail(shown_, errno);
}

void GrowingFile::append(std::string_view text) {
  if (const int error = write_bytes(fd_, text))
    fail(shown_, error);
  const auto now = std::chrono::steady_clock::now();
  if (now - synchronised_ < std::chrono::seconds(1))
    return;
  synchronise();
  synchronised_ = now;
}

void GrowingFile::synchronise() {
  if (fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS)
    fail(shown_, errno);
}

void require_writable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    fail(path, EISDIR);
  const fs::path folder = fs::absolute(path).parent_path();
  const fs::path asked = fs::exists(status) && !fs::is_regular_file(status) ? path : folder;
  if (access(asked.c_str(), W_OK) != 0)
    fail(path, errno);
}

NewFolder::NewFolder(const fs::path& target, const std::vector<std::string>& may_hold) {
  std::error_code error;
  target_ = fs::weakly_canonical(fs::absolute(target), error);
  if (error)
    fail(target, error.value());
  if (!target_.has_filename())
    target_ = target_.parent_path();
  if (!target_.has_filename())
    throw UsageError(fmt::format("--out '{}': want a folder of the report's own", target.string()));
  const fs::file_status status = fs::status(target_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw UsageError(fmt::format("--out '{}': is a file; want a folder", target_.string()));
  if (fs::is_directory(status)) {
    if (access(target_.c_str(), W_OK) != 0)
      fail(target_, errno);
    for (auto entry = fs::recursive_directory_iterator(target_, error);
         entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      const std::string relative = fs::relative(entry->path(), target_).generic_string();
      const bool known = std::ranges::any_of(may_hold, [&](const std::string& name) {
        return fnmatch(name.c_str(), relative.c_str(), FNM_PATHNAME) == 0 ||
               name.starts_with(relative + "/");
      });
      if (!known)
        throw UsageError(fmt::format(
            "--out '{}': holds '{}', which is no part of a report; want a new folder, an empty "
            "one or an earlier report",
            target_.string(), relative));
    }
    if (error)
      fail(target_, error.value());
  } else if (fs::create_directories(target_.parent_path(), error); error) {
    fail(target_, error.value());
  }
  remove_leftovers(target_);
  beside_ = beside(target_);
  // Tried now, because what fills the folder takes minutes; made again by the first write, so that a run killed in
  // between leaves nothing.
  if (!fs::create_directory(beside_, error))
    fail(target_, error ? error.value() : EEXIST);
  fs::remove(beside_, error);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!beside_.empty())
    fs::remove_all(beside_, ignored);
}

void NewFolder::write(const std::string& relative, std::string_view text) {
  const fs::path file = beside_ / relative;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error)
    fail(target_ / relative, error.value());
  write_all(file, text, target_ / relative);
}

void NewFolder::publish() {
  std::error_code error;
  if (fs::exists(target_, error)) {
    // One step that swaps the two names; then `beside_` is the old report.
    if (renameat2(AT_FDCWD, beside_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0)
      return;
    // A file system that cannot swap: two steps, with the old report never gone.
    const fs::path old = beside_.string() + ".old";
    if (rename(target_.c_str(), old.c_str()) != 0)
      fail(target_, errno);
    if (rename(beside_.c_str(), target_.c_str()) != 0) {
      const int why = errno;
      if (rename(old.c_str(), target_.c_str()) != 0)
        throw UsageError(fmt::format("cannot write '{}': {}; the report before is in '{}'",
                                     target_.string(), std::strerror(why), old.string()));
      fail(target_, why);
    }
    fs::remove_all(old, error);
    beside_.clear();
    return;
  }
  if (rename(beside_.c_str(), target_.c_str()) != 0)
    fail(target_, errno);
  beside_.clear();
}

} // namespace fa1::reports
