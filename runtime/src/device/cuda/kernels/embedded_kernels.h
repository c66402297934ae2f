// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading the runtime's own kernels.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_KERNELS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_KERNELS_H

#include "device/cuda/driver.h"

#include <string>

namespace trainrt::cuda {

/// Whether the build has made the kernels of this name.
bool hasEmbedded(const std::string &name);
/// Loads them; there are some. `what` begins the error. The context is current.
Status loadEmbedded(const Driver &driver, const std::string &name, const std::string &what,
                    CUmodule &module);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_KERNELS_H
