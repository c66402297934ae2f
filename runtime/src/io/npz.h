// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// numpy's .npz: a zip of .npy files, stored or deflated. An array that cannot be used (objects,
// strings, big endian, Fortran order) is an error only when it is asked for, with the numpy call
// that mends it.
#ifndef TRAINRT_IO_NPZ_H
#define TRAINRT_IO_NPZ_H

#include "format/dtype.h"
#include "format/status.h"
#include "format/zip.h"

#include <memory>
#include <string>
#include <vector>

namespace trainrt {

/// The header of a .npy file in memory. `dataOffset`: where the array begins. Errors are BadData
/// and do not name the file.
Status parseNpyHeader(const unsigned char *data, uint64_t size, ArrayView &array,
                      uint64_t &dataOffset);

class NpzReader {
public:
  static Status open(std::shared_ptr<const MappedFile> file, NpzReader &reader);

  size_t size() const { return names.size(); }
  /// Without ".npy".
  const std::string &name(size_t index) const { return names[index]; }
  /// Checks and, where deflated, unpacks the array; the result lives as long as the reader.
  Status array(size_t index, ArrayView &array);

private:
  ZipReader zip;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<unsigned char[]>> unpacked;
  std::vector<bool> checked;
};

} // namespace trainrt

#endif // TRAINRT_IO_NPZ_H
