// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One process at a time writes into a folder: a lock on the file ".lock" in it, which says who
// holds it. The system gives it back when its process dies, however it does.
#ifndef TRAINRT_IO_FOLDER_LOCK_H
#define TRAINRT_IO_FOLDER_LOCK_H

#include "format/status.h"

#include <string>

namespace trainrt {

class FolderLock {
public:
  /// How long it is held: for one write, which others wait for, or as long as a run lasts.
  enum class Purpose { Write, Run };

  FolderLock() = default;
  ~FolderLock() { release(); }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

  /// Makes `folder` where it is absent, and takes it away again if nothing is in it at the end.
  /// IoError names the process that holds it. Where the file system has no locks, `unlocked` says
  /// why.
  Status take(const std::string &folder, Purpose purpose, std::string &unlocked);
  void release();
  /// Whether it is held on `folder`, under whatever name.
  bool holds(const std::string &folder) const;

private:
  std::string folder, path;
  int descriptor = -1;
  bool isNew = false; ///< the folder
};

} // namespace trainrt

#endif // TRAINRT_IO_FOLDER_LOCK_H
