// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named arrays of a .npz or a .safetensors file behind one interface, told apart by their content.
#ifndef TRAINRT_IO_ARRAY_FILE_H
#define TRAINRT_IO_ARRAY_FILE_H

#include "format/dtype.h"
#include "format/status.h"
#include "io/npz.h"
#include "io/safetensors.h"

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trainrt {

class ArrayFile {
public:
  /// Errors name the file (and the array).
  static Status open(const std::string &path, ArrayFile &file);

  size_t size() const;
  const std::string &name(size_t index) const;
  /// -1 if there is none.
  int64_t find(std::string_view name) const;
  /// Aligned to its elements; lives as long as this object, or as long as `mapping()` where
  /// `mapped` says so.
  Status array(size_t index, ArrayView &array, bool *mapped = nullptr);
  /// The same, but as it lies in the file, maybe less aligned.
  Status arrayInPlace(size_t index, ArrayView &array, bool *mapped = nullptr);
  const std::shared_ptr<const MappedFile> &mapping() const { return file; }

private:
  std::shared_ptr<const MappedFile> file;
  std::variant<SafetensorsReader, NpzReader> reader;
  std::vector<std::unique_ptr<uint64_t[]>> aligned;
};

} // namespace trainrt

#endif // TRAINRT_IO_ARRAY_FILE_H
