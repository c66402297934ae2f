// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of the kernels for attention over short segments: TRAINRT_KERNEL (forward, backward) for
// operands of TRAINRT_TYPE (BF16, F16) and rows of up to TRAINRT_COLUMNS columns.

#include "cuda/device/warp.h"

#include "cuda/device/segment_attention.h"

namespace {
// Blocks of four warps that are to fit into a multiprocessor's registers.
enum : int { forward = TRAINRT_COLUMNS > 64 ? 2 : 4, backward = TRAINRT_COLUMNS > 64 ? 2 : 3 };
} // namespace

extern "C" __attribute__((global, launch_bounds(128, TRAINRT_KERNEL))) void
trainrt_attention(const trainrt::cuda::SegmentAttentionArguments args) {
  using namespace trainrt::cuda;
  device::TRAINRT_KERNEL<warp::TRAINRT_TYPE, TRAINRT_COLUMNS>(args);
}
