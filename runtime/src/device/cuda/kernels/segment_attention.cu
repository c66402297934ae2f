// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of the kernels for attention over short segments: TRAINRT_KERNEL (forward, backward) for
// operands of TRAINRT_TYPE (BF16, F16) and rows of up to TRAINRT_COLUMNS columns.

#include "device/cuda/kernels/warp.h"

#include "device/cuda/kernels/segment_attention.h"

namespace {
// Threads of a block at most, and blocks whose registers are to fit into a multiprocessor.
enum : int {
  threads = TRAINRT_COLUMNS > 64 ? 256 : 128,
  forward = TRAINRT_COLUMNS > 64 ? 1 : 4,
  backward = TRAINRT_COLUMNS > 64 ? 1 : 3
};
} // namespace

extern "C" __attribute__((global, launch_bounds(threads, TRAINRT_KERNEL))) void
trainrt_attention(const trainrt::cuda::AttentionArguments args) {
  using namespace trainrt::cuda;
  device::TRAINRT_KERNEL<warp::TRAINRT_TYPE, TRAINRT_COLUMNS>(args);
}
