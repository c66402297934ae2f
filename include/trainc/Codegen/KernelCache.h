// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled code that later compilations find again.
#ifndef TRAINC_CODEGEN_KERNELCACHE_H
#define TRAINC_CODEGEN_KERNELCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace trainc::codegen {

/// Code on disk, found by the hash of all that it was made from, this compiler included. Entries
/// appear whole or not at all, are checked when they are read, and any number of processes share a
/// folder. Those not used for longest go when the folder is above its limit.
class KernelCache {
public:
  /// Folder "": keeps and finds nothing. `limit`: bytes that the folder may hold.
  explicit KernelCache(llvm::StringRef folder, uint64_t limit = uint64_t(2) << 30)
      : folder(folder), limit(limit) {}
  /// Removes what is above the limit.
  ~KernelCache();
  KernelCache(const KernelCache &) = delete;
  KernelCache &operator=(const KernelCache &) = delete;

  /// What was kept for `parts`, which say all that the result depends on. Else what `make` returns,
  /// which is kept unless it is empty: a failure. Safe on any thread.
  std::vector<char> get(llvm::ArrayRef<llvm::StringRef> parts,
                        llvm::function_ref<std::vector<char>()> make);
  /// Share of what was asked for that was found, 0 to 1.
  double getHitRate() const { return asked ? double(found) / double(asked) : 0; }
  /// Why something could not be kept; "": it could.
  std::string getProblem();

private:
  void keep(const std::string &path, const std::vector<char> &bytes);

  std::string folder, problem;
  uint64_t limit;
  std::mutex mutex;
  std::atomic<size_t> asked{0}, found{0};
  std::atomic<bool> grown{false};
};

/// What tells a file from another of that name: path, size and time of change.
std::string identifyFile(llvm::StringRef path);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_KERNELCACHE_H
