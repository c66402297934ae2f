// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of threads as tiles of columns and rows: loops with several loads in flight, and the
// combination of the rows of a tile in a fixed tree.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_TILES_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_TILES_H

#include "GpuEmitter.h"
#include <functional>

namespace trainc::codegen {

/// Threads of a block in the mappings that use tiles.
inline constexpr int64_t kTileThreads = 256;
/// Blocks that fill the machine a few times over, evenly for 132 multiprocessors.
inline constexpr int64_t kTileBlocks = 528;

/// `thread = row * columns + column`
struct Tile {
  int64_t columns = kWarp, rows = kTileThreads / kWarp;
  /// The widest tile of at most `limit` columns that has work for all of them.
  static Tile forColumns(train::DimAttr columns, int64_t limit);
};

/// Runs `body` at lower, lower + step, ... below upper: `unroll` positions a round, then the rest
/// one by one. What the body returns is carried on to the next call.
Values stridedLoop(GpuEmitter &e, mlir::Value lower, mlir::Value upper, int64_t step,
                   unsigned unroll, mlir::ValueRange init,
                   llvm::function_ref<Values(llvm::ArrayRef<mlir::Value>, mlir::ValueRange)> body);

/// What a thread brings to combineRows: a scalar or vector of `element`, and shared memory for one
/// a thread, which others may have used.
struct TileValue {
  mlir::Value array;
  mlir::Type element;
  mlir::Value value;
  std::function<mlir::Value(mlir::Value, mlir::Value)> combine;
};
/// Combines values of the threads in the tile's columns over its rows. All threads come by; row 0
/// has the totals.
Values combineRows(GpuEmitter &e, const Tile &tile, llvm::ArrayRef<TileValue> values);

/// The elements of a vector in an array of vectors of this width.
inline train::ElementIndex vectorAt(GpuEmitter &e, mlir::Value vector, unsigned width) {
  return {e.mulIndex(vector, e.constantIndex(width)), width == 1 ? 0 : 1, {}};
}

/// Pointer to a place in the temporary buffer.
mlir::Value temporaryAt(GpuEmitter &e, train::DimAttr byteOffset);

/// max(size, 1)
train::DimAttr atLeastOne(train::DimAttr size);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_TILES_H
