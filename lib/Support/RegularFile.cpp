// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of the command line.

#include "lib/Support/RegularFile.h"
#include "llvm/Support/FileSystem.h"

namespace fs = llvm::sys::fs;

std::unique_ptr<llvm::MemoryBuffer> trainc::readRegularFile(llvm::StringRef path,
                                                            std::string &problem) {
  auto fail = [&](const std::string &reason) {
    problem = "cannot read '" + path.str() + "': " + reason;
    return nullptr;
  };
  fs::file_status status;
  if (std::error_code code = fs::status(path, status))
    return fail(code.message());
  if (!fs::is_regular_file(status))
    return fail(fs::is_directory(status) ? "it is a folder" : "it is not a regular file");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(buffer.getError().message());
  return std::move(*buffer);
}
