// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The package's kernels on one GPU: the cubins that match it, or the PTX compiled by the driver.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_H

#include "device/cuda/context.h"
#include "plan/package.h"

#include <map>
#include <string>
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
    /// What launches may use of shared memory by now.
    int64_t sharedLimit = 48 << 10;
    /// Whether it waits by itself for what is in front of it: it may begin while that ends.
    bool waits = false;
  };
  const Function &function(uint32_t index) const { return functions[index]; }
  /// Of a plug-in: no handle where it is no kernel.
  Function &external(uint32_t index) { return externals[index]; }
  /// The functions in C of plug-ins; null: there are none.
  const ExternalFunctions *externalCalls() const { return calls.get(); }
  const Driver &driver() const { return context.driver(); }
  /// The kind of machine that choices among kernels are valid for.
  const std::string &machine() const { return machineName; }
  /// The number of the kernel that tuning has chosen under this key; `otherwise` without a choice.
  uint32_t chosen(const std::string &key, uint32_t otherwise) const;
  /// Lets launches ask for `bytes` of dynamic shared memory.
  Status allowShared(Function &function, int64_t bytes);
  Status allowShared(uint32_t index, int64_t bytes) { return allowShared(functions[index], bytes); }

private:
  explicit Kernels(const Context &context) : context(context) {}
  Status readChoices(const Package &package);
  Status loadModule(const Package &package, const ZipEntry &entry);
  Status loadModules(const Package &package, const std::string &cubinPrefix,
                     const std::string &ptxName, int &architecture);
  Status find(const std::string &name, size_t firstModule, Function &function);
  Status loadExternals(const Package &package);

  const Context &context;
  struct Module {
    CUmodule handle;
    /// What it was loaded from, while kernels are looked for.
    std::string image;
  };
  std::vector<Module> modules;
  std::vector<Function> functions, externals;
  std::shared_ptr<const ExternalFunctions> calls;
  std::string machineName;
  std::map<std::string, uint32_t> choices;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_H
