// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External data: which file a weight is in, whether it may be used, and its bytes. A model may only
// name files inside its own folder, whatever its symbolic links say.

#ifndef TRAINC_LIB_IMPORT_ONNX_WEIGHTFILES_H
#define TRAINC_LIB_IMPORT_ONNX_WEIGHTFILES_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstdint>
#include <memory>
#include <string>

namespace trainc::detail {

/// One file of external data, looked at once.
struct WeightFile {
  std::string path;  // to open it
  std::string error; // why it may not be used; "" if it may
  bool absent = false;
  uint64_t size = 0; // bytes
  bool warned = false;
  std::unique_ptr<llvm::MemoryBuffer> mapped;
};

class WeightFiles {
public:
  explicit WeightFiles(llvm::StringRef folder);
  /// The file that `location` (relative to the model's folder) names.
  WeightFile &find(llvm::StringRef location);
  /// `length` bytes at `offset`, mapped; empty with `file.error` set when reading fails.
  static llvm::StringRef read(WeightFile &file, uint64_t offset, uint64_t length);

private:
  WeightFile inspect(llvm::StringRef location);
  std::string folder;
  std::string realFolder;
  llvm::StringMap<WeightFile> files;
};

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_WEIGHTFILES_H
