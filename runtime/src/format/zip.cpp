// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Headers are made by one set of functions, which both the writer and `checkCanonical` use. Sizes
// and offsets of 4 GiB and more take the zip64 form.

#include "format/zip.h"
#include "format/hash.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

constexpr uint32_t localSignature = 0x04034b50, centralSignature = 0x02014b50;
constexpr uint32_t endSignature = 0x06054b50, end64Signature = 0x06064b50;
constexpr uint32_t locatorSignature = 0x07064b50;
constexpr uint64_t limit32 = 0xffffffff;
constexpr uint16_t zip64Extra = 1, paddingExtra = 0xd935;
constexpr uint16_t dosDate = 0x0021; // 1980-01-01: no clock in a package

/// Appends little-endian fields.
/// Independent of the machine's byte order and of padding in structs.
struct Bytes {
  std::string text;
  Bytes &u16(uint64_t value) { return put(value, 2); }
  Bytes &u32(uint64_t value) { return put(value, 4); }
  Bytes &u64(uint64_t value) { return put(value, 8); }
  Bytes &put(uint64_t value, int count) {
    for (int i = 0; i < count; ++i, value >>= 8)
      text += static_cast<char>(value & 255);
    return *this;
  }
};

uint64_t load(const unsigned char *bytes, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | bytes[i];
  return value;
}

/// Sizes of 32 bits with all ones mean "see the zip64 field".
bool isLarge(const ZipEntry &entry) { return entry.size >= limit32; }

/// The same for the writer and for checkCanonical: what it depends on is in the entry.
std::string localHeader(const ZipEntry &entry) {
  Bytes extra;
  if (isLarge(entry))
    extra.u16(zip64Extra).u16(16).u64(entry.size).u64(entry.size);
  // Content begins at a multiple of the alignment, so that arrays are used where the file is
  // mapped; a field of our own, which other readers skip, fills up.
  uint64_t bare = entry.headerOffset + 30 + entry.name.size() + extra.text.size();
  uint64_t padding = (ZipWriter::alignment - bare % ZipWriter::alignment) % ZipWriter::alignment;
  // A field has four bytes of its own: shorter gaps cannot be filled.
  if (padding && padding < 4)
    padding += ZipWriter::alignment;
  if (padding)
    extra.u16(paddingExtra).u16(padding - 4).text.append(padding - 4, '\0');
  Bytes header;
  // Flag 0x0800: names are UTF-8. Method 0: stored. No time of day, for equal bytes from equal
  // input.
  header.u32(localSignature).u16(isLarge(entry) ? 45 : 20).u16(0x0800).u16(0).u16(0).u16(dosDate);
  header.u32(entry.crc).u32(std::min(entry.size, limit32)).u32(std::min(entry.size, limit32));
  header.u16(entry.name.size()).u16(extra.text.size());
  return header.text + entry.name + extra.text;
}

std::string centralHeader(const ZipEntry &entry) {
  Bytes extra;
  // The order within the field is fixed by the format: both sizes, then the offset; only those that
  // are all ones in the header.
  bool far = entry.headerOffset >= limit32;
  if (isLarge(entry) || far) {
    extra.u16(zip64Extra).u16((isLarge(entry) ? 16 : 0) + (far ? 8 : 0));
    if (isLarge(entry))
      extra.u64(entry.size).u64(entry.size);
    if (far)
      extra.u64(entry.headerOffset);
  }
  uint16_t version = extra.text.empty() ? 20 : 45;
  Bytes header;
  header.u32(centralSignature).u16(version).u16(version).u16(0x0800).u16(0).u16(0).u16(dosDate);
  header.u32(entry.crc).u32(std::min(entry.size, limit32)).u32(std::min(entry.size, limit32));
  header.u16(entry.name.size()).u16(extra.text.size()).u16(0).u16(0).u16(0).u32(0);
  header.u32(std::min(entry.headerOffset, limit32));
  return header.text + entry.name + extra.text;
}

std::string endRecords(uint64_t directory, uint64_t size, uint64_t count) {
  Bytes end;
  // Only where a number does not fit into the short record, whose fields then have all bits set.
  if (directory >= limit32 || size >= limit32 || count >= 0xffff) {
    end.u32(end64Signature).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count);
    end.u64(size).u64(directory);
    end.u32(locatorSignature).u32(0).u64(directory + size).u32(1);
  }
  uint64_t shortCount = std::min<uint64_t>(count, 0xffff);
  end.u32(endSignature).u16(0).u16(0).u16(shortCount).u16(shortCount);
  end.u32(std::min(size, limit32)).u32(std::min(directory, limit32)).u16(0);
  return end.text;
}

} // namespace

