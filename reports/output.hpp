/// Writing so that nothing half done is ever seen.
///
/// write_file     writes beside the file, then renames: the old file or the new one, never a part. What is no regular
///                file (/dev/stdout) is written directly.
/// NewFolder      a folder filled beside the one it replaces, then put in its place by one rename; without publish() it
///                is deleted and the folder stays as it was
/// Errors         UsageError: the path, and why it cannot be written
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reports {

void write_file(const std::filesystem::path& path, std::string_view text);

/// Throws what write_file would throw for a missing or forbidden folder, before hours of work go into the text.
void require_writable(const std::filesystem::path& path);

class NewFolder {
public:
  /// `may_hold`: the files (relative paths) that a folder to be replaced may hold. A folder with anything else in it is
  /// refused, because replacing it would delete somebody's file.
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
