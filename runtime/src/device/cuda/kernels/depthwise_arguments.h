// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of the kernels for depthwise convolutions, which host and device agree on.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H

#include <stdint.h>

namespace trainrt::cuda {

/// A block slides down as many strips of the result at once, as many columns wide each: strips side
/// by side in an image, and those of other images at the same rows.
constexpr int depthwiseStrips = 16, depthwiseColumns = 8;
/// Columns of the source that a strip's row of the result meets, and the next ones, which the band
/// of a matrix of taps has zeros for.
constexpr int depthwiseReach = 2 * depthwiseColumns;
/// Channels of a block, and its threads: a warp for two of them, or for a strip.
constexpr int depthwiseChannels = 32, depthwiseThreads = 512;
/// Rows in shared memory: that at hand, and those that are on their way.
constexpr int depthwiseStages(int bytes, bool sums) { return bytes == 4 ? 3 : sums ? 4 : 5; }
/// Rows that a block reads, at most, and what it knows of one in shared memory.
constexpr int depthwiseSteps = 256, depthwiseStepBytes = 32;
/// A block that adds up partial sums: so many of a filter's elements, each by so many threads.
constexpr int depthwiseTotals = 32, depthwiseAdders = 8;

/// Of a convolution the source is the input, the result the output; of its gradient for the input
/// the other way round. The gradient for the filter reads both, as a convolution has them, and
/// writes sums[parts, taps * taps, channels] instead of reading a filter. Tensors are [images,
/// rows, columns, channels] and [channels, taps, taps].
struct DepthwiseArguments {
  uint64_t source = 0, filter = 0, result = 0;
  int32_t images = 0, channels = 0;
  int32_t sourceRows = 0, sourceColumns = 0;
  int32_t resultRows = 0, resultColumns = 0;
  int32_t padRows = 0, padColumns = 0; ///< zeros before the source
  int32_t tilesShift = 0;              ///< 1 << it strips are side by side in an image
  int32_t columnBlocks = 0;            ///< of so many strips, in an image
  /// The rows of the result, those of images that a block has at once as one: of all, of a part.
  int32_t lines = 0, partLines = 0;
  int32_t places = 0; ///< depthwisePlaces
};

/// The rows of the source, counted from the first one that rows of the result from `top` on meet,
/// that a block reads for `count` of them: without zeros above the image, and below it where sums
/// are made of what there is. Where the result is written, its rows end below the image.
struct DepthwiseReads {
  int32_t begin = 0, end = 0;

  constexpr DepthwiseReads(const DepthwiseArguments &args, int taps, bool sums, int32_t top,
                           int32_t count)
      : end(count + taps - 1) {
    const int32_t above = args.padRows - top, last = args.sourceRows + above;
    if (!sums)
      begin = above < 0 ? 0 : above < taps - 1 ? above : taps - 1;
    else if (last < end)
      end = last < count ? count : last;
  }
};

/// Adds the parts up.
struct DepthwiseTotalArguments {
  uint64_t sums = 0, filter = 0;
  int32_t channels = 0, taps = 0; ///< of all axes together
  int32_t parts = 0;
};

// Shared memory. A row of the source has a place for each position that a strip reaches, a row of
// the result one for each of the strips' columns.
constexpr int depthwiseSegment(int tilesShift) {
  return (depthwiseColumns << tilesShift) + depthwiseColumns;
}
constexpr int depthwisePositions(int tilesShift) {
  return (depthwiseStrips >> tilesShift) * depthwiseSegment(tilesShift);
}
constexpr int depthwiseResults = depthwiseStrips * depthwiseColumns;
/// A thread's copies of a row: of places that are so far from each other.
constexpr int depthwiseTurns = 8;
constexpr int depthwiseSlots(int bytes) {
  return depthwiseThreads * (bytes == 2 ? 2 : 4) / depthwiseChannels;
}
/// Places, with those that nothing is at: a multiple of the slots where elements have 16 bits.
constexpr int depthwisePlaces(int bytes, int tilesShift) {
  const int positions = depthwisePositions(tilesShift), slots = depthwiseSlots(bytes);
  return bytes == 2 ? (positions + slots - 1) / slots * slots : positions;
}
/// Elements of 16 bits: the two channels of a warp side by side, of a position after the other, so
/// that those that differ in the position are in different banks. Both numbers are even, their
/// halves odd, so that those that differ in the channel are, too.
constexpr int depthwisePadding = 2;
constexpr int depthwisePitch(int tilesShift) {
  return depthwisePlaces(2, tilesShift) + depthwisePadding;
}
constexpr int depthwiseResultPitch = depthwiseResults + depthwisePadding;

constexpr int depthwiseStageBytes(int bytes, int tilesShift) {
  return bytes == 2 ? depthwiseChannels / 2 * depthwisePitch(tilesShift) * 4
                    : depthwiseChannels * depthwisePlaces(4, tilesShift) * 4;
}
constexpr int depthwiseResultBytes(int bytes) {
  return bytes == 2 ? depthwiseChannels / 2 * depthwiseResultPitch * 4
                    : depthwiseChannels * depthwiseResults * 4;
}
/// What a block knows of its rows, with some behind the last one and an empty one before the first.
constexpr int depthwiseStepsBytes = (depthwiseSteps + 8) * depthwiseStepBytes;
/// Where a position is in a tensor.
constexpr int depthwiseTableBytes(int bytes) { return depthwiseSlots(bytes) * depthwiseTurns * 4; }
constexpr int depthwiseSharedBytes(int bytes, int taps, int tilesShift, bool sums) {
  const int stages = depthwiseStages(bytes, sums);
  const int common = depthwiseStepsBytes + 2 * depthwiseTableBytes(bytes) +
                     stages * depthwiseStageBytes(bytes, tilesShift);
  if (sums)
    return common + stages * depthwiseResultBytes(bytes);
  return common + (bytes == 2 ? 2 * depthwiseResultBytes(2) : depthwiseChannels * taps * taps * 4);
}

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_ARGUMENTS_H
