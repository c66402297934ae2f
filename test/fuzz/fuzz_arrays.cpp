// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: a file of arrays (npz, safetensors, and the zip reader below npz). Whatever opens is
// read to its last byte.

#include "format/hash.h"
#include "io/array_file.h"
#include "scratch.h"

using namespace trainrt;
using namespace trainc::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = writeScratch("arrays", {reinterpret_cast<const char *>(data), size});
  ArrayFile file;
  if (Status status = ArrayFile::open(path, file); !status.ok()) {
    require(!status.message().empty(), "an error says something");
  } else {
    for (size_t i = 0; i < file.size(); ++i) {
      require(file.find(file.name(i)) >= 0, "a listed array is found");
      ArrayView array;
      bool mapped = false;
      if (!file.array(i, array, &mapped).ok())
        continue;
      int64_t elements = 1;
      for (int64_t extent : array.shape)
        elements *= extent;
      require(elements * int64_t(sizeOf(array.dtype)) == array.bytes, "shape and bytes agree");
      volatile uint32_t all = crc32(array.data, size_t(array.bytes));
      (void)all;
    }
  }
  std::shared_ptr<const MappedFile> mapping;
  ZipReader zip;
  if (MappedFile::open(path, mapping).ok() && ZipReader::open(mapping, zip).ok()) {
    (void)zip.checkCanonical();
    for (const ZipEntry &entry : zip.entries()) {
      require(zip.find(entry.name) != nullptr, "a listed entry is found");
      (void)zip.checkCrc(entry);
    }
  }
  return 0;
}
