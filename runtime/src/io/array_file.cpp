// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A zip begins with "PK"; a safetensors file with a length whose following byte opens a JSON
// object.

#include "io/array_file.h"

#include <cstring>
#include <new>

namespace trainrt {

/// `result` changes only where it succeeds.
Status ArrayFile::open(const std::string &path, ArrayFile &result) {
  std::shared_ptr<const MappedFile> file;
  TRAINRT_TRY(MappedFile::open(path, file));
  ArrayFile opened;
  opened.file = file;
  // By content, not by the file's name: names of downloaded data often have no ending.
  if (file->size() >= 4 && std::memcmp(file->data(), "PK", 2) == 0) {
    TRAINRT_TRY(NpzReader::open(file, opened.reader.emplace<NpzReader>()));
  } else if (file->size() >= 9 && file->data()[8] == '{') {
    TRAINRT_TRY(SafetensorsReader::open(file, opened.reader.emplace<SafetensorsReader>()));
  } else {
    return fail(Code::BadData, "'", path,
                "' is neither a .npz nor a .safetensors file; write it with numpy.savez or "
                "safetensors");
  }
  // One slot for each array, so that copies which have been handed out stay where they are.
  opened.aligned.resize(opened.size());
  result = std::move(opened);
  return {};
}

size_t ArrayFile::size() const {
  if (auto *npz = std::get_if<NpzReader>(&reader))
    return npz->size();
  return std::get<SafetensorsReader>(reader).entries().size();
}

const std::string &ArrayFile::name(size_t index) const {
  if (auto *npz = std::get_if<NpzReader>(&reader))
    return npz->name(index);
  return std::get<SafetensorsReader>(reader).entries()[index].name;
}

/// The first of that name, -1 without one.
int64_t ArrayFile::find(std::string_view wanted) const {
  for (size_t i = 0; i < size(); ++i)
    if (name(i) == wanted)
      return int64_t(i);
  return -1;
}

/// `mapped` tells whether the bytes are the file's: such pages can be given back to the system.
Status ArrayFile::arrayInPlace(size_t index, ArrayView &array, bool *mapped) {
  if (auto *npz = std::get_if<NpzReader>(&reader))
    TRAINRT_TRY(npz->array(index, array));
  else
    array = std::get<SafetensorsReader>(reader).entries()[index].array;
  // By address: what an archive has packed lies elsewhere.
  auto *bytes = static_cast<const unsigned char *>(array.data);
  if (mapped)
    *mapped = bytes >= file->data() && bytes < file->data() + file->size();
  return {};
}

/// Valid as long as the file is open. One thread at a time: copies are made when they are asked
/// for, once.
Status ArrayFile::array(size_t index, ArrayView &array, bool *mapped) {
  TRAINRT_TRY(arrayInPlace(index, array, mapped));
  // safetensors does not align its arrays; loops over elements may use aligned loads.
  if (reinterpret_cast<uintptr_t>(array.data) % sizeOf(array.dtype) != 0) {
    if (!aligned[index]) {
      // Of 8-byte words: aligned for every type.
      size_t words = (size_t(array.bytes) + 7) / 8;
      // Sizes come from the file: too large a one is an error that names the array, not an
      // exception.
      aligned[index].reset(new (std::nothrow) uint64_t[words]);
      if (!aligned[index])
        return fail(Code::OutOfMemory, "'", file->path(), "': array '", name(index),
                    "': no memory for its ", array.bytes, " bytes");
      std::memcpy(aligned[index].get(), array.data, size_t(array.bytes));
    }
    array.data = aligned[index].get();
    if (mapped)
      *mapped = false;
  }
  return {};
}

} // namespace trainrt
