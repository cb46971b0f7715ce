/// NumPy's .npz: a zip archive of .npy files, stored or deflated.
///
/// NpzFile    the names of the members, without their .npy; array() unpacks one of them
/// Refuses    members that are encrypted or packed in another way, a name twice, members longer than their npy
///            header says (that is what a zip bomb is here) or than deflate can make of their packed bytes, more
///            than 65536 members, more than 64 GiB. Names are labels: nothing is written anywhere, whatever path
///            they hold
/// Checks     the CRC-32 of what was unpacked
/// Errors     FileError
/// Memory     1 MiB, and up to 16 for a member; a longer one is unpacked into a file without a name (ScratchSource)
#pragma once

#include "reference/files/array.hpp"

#include <memory>
#include <string>
#include <vector>

namespace fa1::reference {

class NpzFile {
public:
  /// The file must begin like a zip archive.
  explicit NpzFile(std::shared_ptr<const FileSource> file);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  /// In the order of the archive.
  std::vector<std::string> names() const;
  Array array(const std::string& name) const;

private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
};

} // namespace fa1::reference
