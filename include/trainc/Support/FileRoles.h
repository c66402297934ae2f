// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which files a program reads and which it writes: no file may be both.
#ifndef TRAINC_SUPPORT_FILEROLES_H
#define TRAINC_SUPPORT_FILEROLES_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace trainc {

/// Files by what they are, whatever path leads there: links, other spellings, files that are not
/// there yet. What is no regular file (a pipe, a device, a folder) may be anything.
class FileRoles {
public:
  /// `role` completes "it is ...": "the model".
  void reads(llvm::StringRef path, llvm::StringRef role);
  /// `option` is the option that names it. Returns why the file must not be written: it is one of
  /// those that are read or written already; "" if nothing is wrong.
  std::string writes(llvm::StringRef path, llvm::StringRef option);

private:
  struct File {
    std::string path;
    /// Of a file that is there; else its folder's, with the name in it.
    uint64_t device = 0, node = 0;
    std::string name;
    /// What it is read as, or which option writes it.
    std::string role, option;
  };
  static bool identify(llvm::StringRef path, File &file);

  std::vector<File> files;
};

} // namespace trainc

#endif // TRAINC_SUPPORT_FILEROLES_H
