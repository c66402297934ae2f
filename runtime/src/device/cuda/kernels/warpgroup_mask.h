// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mask of dropout for attention by warpgroups: drawn by the warps that
// copy, which have issue slots to spare, a bit for each weight. The kernel for
// the gradients of k and v reads what that for q has drawn.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_MASK_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_MASK_H

#include "device/cuda/kernels/attention_tiles.h"
#include "device/cuda/kernels/warpgroup_shapes.h"

namespace trainrt::cuda::device {

/// Which weights dropout keeps of a warp's tile of 16 rows and a block of 64
/// others: in the order of this lane's scores, a bit each. Rows are queries: a
/// byte for each tile of keys.
struct KeptOfQueries {
  uint32_t bits = 0;
  TRAINRT_DEVICE bool operator[](int i) const {
    return bits >> (i / 8 * 8 + i % 2 * 4 + 3 - i / 2 % 4) & 1;
  }
};
/// Rows are keys: sixteen bits for each of two queries, so that the words of a
/// warp are transposed as a matrix of 16-bit elements.
struct KeptOfKeys {
  uint32_t bits = 0;
  TRAINRT_DEVICE bool operator[](int i) const {
    return bits >> (i % 2 * 16 + 15 - i / 8 * 4 - i / 2 % 2 * 2 - i / 4 % 2) & 1;
  }
};

/// Draws a tile after another of a head's mask, the numbers of `Dropout`.
class MaskDrawing {
public:
  TRAINRT_DEVICE MaskDrawing(const Arguments &args, int sample, int head)
      : dropout(args, sample, head), limit((65536 - (dropout.limit >> 16)) << 15) {}

  /// Of the four tiles of 16 queries from `queryTile` on and a tile of keys: the
  /// bytes of `KeptOfQueries` in `bytes`; returns the lane's word of
  /// `KeptOfKeys`, to be transposed.
  TRAINRT_DEVICE uint32_t draw(uint32_t (&bytes)[4], int queryTile, int keyTile) const {
    uint32_t first = 0, second = 0;
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      uint32_t words[4];
      dropout.draw(words, queryTile + tile, keyTile);
#pragma unroll
      for (uint32_t word : words) {
        // The highest bit says that a number is not below the limit. A shift right and a sum are
        // one instruction, which the compiler would make two of.
        first = first << 1 | ((warp::opaque(word << 16) >> 1) + limit) >> 31;
        second = second << 1 | ((word >> 1) + limit) >> 31;
      }
      bytes[tile] = (first & 15) | second << 4;
    }
    return first | second << 16;
  }

private:
  const Dropout dropout;
  const uint32_t limit;
};

/// Where words of `KeptOfKeys` lie in global memory: of a sample, a head, a
/// block of 64 keys and one of 64 queries those of four warps, one warp after
/// another.
TRAINRT_DEVICE uint64_t maskAt(const Arguments &args, int sample, int head, int keys, int queries) {
  const int64_t blocks = (args.rows + groupRows - 1) / groupRows;
  return args.mask +
         uint64_t(((int64_t(sample) * args.heads + head) * blocks + keys) * blocks + queries) *
             maskBlockBytes;
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_MASK_H
