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
  if (fs::status(path, status)) { // not there
    StringRef folder = path::parent_path(path);
    if (path.empty() || fs::status(folder.empty() ? "." : folder, status))
      return false;
    file.name = path::filename(path).str();
  } else if (!fs::is_regular_file(status)) {
    return false;
  }
  file.device = status.getUniqueID().getDevice();
  file.node = status.getUniqueID().getFile();
  return true;
}

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
  auto known = llvm::find_if(files, [&](const File &other) {
    return other.device == file.device && other.node == file.node && other.name == file.name;
  });
  if (known == files.end()) {
    files.push_back(std::move(file));
    return {};
  }
  std::string where = known->path == file.path ? "" : " ('" + known->path + "')";
  return (option + " would overwrite '" + path + "': it is " +
          (known->option.empty() ? known->role + where + ", which is read"
                                 : "what " + known->option + " writes" + where) +
          "; name another file")
      .str();
}
