// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of the kernels for depthwise convolutions, which host and device agree on.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H

#include <stdint.h>

namespace trainrt::cuda {

/// Channels of a thread: their filters are in registers.
constexpr int depthwiseVector(int taps) { return taps == 3 ? 4 : 2; }
/// Columns of the output, or of the input's gradient, that a thread looks at.
constexpr int depthwiseColumns = 2;
/// A block that adds up partial sums: so many of a filter's elements, each by so many threads.
constexpr int depthwiseTotals = 32, depthwiseAdders = 8;

/// The convolution, or its gradient for the input, which is one of the output. Tensors are
/// [images, rows, columns, channels] and [channels, taps, taps].
struct DepthwiseArguments {
  uint64_t source = 0, filter = 0, result = 0;
  int32_t channels = 0;
  int32_t sourceRows = 0, sourceColumns = 0;
  int32_t resultRows = 0, resultColumns = 0;
  int32_t padRows = 0, padColumns = 0; ///< zeros before the source
  int32_t rows = 0;                    ///< of the result, that a thread computes
  int32_t chunks = 0;                  ///< of so many rows, in an image
};

/// The gradient for the filter: sums[parts, taps * taps, channels], each of some pieces of the
/// output of all images, pieces of `rows` rows and depthwiseColumns columns.
struct DepthwiseSumsArguments {
  uint64_t input = 0, output = 0, sums = 0;
  int32_t channels = 0;
  int32_t inputRows = 0, inputColumns = 0;
  int32_t outputRows = 0, outputColumns = 0;
  int32_t padRows = 0, padColumns = 0;
  int32_t rows = 0;
  int32_t chunks = 0, tiles = 0;         ///< pieces of an image, along its axes
  int32_t allPieces = 0, partPieces = 0; ///< of all images, of a part
  int32_t lanes = 0;                     ///< threads of a block side by side along the channels
};

/// Adds the parts up.
struct DepthwiseTotalArguments {
  uint64_t sums = 0, filter = 0;
  int32_t channels = 0, taps = 0; ///< of all axes together
  int32_t parts = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H
