// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's own kernels, which the build compiles to PTX and packs into a source file
// (runtime/src/device/cuda/kernels/CMakeLists.txt): none where its clang cannot.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_H
#define TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_H

#include <cstddef>

namespace trainrt::cuda {

struct EmbeddedKernel {
  const char *name;          ///< "forward_BF16_64"
  const unsigned char *text; ///< PTX, as gzip packs it
  size_t bytes;
};
/// The last one has no name.
extern const EmbeddedKernel embeddedKernels[];

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_EMBEDDED_H
