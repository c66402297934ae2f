// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions of 3 x 3 taps by tiles (winograd_work.h).
#ifndef TRAINRT_DEVICE_CPU_WINOGRAD_H
#define TRAINRT_DEVICE_CPU_WINOGRAD_H

#include "format/memory/convolution_work.h"

namespace trainrt {

class ThreadPool;
struct GemmKernels;

/// One of which `WinogradTiles::areUsed` holds, or a gradient of it.
void winogradF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                 ThreadPool &pool, const GemmKernels &kernels);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_WINOGRAD_H
