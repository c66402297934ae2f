// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Zip files. The writer makes packages: stored entries, 64-byte aligned, every byte a function of
// the names and contents. So the reader can check a package down to its last header byte
// (`checkCanonical`), while for other zip files (npz) it checks the structure only.
#ifndef TRAINRT_FORMAT_ZIP_H
#define TRAINRT_FORMAT_ZIP_H

#include "format/file.h"
#include "format/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

struct ZipEntry {
  std::string name;
  /// Of the local header and of the content, from the beginning of the file.
  uint64_t headerOffset = 0;
  uint64_t offset = 0;
  /// Bytes in the file, and after unpacking; equal if stored.
  uint64_t packedSize = 0;
  uint64_t size = 0;
  uint32_t crc = 0;
  /// 0 stored, 8 deflated.
  uint16_t method = 0;
};

/// The directory of a mapped zip file. Every offset has been checked to be within the file.
class ZipReader {
public:
  /// Errors are BadData and name the file, and the entry where there is one.
  static Status open(std::shared_ptr<const MappedFile> file, ZipReader &reader);

  const std::vector<ZipEntry> &entries() const { return list; }
  /// Null if there is none.
  const ZipEntry *find(std::string_view name) const;
  /// The packed bytes, `entry.packedSize` of them.
  const unsigned char *data(const ZipEntry &entry) const { return file->data() + entry.offset; }
  const std::shared_ptr<const MappedFile> &mapping() const { return file; }

  /// Compares a stored entry's content with its CRC.
  Status checkCrc(const ZipEntry &entry) const;
  /// Compares every byte outside of the contents with what `ZipWriter` would have written.
  Status checkCanonical() const;

private:
  std::shared_ptr<const MappedFile> file;
  std::vector<ZipEntry> list;
};

/// Writes a zip file of stored entries; the file appears under its name with `finish`.
class ZipWriter {
public:
  /// Alignment of every entry's content in the file, in bytes.
  static constexpr uint64_t alignment = 64;

  Status create(const std::string &path);
  /// The file's name until `finish`.
  const std::string &temporaryPath() const { return file.temporaryPath(); }
  /// One entry in one piece.
  Status add(std::string_view name, const void *data, uint64_t size);
  /// One entry in pieces of `size` bytes in all: `begin`, `append`..., `end`.
  Status begin(std::string_view name, uint64_t size);
  Status append(const void *data, uint64_t size);
  Status end();
  /// Writes the directory; syncs and renames.
  Status finish();

private:
  AtomicFile file;
  std::vector<ZipEntry> list;
  uint64_t written = 0;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_ZIP_H
