// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU kernels: a shared object out of the package.
#ifndef TRAINRT_PLAN_KERNELS_H
#define TRAINRT_PLAN_KERNELS_H

#include "plan/shared_object.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainrt {

/// The kernel ABI of docs/design/package.md.
struct KernelContext {
  void *scratch;
  int64_t *error;
};
using KernelFunction = void (*)(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                                const KernelContext *context);

/// Instruction set levels that packages have kernels for, best first; null-terminated names.
extern const char *const cpuLevels[];
/// Whether this machine runs code of `level` ("x86-64-v3").
bool cpuSupports(const std::string &level);
/// What this machine is, and the way out where a package has no kernels for it: goes on from "this
/// CPU".
std::string describeCpu();

class KernelLibrary {
public:
  /// Loads the shared object in memory and looks up `names`. Errors are BadPackage, without the
  /// entry's name.
  static Status load(const void *data, uint64_t size, const std::vector<std::string> &names,
                     std::unique_ptr<KernelLibrary> &library);
  KernelFunction kernel(uint32_t index) const { return functions[index]; }

private:
  KernelLibrary() = default;
  SharedObject object;
  std::vector<KernelFunction> functions;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_KERNELS_H
