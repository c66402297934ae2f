// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for convolutions with a filter for each channel of TRAINRT_TAPS x TRAINRT_TAPS taps:
// forward, for the input, for the filter; operands of TRAINRT_TYPE (BF16, F16, F32).

#include "device/cuda/kernels/warp.h"

#include "device/cuda/kernels/depthwise.h"
#include "device/cuda/kernels/depthwise_f32.h"
#include "device/cuda/kernels/depthwise_total.h"

using namespace trainrt::cuda;
using namespace trainrt::cuda::warp;
using namespace trainrt::cuda::device;

template <typename T, bool Flipped> TRAINRT_DEVICE void slide(const DepthwiseArguments &args) {
  if constexpr (bytesOf<T> == 4)
    depthwiseF32<TRAINRT_TAPS, Flipped>(args);
  else
    depthwise<T, TRAINRT_TAPS, Flipped>(args);
}
template <typename T> TRAINRT_DEVICE void sum(const DepthwiseArguments &args) {
  if constexpr (bytesOf<T> == 4)
    depthwiseSumsF32<TRAINRT_TAPS>(args);
  else
    depthwiseSums<T, TRAINRT_TAPS>(args);
}

extern "C" __attribute__((global, launch_bounds(depthwiseThreads, 1))) void
trainrt_forward(const DepthwiseArguments args) {
  slide<TRAINRT_TYPE, false>(args);
}
extern "C" __attribute__((global, launch_bounds(depthwiseThreads, 1))) void
trainrt_data(const DepthwiseArguments args) {
  slide<TRAINRT_TYPE, true>(args);
}
extern "C" __attribute__((global, launch_bounds(depthwiseThreads, 1))) void
trainrt_sums(const DepthwiseArguments args) {
  sum<TRAINRT_TYPE>(args);
}
extern "C" __attribute__((global, launch_bounds(depthwiseTotals *depthwiseAdders))) void
trainrt_total(const DepthwiseTotalArguments args) {
  depthwiseTotal<TRAINRT_TYPE>(args);
}
