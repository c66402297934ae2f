// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of the kernels for attention by warpgroups: TRAINRT_KERNEL (warpgroupForward,
// warpgroupQueries, warpgroupKeys), cut up as TRAINRT_SHAPE (Forward, Queries, Keys), with dropout
// if TRAINRT_DROPS, for operands of TRAINRT_TYPE (BF16, F16) and rows of up to TRAINRT_COLUMNS
// columns.

#include "device/cuda/kernels/warpgroup.h"

#include "device/cuda/kernels/warpgroup_attention.h"
#include "device/cuda/kernels/warpgroup_forward.h"

namespace {
using Shape = trainrt::cuda::WarpgroupShapes<TRAINRT_COLUMNS>::TRAINRT_SHAPE;
} // namespace

extern "C" __attribute__((global, launch_bounds(Shape::threads, 1))) void
trainrt_attention(const trainrt::cuda::AttentionArguments args) {
  using namespace trainrt::cuda;
  device::TRAINRT_KERNEL<warp::TRAINRT_TYPE, Shape, TRAINRT_DROPS>(args);
}
