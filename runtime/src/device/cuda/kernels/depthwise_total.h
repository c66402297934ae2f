// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adds up the parts of the gradient for the filters of a depthwise convolution. Included behind
// warp.h, or its emulation.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_TOTAL_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_TOTAL_H

#include "device/cuda/kernels/depthwise_strips.h"

namespace trainrt::cuda::device {

/// Grid: (elements of all filters); blocks of depthwiseTotals x depthwiseAdders threads, each of
/// which adds up every depthwiseAdders-th part.
template <typename T> TRAINRT_DEVICE void depthwiseTotal(const DepthwiseTotalArguments &args) {
  const uint32_t elements = uint32_t(args.channels) * uint32_t(args.taps);
  const uint32_t lane = warp::thread() % depthwiseTotals, adder = warp::thread() / depthwiseTotals;
  const uint32_t element = warp::blockX() * depthwiseTotals + lane;
  const uint32_t parts = element < elements ? uint32_t(args.parts) : 0;
  // Four at a time are on their way.
  float sums[4] = {};
  for (uint32_t part = adder; part < parts; part += 4 * depthwiseAdders)
    TRAINRT_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t word[1];
    const uint32_t at = part + i * depthwiseAdders;
    warp::loadConstant(args.sums + (uint64_t(at) * elements + element) * 4, at < parts, word);
    sums[i] += __builtin_bit_cast(float, word[0]);
  }
  const uint32_t shared = warp::sharedMemory();
  warp::storeShared(shared + warp::thread() * 4, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  warp::barrier();
  if (adder || element >= elements)
    return;
  float total = 0;
  for (uint32_t i = 0; i < depthwiseAdders; ++i)
    total += warp::loadShared(shared + (i * depthwiseTotals + lane) * 4);
  const uint32_t channel = element % uint32_t(args.channels),
                 tap = element / uint32_t(args.channels);
  const uint64_t to = uint64_t(channel) * uint64_t(args.taps) + tap;
  if constexpr (bytesOf<T> == 4) {
    const uint32_t word[1] = {__builtin_bit_cast(uint32_t, total)};
    warp::storeWords(args.filter + to * 4, word);
  } else {
    warp::storeHalf(args.filter + to * 2, warp::pack(T(), total, 0));
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_TOTAL_H
