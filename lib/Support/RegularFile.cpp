// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of the command line.

#include "trainc/Support/RegularFile.h"
#include "llvm/Support/FileSystem.h"

namespace fs = llvm::sys::fs;

static std::string describe(llvm::StringRef path, llvm::StringRef reason) {
  return ("cannot read '" + path + "': " + reason).str();
}

/// Empty if it can be read.
std::string trainc::checkRegularFile(llvm::StringRef path) {
  fs::file_status status;
  if (std::error_code code = fs::status(path, status))
    return describe(path, code.message());
  if (fs::is_regular_file(status))
    return {};
  return describe(path, fs::is_directory(status) ? "it is a folder" : "it is not a regular file");
}

std::unique_ptr<llvm::MemoryBuffer> trainc::readRegularFile(llvm::StringRef path,
                                                            std::string &problem) {
  problem = checkRegularFile(path);
  if (!problem.empty())
    return nullptr;
  // Mapped where that is possible.
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (buffer)
    return std::move(*buffer);
  problem = describe(path, buffer.getError().message());
  return nullptr;
}
