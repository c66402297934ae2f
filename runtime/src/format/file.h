// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files: a read-only mapping, a writer that appears under its name only when it is complete, and
// the rule which file names a package may refer to.
#ifndef TRAINRT_FORMAT_FILE_H
#define TRAINRT_FORMAT_FILE_H

#include "format/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trainrt {

/// A whole file, mapped read-only (private). Shared by everything that points into it.
class MappedFile {
public:
  /// NotFound or IoError, naming the path.
  static Status open(const std::string &path, std::shared_ptr<const MappedFile> &file);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const unsigned char *data() const { return bytes; }
  uint64_t size() const { return length; }
  const std::string &path() const { return name; }
  /// The pages of these bytes leave memory until they are read again.
  void evict(const void *begin, uint64_t size) const;

private:
  MappedFile() = default;
  const unsigned char *bytes = nullptr;
  uint64_t length = 0;
  std::string name;
};

/// Writes `path` under a temporary name beside it; `commit` syncs and renames. Without a commit the
/// temporary file is removed, and what killed processes left of this file by the next `create`:
/// readers see the old file or the new one, never a part.
class AtomicFile {
public:
  AtomicFile() = default;
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// IoError also where `path` is there and no regular file.
  Status create(const std::string &path);
  /// Appends.
  Status write(const void *data, uint64_t size);
  /// Replaces bytes that were written before.
  Status writeAt(uint64_t offset, const void *data, uint64_t size);
  uint64_t position() const { return offset; }
  /// The name until `commit`.
  const std::string &temporaryPath() const { return temporary; }
  /// All that was written is on disk.
  Status sync();
  /// sync, rename, fsync of the folder.
  Status commit();

private:
  int descriptor = -1;
  uint64_t offset = 0;
  std::string target;
  std::string temporary;
};

/// A file of a known size that several processes write, each other bytes of it. It is there from
/// its beginning on: the folder that it is in gets its name when all is complete.
class SharedFile {
public:
  SharedFile() = default;
  ~SharedFile();
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;

  /// A new file. IoError also where the disk has no room for `bytes`, as far as it can say so.
  Status create(const std::string &path, uint64_t bytes);
  /// One that another process has created. NotFound or IoError where it is not what that one made.
  Status open(const std::string &path, uint64_t bytes);
  Status writeAt(uint64_t offset, const void *data, uint64_t size);
  /// All that this process has written is on disk.
  Status sync();

private:
  int descriptor = -1;
  std::string name;
};

/// The whole content of a file at once, in an AtomicFile's way.
Status writeFile(const std::string &path, std::string_view content);

/// fsync of a folder, so that renames in it are durable.
Status syncDirectory(const std::string &path);

/// The folder part of `path` with its trailing slash; "" if it has none.
std::string directoryOf(const std::string &path);

/// Whether a package may refer to a file beside it by `path`: not empty, not absolute, no zero
/// byte. It may lead out of the package's folder ("../models/model.onnx").
bool isRelativePath(std::string_view path);

} // namespace trainrt

#endif // TRAINRT_FORMAT_FILE_H
