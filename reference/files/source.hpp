/// Bytes that somebody else wrote, read range by range.
///
/// FileSource    a regular file. It is opened once and read with pread: nothing is mapped, so a file that
///               shrinks is an error and not a signal. Symbolic links are followed; what they lead to must be a
///               regular file. A FIFO is refused without waiting for its writer
/// ViewSource    bytes in memory that somebody else keeps; MemorySource keeps its own
/// ScratchSource bytes made here piece by piece, such as an unpacked member of an archive. Few stay in memory;
///               many lie in a file without a name in $TMPDIR, or in /var/tmp where that is not set (/tmp may be
///               memory): the system takes it back when the process ends, however it ends
/// Errors        FileError, one line: which file, what was found, what would be right
/// Threads       read() may be called by several at once, append() by one before the first read
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa1::reference {

class FileError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Source {
public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  virtual const std::string& name() const = 0; ///< what messages call it
  virtual std::uint64_t size() const = 0;      ///< bytes
  /// Fills `out` from `offset` on, or throws.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

class FileSource : public Source {
public:
  explicit FileSource(const std::string& path);
  ~FileSource() override;

  const std::string& name() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  /// The same open file for a library that reads it by itself; the caller closes it.
  int duplicate() const;

private:
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// Bytes in memory that somebody else keeps.
class ViewSource : public Source {
public:
  ViewSource(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

/// Bytes of its own.
class MemorySource : public ViewSource {
public:
  MemorySource(std::string name, std::vector<std::byte> bytes)
      : ViewSource(std::move(name), bytes), kept_(std::move(bytes)) {
  } // moved, they stay where they are

private:
  std::vector<std::byte> kept_;
};

class ScratchSource : public Source {
public:
  static constexpr std::uint64_t kInMemory = std::uint64_t{1} << 24; ///< bytes

  explicit ScratchSource(std::string name) : name_(std::move(name)) {}
  ~ScratchSource() override;

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  void append(std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

private:
  std::string name_;
  std::vector<std::byte> bytes_; ///< all of them, until fd_ has them
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

} // namespace fa1::reference
