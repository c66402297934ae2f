// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pieces of a convolution: ranges that extents are cut into, and what a piece reads, surrounded by
// zeros.
#ifndef TRAINRT_DEVICE_CPU_CONVOLUTION_PARTS_H
#define TRAINRT_DEVICE_CPU_CONVOLUTION_PARTS_H

#include "format/memory/convolution_work.h"

namespace trainrt {

class ThreadPool;
struct GemmKernels;

/// An extent in parts of almost equal size, none longer than `longest`.
struct Cuts {
  struct Range {
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
  };
  Cuts(int64_t extent, int64_t longest) : extent(extent), parts(ceilDiv(extent, longest)) {}
  int64_t extent, parts;

  static int64_t cut(int64_t n, int64_t i, int64_t parts) { return n * i / parts; }
  Range range(int64_t i) const { return {cut(extent, i, parts), cut(extent, i + 1, parts)}; }
};

/// Results of a phase.
struct ConvolutionPart {
  Cuts::Range samples, rows, columns;
  int64_t plane = 0;
};

/// What these read: the position of the first result's lowest taps, and floats from one sample,
/// plane, row, position to the next.
struct ConvolutionSource {
  const float *data;
  int64_t sample, plane, row, position;
};

/// Which channels of a source [batch, positions..., all]; where they may be read.
struct ConvolutionChannels {
  const float *source;
  int64_t all, first, count;
  int64_t position; ///< floats from one copied position to the next
  bool inPlace;     ///< where no zeros are in between
};

/// Copies what `part` reads to `scratch`, with zeros for what is outside of the source; or finds it
/// where it is.
ConvolutionSource readPart(const ConvolutionPhase &phase, const ConvolutionPart &part,
                           const ConvolutionChannels &channels, float *scratch);

/// A convolution with a filter for each channel, or a gradient of one.
void depthwiseF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                  ThreadPool &pool, const GemmKernels &kernels);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_CONVOLUTION_PARTS_H
