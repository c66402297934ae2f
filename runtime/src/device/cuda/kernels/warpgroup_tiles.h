// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of rows in shared memory as matmuls of warpgroups read them.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_TILES_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_TILES_H

#include "device/cuda/kernels/attention_tiles.h"
#include "device/cuda/kernels/warpgroup_shapes.h"

namespace trainrt::cuda::device {

TRAINRT_DEVICE HeadMatrices ofSample(HeadMatrices m, int sample) {
  m.address += uint64_t(sample * m.sample);
  return m;
}

/// `Rows` rows of `Columns` columns, 64 columns of all rows after others (a slab), each as
/// `warp::matrix` says.
template <typename T, int Columns, int Rows> struct StreamedMatrix {
  static constexpr uint32_t slabBytes = Rows * 128, bytes = Columns / 64 * slabBytes;

  /// Where 16 columns begin.
  TRAINRT_DEVICE static uint32_t partAt(int part) {
    return uint32_t(part / 4) * slabBytes + uint32_t(part % 4) * 32;
  }

  /// Starts to copy the rows from `first` on, by `copyingThreads` threads, with zeros where the
  /// sample has none.
  TRAINRT_DEVICE static void copy(uint32_t to, const HeadMatrices &from, int sample, int head,
                                  int first, const Arguments &args) {
    constexpr int step = copyingThreads / 8;
    const int chunk = int(warp::thread()) % 8, own = int(warp::thread()) / 8;
    const char *at = reinterpret_cast<const char *>(from.address) + sample * from.sample +
                     head * from.head + (first + own) * from.row + chunk * 16;
    to += uint32_t(own * 128 + (chunk ^ own % 8) * 16);
    const int left = args.rows - first - own;
    // Copying has few registers.
#pragma nounroll
    for (int row = 0; row < Rows; row += step) {
#pragma unroll
      for (int slab = 0; slab < Columns / 64; ++slab)
        warp::copy(to + uint32_t(slab) * slabBytes + uint32_t(row) * 128, at + slab * 128,
                   row < left && slab * 64 + chunk * 8 < args.columns);
      at += step * from.row;
    }
  }
};

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_TILES_H
