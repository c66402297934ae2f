// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver compiles their PTX for its GPU.

#include "device/cuda/kernels/embedded_kernels.h"
#include "device/cuda/kernels/embedded.h"
#include "io/gzip.h"

#include <cassert>

namespace trainrt::cuda {

static const EmbeddedKernel *find(const std::string &name) {
  for (const EmbeddedKernel *kernel = embeddedKernels; kernel->name; ++kernel)
    if (name == kernel->name)
      return kernel;
  return nullptr;
}

bool hasEmbedded(const std::string &name) { return find(name) != nullptr; }

Status loadEmbedded(const Driver &driver, const std::string &name, const std::string &what,
                    CUmodule &module) {
  const EmbeddedKernel *kernel = find(name);
  assert(kernel && "the caller has asked whether there are any");
  std::string text;
  TRAINRT_TRY(gunzip(kernel->text, kernel->bytes, text));
  return driver.check(driver.cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr),
                      what.c_str());
}

} // namespace trainrt::cuda