Status ZipReader::open(std::shared_ptr<const MappedFile> mapped, ZipReader &reader) {
  const std::string &path = mapped->path();
  const unsigned char *bytes = mapped->data();
  uint64_t size = mapped->size();
  auto bad = [&](const auto &...what) {
    return fail(Code::BadData, "'", path, "': not a readable zip file: ", what...);
  };

  // The end record is at the very end unless there is a comment of up to 64 KiB behind it.
  // The file is hostile: every offset and count is compared with what there is before it is used,
  // in subtractions that cannot wrap.
  if (size < 22)
    return bad("it has ", size, " bytes only");
  uint64_t end = size - 22, lowest = end > 0xffff ? end - 0xffff : 0;
  // The comment's length must reach exactly to the end: a signature within a comment does not fool
  // it.
  while (!(load(bytes + end, 4) == endSignature && end + 22 + load(bytes + end + 20, 2) == size)) {
    if (end == lowest)
      return bad("no end-of-directory record, the file is truncated or damaged");
    --end;
  }
  uint64_t count = load(bytes + end + 10, 2), length = load(bytes + end + 12, 4);
  uint64_t directory = load(bytes + end + 16, 4);
  if (load(bytes + end + 4, 2) != 0 || load(bytes + end + 8, 2) != count)
    return bad("it is split over several volumes");
  if ((count == 0xffff || length == limit32 || directory == limit32) && end >= 20 &&
      load(bytes + end - 20, 4) == locatorSignature) {
    uint64_t end64 = load(bytes + end - 12, 8);
    if (end64 > size || size - end64 < 56 || load(bytes + end64, 4) != end64Signature)
      return bad("the zip64 end-of-directory record is damaged");
    count = load(bytes + end64 + 32, 8);
    length = load(bytes + end64 + 40, 8);
    directory = load(bytes + end64 + 48, 8);
  }
  // The directory ends before the end record; entries are compared with the file's size below.
  if (directory > end || length > end - directory)
    return bad("the directory lies outside of the file");
  // 46 bytes is the shortest entry: bounds the loop, and what it allocates, by the file's size.
  if (count > length / 46)
    return bad("the directory is too short for ", count, " entries");

  std::vector<ZipEntry> entries;
  const unsigned char *at = bytes + directory, *stop = at + length;
  for (uint64_t i = 0; i < count; ++i) {
    if (stop - at < 46 || load(at, 4) != centralSignature)
      return bad("directory entry ", i, " is damaged");
    uint64_t nameSize = load(at + 28, 2), extraSize = load(at + 30, 2);
    uint64_t commentSize = load(at + 32, 2);
    if (static_cast<uint64_t>(stop - at) < 46 + nameSize + extraSize + commentSize)
      return bad("directory entry ", i, " is damaged");
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char *>(at + 46), nameSize);
    entry.method = static_cast<uint16_t>(load(at + 10, 2));
    entry.crc = static_cast<uint32_t>(load(at + 16, 4));
    entry.packedSize = load(at + 20, 4);
    entry.size = load(at + 24, 4);
    entry.headerOffset = load(at + 42, 4);
    if (load(at + 8, 2) & 1)
      return bad("entry '", entry.name, "' is encrypted");
    const unsigned char *extra = at + 46 + nameSize, *extraEnd = extra + extraSize;
    while (extraEnd - extra >= 4) {
      uint64_t id = load(extra, 2), bytesLeft = load(extra + 2, 2);
      extra += 4;
      if (bytesLeft > static_cast<uint64_t>(extraEnd - extra))
        return bad("entry '", entry.name, "': extra field out of bounds");
      const unsigned char *field = extra;
      extra += bytesLeft;
      // Other extra fields (times, our padding) say nothing that is needed.
      if (id != zip64Extra)
        continue;
      for (uint64_t *value : {&entry.size, &entry.packedSize, &entry.headerOffset})
        if (*value == limit32) {
          if (bytesLeft < 8)
            return bad("entry '", entry.name, "': zip64 field too short");
          *value = load(field, 8);
          field += 8;
          bytesLeft -= 8;
        }
    }
    at += 46 + nameSize + extraSize + commentSize;

    if (entry.headerOffset > size || size - entry.headerOffset < 30 ||
        load(bytes + entry.headerOffset, 4) != localSignature)
      return bad("entry '", entry.name, "': no local header where the directory says");
    // The directory counts; of the local header, whose extra field may be another, only lengths and
    // the name are used.
    const unsigned char *local = bytes + entry.headerOffset;
    uint64_t localName = load(local + 26, 2);
    entry.offset = entry.headerOffset + 30 + localName + load(local + 28, 2);
    if (entry.offset > size || entry.packedSize > size - entry.offset)
      return bad("entry '", entry.name, "': content of ", entry.packedSize,
                 " bytes lies outside of the file of ", size);
    // A reader that goes by local headers would find another file in the same zip.
    if (localName != nameSize || std::memcmp(local + 30, entry.name.data(), nameSize) != 0)
      return bad("entry '", entry.name, "': its local header has another name");
    if (entry.method == 0 && entry.packedSize != entry.size)
      return bad("entry '", entry.name, "': stored, but its two sizes differ");
    // Names become C strings in places: two of them could look alike.
    if (entry.name.find('\0') != std::string::npos)
      return bad("entry ", i, ": zero byte in its name");
    entries.push_back(std::move(entry));
  }
  // Names of a file are unique: which of two would be found is not to be guessed.
  std::vector<std::string_view> names(entries.size());
  for (size_t i = 0; i < entries.size(); ++i)
    names[i] = entries[i].name;
  std::sort(names.begin(), names.end());
  auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end())
    return bad("entry '", *twin, "' is there twice");
  reader.file = std::move(mapped);
  reader.list = std::move(entries);
  return {};
}

