// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The package's kernels on one GPU: the cubins that match it, or the PTX compiled by the driver.
#ifndef TRAINRT_CUDA_KERNELS_H
#define TRAINRT_CUDA_KERNELS_H

#include "core/package.h"
#include "cuda/context.h"

#include <vector>

namespace trainrt::cuda {

class Kernels {
public:
  /// The context is current. BadPackage names the package's architectures and the device's.
  static Status load(const Context &context, const Package &package,
                     std::unique_ptr<Kernels> &kernels);
  /// The context is current.
  ~Kernels();
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;

  struct Function {
    CUfunction handle = nullptr;
    int maxThreads = 0;
  };
  const Function &function(uint32_t index) const { return functions[index]; }
  /// Lets launches ask for `bytes` of dynamic shared memory.
  Status allowShared(uint32_t index, int64_t bytes);

private:
  explicit Kernels(const Context &context) : context(context) {}
  Status loadModule(const Package &package, const ZipEntry &entry);

  const Context &context;
  std::vector<CUmodule> modules;
  std::vector<Function> functions;
  std::vector<int64_t> sharedLimits;
};

} // namespace trainrt::cuda

#endif // TRAINRT_CUDA_KERNELS_H
