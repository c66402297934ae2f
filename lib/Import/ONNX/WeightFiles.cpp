// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of external data files: relative, no "..", the real path inside the model's real folder.

#include "WeightFiles.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;
using llvm::SmallString;
using llvm::StringRef;

namespace trainc::detail {

WeightFiles::WeightFiles(StringRef folder) : folder(folder) {
  SmallString<256> real;
  // Without a real path the folder itself is compared.
  realFolder = fs::real_path(folder, real) ? folder.str() : std::string(real);
}

WeightFile &WeightFiles::find(StringRef location) {
  // The result is kept, errors included.
  auto [it, added] = files.try_emplace(location);
  if (added)
    it->second = inspect(location);
  return it->second;
}

/// True if the real path `file` is inside the real folder `folder`.
static bool isInside(StringRef file, StringRef folder) {
  // A prefix that ends between components.
  return file.consume_front(folder) && (folder.ends_with("/") || file.starts_with("/"));
}

WeightFile WeightFiles::inspect(StringRef location) {
  WeightFile file;
  // A name with a zero byte would be cut off by the system.
  if (location.empty() || location.contains('\0')) {
    file.error = "the external data has no location";
    return file;
  }
  if (path::is_absolute(location)) {
    file.error = "the external data location '" + location.str() +
                 "' is absolute; it has to be relative to the model's folder";
    return file;
  }
  // Any such part, even if the path stays inside in the end.
  for (auto part = path::begin(location), end = path::end(location); part != end; ++part)
    if (*part == "..") {
      file.error = "the external data location '" + location.str() +
                   "' leaves the model's folder; put the file beside the model and export it again";
      return file;
    }
  SmallString<256> full(folder);
  path::append(full, location);
  file.path = std::string(full);

  // A file that is not there is judged by its folder, so that a link cannot be completed later.
  SmallString<256> real;
  fs::file_status status;
  bool exists = !fs::status(full, status) && fs::exists(status);
  // Links are followed: what counts is where the bytes are.
  std::error_code failed = fs::real_path(exists ? StringRef(full) : path::parent_path(full), real);
  StringRef realFile = real;
  if (!failed && realFile != realFolder && !isInside(realFile, realFolder)) {
    file.error = "the external data location '" + location.str() +
                 "' is a symbolic link that leaves the model's folder; copy the file there";
    return file;
  }
  // Weights may come later, from another file.
  if (!exists) {
    file.absent = true;
    return file;
  }
  if (!fs::is_regular_file(status)) {
    file.error = "the external data location '" + location.str() + "' is not a regular file";
    return file;
  }
  assert(file.error.empty());
  file.size = status.getSize();
  return file;
}

StringRef WeightFiles::read(WeightFile &file, uint64_t offset, uint64_t length) {
  // Mapped once, for all weights in it.
  if (!file.mapped) {
    auto buffer = llvm::MemoryBuffer::getFile(file.path, /*IsText=*/false,
                                              /*RequiresNullTerminator=*/false);
    if (!buffer) {
      file.error = "cannot read '" + file.path + "': " + buffer.getError().message();
      return {};
    }
    file.mapped = std::move(*buffer);
  }
  StringRef bytes = file.mapped->getBuffer();
  // The size was taken before: a file may have shrunk since.
  if (offset > bytes.size() || length > bytes.size() - offset) {
    file.error = "'" + file.path + "' changed while it was read";
    return {};
  }
  return bytes.substr(offset, length);
}

} // namespace trainc::detail
