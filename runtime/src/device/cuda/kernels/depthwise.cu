// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for convolutions with a filter for each channel of TRAINRT_TAPS x TRAINRT_TAPS taps:
// forward, for the input, for the filter; operands of TRAINRT_TYPE (BF16, F16, F32).

#include "device/cuda/kernels/warp.h"

#include "device/cuda/kernels/depthwise.h"

using namespace trainrt::cuda;
using namespace trainrt::cuda::warp;
using namespace trainrt::cuda::device;

extern "C" __attribute__((global, launch_bounds(128))) void
trainrt_forward(const DepthwiseArguments args) {
  depthwise<TRAINRT_TYPE, TRAINRT_TAPS, false>(args);
}
extern "C" __attribute__((global, launch_bounds(128))) void
trainrt_data(const DepthwiseArguments args) {
  depthwise<TRAINRT_TYPE, TRAINRT_TAPS, true>(args);
}
extern "C" __attribute__((global, launch_bounds(128, TRAINRT_TAPS == 3 ? 4 : 3))) void
trainrt_sums(const DepthwiseSumsArguments args) {
  depthwiseSums<TRAINRT_TYPE, TRAINRT_TAPS>(args);
}
extern "C" __attribute__((global, launch_bounds(depthwiseTotals *depthwiseAdders))) void
trainrt_total(const DepthwiseTotalArguments args) {
  depthwiseTotal<TRAINRT_TYPE>(args);
}