const ZipEntry *ZipReader::find(std::string_view name) const {
  for (const ZipEntry &entry : list)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

Status ZipReader::checkCrc(const ZipEntry &entry) const {
  if (entry.method == 0 && crc32(data(entry), entry.size) != entry.crc)
    return fail(Code::BadData, "'", file->path(), "': entry '", entry.name,
                "' is damaged (its CRC-32 differs)");
  return {};
  /// Compressed entries are compared when they are unpacked.
}

/// The file is exactly what ZipWriter would write for these entries: no byte outside of entries, no
/// header that says other than the directory.
Status ZipReader::checkCanonical() const {
  auto same = [&](uint64_t offset, const std::string &expected) {
    return offset <= file->size() && expected.size() <= file->size() - offset &&
           std::memcmp(file->data() + offset, expected.data(), expected.size()) == 0;
  };
  auto bad = [&](const auto &...what) {
    return fail(Code::BadData, "'", file->path(), "': ", what...);
  };
  // Entries lie one behind the other from the beginning, in the directory's order.
  uint64_t at = 0;
  for (const ZipEntry &entry : list) {
    std::string header = entry.headerOffset == at ? localHeader(entry) : std::string();
    if (header.empty() || entry.method != 0 || !same(at, header) ||
        entry.offset != at + header.size())
      return bad("entry '", entry.name, "' is damaged (its zip header was changed)");
    at = entry.offset + entry.size;
  }
  uint64_t directory = at;
  for (const ZipEntry &entry : list) {
    std::string header = centralHeader(entry);
    if (!same(at, header))
      return bad("entry '", entry.name, "' is damaged (its zip directory entry was changed)");
    at += header.size();
  }
  std::string end = endRecords(directory, at - directory, list.size());
  if (!same(at, end) || at + end.size() != file->size())
    return bad("the zip directory's end record is damaged");
  return {};
}

Status ZipWriter::create(const std::string &path) { return file.create(path); }

Status ZipWriter::add(std::string_view name, const void *data, uint64_t size) {
  TRAINRT_TRY(begin(name, size));
  TRAINRT_TRY(append(data, size));
  return end();
}

/// One entry at a time: begin, any number of appends, end. Its size is stated first, since headers
/// come before the content.
Status ZipWriter::begin(std::string_view name, uint64_t size) {
  ZipEntry entry;
  entry.name = name;
  entry.size = entry.packedSize = size;
  entry.headerOffset = file.position();
  assert((list.empty() || written == list.back().size) && "the entry before is complete");
  // The CRC is not known yet; `end` writes the header again.
  std::string header = localHeader(entry);
  entry.offset = entry.headerOffset + header.size();
  list.push_back(std::move(entry));
  written = 0;
  return file.write(header.data(), header.size());
}

Status ZipWriter::append(const void *data, uint64_t size) {
  ZipEntry &entry = list.back();
  if (size > entry.size - written)
    return fail(Code::Internal, "zip entry '", entry.name, "': more than its ", entry.size,
                " bytes");
  // Of pieces in a row, as of the whole.
  entry.crc = crc32(data, size, entry.crc);
  written += size;
  return file.write(data, size);
}

Status ZipWriter::end() {
  const ZipEntry &entry = list.back();
  if (written != entry.size)
    return fail(Code::Internal, "zip entry '", entry.name, "': ", written, " bytes of ",
                entry.size);
  // The same length as before: only the CRC differs.
  std::string header = localHeader(entry);
  return file.writeAt(entry.headerOffset, header.data(), header.size());
}

/// The directory comes last; before it is there the file is no zip, and it has a temporary name
/// until commit.
Status ZipWriter::finish() {
  uint64_t directory = file.position();
  std::string text;
  for (const ZipEntry &entry : list)
    text += centralHeader(entry);
  text += endRecords(directory, text.size(), list.size());
  TRAINRT_TRY(file.write(text.data(), text.size()));
  return file.commit();
}

} // namespace trainrt
