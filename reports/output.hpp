/// Writing so that nothing half done is ever seen.
///
/// write_file     writes beside the file, then renames: the old file or the new one, never a part. What is no regular
///                file (/dev/stdout) is written directly.
/// NewFile        the same for a text that comes in pieces; without publish() the file stays as it was
/// GrowingFile    the exception: a file that grows line by line and is whole after each, so that a killed run leaves what
///                it has done. One process at a time has it
/// NewFolder      a folder filled beside the one it replaces, then put in its place by one rename; without publish() it
///                is deleted and the folder stays as it was
/// Errors         UsageError: the path, and why it cannot be written
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

void write_file(const std::filesystem::path& path, std::string_view text);

class NewFile {
public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view text);
  void publish();

private:
  std::filesystem::path shown_, target_,
      written_; ///< target_: empty where there is none to replace
  int fd_ = -1;
};

class GrowingFile {
public:
  /// Made where it is missing, otherwise as it is; locked until this goes.
  explicit GrowingFile(const std::filesystem::path& path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Leaves so many of its first bytes and goes on after them.
  void keep(std::int64_t bytes);
  /// Written at once; on the medium within a second of work.
  void append(std::string_view text);
  void synchronise();

private:
  std::filesystem::path shown_;
  int fd_ = -1;
  std::chrono::steady_clock::time_point synchronised_;
};

/// Throws what write_file would throw for a missing or forbidden folder, before hours of work go into the text.
void require_writable(const std::filesystem::path& path);

class NewFolder {
public:
  /// `may_hold`: the files (relative paths, patterns of fnmatch) that a folder to be replaced may hold. A folder with
  /// anything else in it is refused, because replacing it would delete somebody's file.
  NewFolder(const std::filesystem::path& target, const std::vector<std::string>& may_hold);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void write(const std::string& relative, std::string_view text);
  void publish();

private:
  std::filesystem::path target_, beside_;
};

} // namespace fa1::reports
