// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files are equal where device and inode are.

#include "trainc/Support/FileRoles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace trainc;
using llvm::StringRef;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

bool FileRoles::identify(StringRef path, File &file) {
  file.path = path.str();
  if (path == "-") // a standard stream
    return false;
  fs::file_status status;
  // A file that is not there yet is known by its folder and name.
  if (fs::status(path, status)) { // not there
    StringRef folder = path::parent_path(path);
    if (path.empty() || fs::status(folder.empty() ? "." : folder, status))
      return false;
    file.name = path::filename(path).str();
  } else if (!fs::is_regular_file(status)) {
    // Pipes and devices may be written to as often as anybody likes.
    return false;
  }
  file.device = status.getUniqueID().getDevice();
  file.node = status.getUniqueID().getFile();
  return true;
}

/// What cannot be identified cannot be overwritten either.
void FileRoles::reads(StringRef path, StringRef role) {
  File file;
  if (!identify(path, file))
    return;
  file.role = role.str();
  files.push_back(std::move(file));
}

std::string FileRoles::writes(StringRef path, StringRef option) {
  File file;
  if (!identify(path, file))
    return {};
  file.option = option.str();
  // Links and other spellings lead to the same file.
  auto known = llvm::find_if(files, [&](const File &other) {
    return other.device == file.device && other.node == file.node && other.name == file.name;
  });
  if (known == files.end()) {
    files.push_back(std::move(file));
    return {};
  }
  // How it was named before, if that was otherwise.
  std::string where = known->path == file.path ? "" : " ('" + known->path + "')";
  return (option + " would overwrite '" + path + "': it is " +
          (known->option.empty() ? known->role + where + ", which is read"
                                 : "what " + known->option + " writes" + where) +
          "; name another file")
      .str();
}
