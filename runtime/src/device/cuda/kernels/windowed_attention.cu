// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of the kernels for the gradient of attention with a window: TRAINRT_KERNEL (windowQueries,
// windowKeys) for operands of TRAINRT_TYPE (BF16, F16) and rows of up to TRAINRT_COLUMNS columns.

#include "device/cuda/kernels/warp.h"

#include "device/cuda/kernels/windowed_attention.h"

namespace {
// Blocks whose registers are to fit into a multiprocessor.
enum : int { blocks = TRAINRT_COLUMNS > 64 ? 2 : 3 };
} // namespace

extern "C" __attribute__((global, launch_bounds(trainrt::cuda::windowThreads, blocks))) void
trainrt_attention(const trainrt::cuda::AttentionArguments args) {
  using namespace trainrt::cuda;
  device::TRAINRT_KERNEL<warp::TRAINRT_TYPE, TRAINRT_COLUMNS>(args);
}
