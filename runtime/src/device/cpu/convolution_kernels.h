// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What convolutions need from an instruction set beside the kernels of the GEMM.
#ifndef TRAINRT_DEVICE_CPU_CONVOLUTION_KERNELS_H
#define TRAINRT_DEVICE_CPU_CONVOLUTION_KERNELS_H

#include "format/memory/convolution_work.h"

#include <cstdint>

namespace trainrt {

/// Adds A * B to C: row i of A at line o and position p is a[o * aLine + p * aStride + i]; B is
/// packed, [lines][k][panelColumns], and so are the rows of C. One chain over lines and positions.
using ConvolutionSumKernel = void (*)(int64_t lines, int64_t k, const float *a, int64_t aLine,
                                      int64_t aStride, const float *b, float *c);

/// Results with a filter for each channel: c[j * cStride + x] = sum over t of
/// source[j * sourceStride + at[t] + x] * weights[weightAt[t] + x], for `columns` j and all
/// channels x. A chain over t.
struct DepthwiseRow {
  const float *source;
  int64_t sourceStride;
  const int64_t *at;
  const float *weights;
  const int64_t *weightAt;
  int64_t taps;
  float *c;
  int64_t cStride, columns, channels;
  /// Source rows that the line behind this one reads, too: `nextRows` of them, of which each of
  /// this line's results stands for `nextStride` floats.
  const float *next[2];
  int nextRows;
  int64_t nextStride;
};
using DepthwiseKernel = void (*)(const DepthwiseRow &row);

/// sums[t * sumStride + x] += sum over j of a[j * aStride + t * aTap + x] * b[j * bStride + x] for
/// `channels` x, and t below the table's index plus one.
using DepthwiseSumKernel = void (*)(int64_t columns, const float *a, int64_t aStride, int64_t aTap,
                                    const float *b, int64_t bStride, int64_t channels, float *sums,
                                    int64_t sumStride);

/// A transform of a tile along both of its axes, for n channels: `from` and `to` are the places of
/// its values, row by row.
using WinogradTransform = void (*)(const float *const *from, float *const *to, int64_t n);

/// What they are: winograd_kernels_impl.h.
struct WinogradKernels {
  WinogradTransform positions, taps, results, outputs, tapSums;
};

struct ConvolutionKernels {
  static constexpr int maxRows = 14, maxVectors = 2, maxTaps = 7;
  ConvolutionSumKernel sum[maxRows][maxVectors];
  DepthwiseKernel depthwise;
  DepthwiseSumKernel depthwiseSum[maxTaps];
  WinogradKernels winograd;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_CONVOLUTION_KERNELS_H
