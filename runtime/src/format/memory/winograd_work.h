// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions of 3 x 3 taps with fewer products: S. Winograd's F(2 x 2, 3 x 3), as A. Lavin and
// S. Gray apply it (2015). 2 x 2 results, a tile, come from 4 x 4 positions by 16 products for each
// channel and filter, instead of 36: positions, filters and products are transformed by sums and
// differences of few of them.
#ifndef TRAINRT_FORMAT_MEMORY_WINOGRAD_WORK_H
#define TRAINRT_FORMAT_MEMORY_WINOGRAD_WORK_H

#include "format/memory/convolution_work.h"

namespace trainrt {

/// Tiles of the results of a convolution or of its gradient for the input; of the gradient for the
/// filter, those of the windows.
struct WinogradTiles {
  static constexpr int64_t values = 16; ///< of a tile that are multiplied
  /// Floats between the values of tiles: these would else share a few sets of L1.
  static constexpr int64_t gap = 16;
  explicit WinogradTiles(const ConvolutionSizes &sizes);

  int64_t rows, columns; ///< of an image
  int64_t count;         ///< of the batch

  /// Whether a convolution is computed by tiles. Of the batch only gradients for filters, which sum
  /// it up, depend on it: a sample's results are the same in each.
  static bool areUsed(const ConvolutionSizes &sizes);
};

/// A convolution, or its gradient for the input. A thread has some tiles at a time.
struct WinogradProduct {
  WinogradProduct(const ConvolutionSizes &sizes, const GemmTile &tile);

  const ConvolutionSizes sizes;
  const GemmTile tile;
  const WinogradTiles tiles;
  int64_t depth, width; ///< channels that are summed up, and those of the result
  int64_t block;        ///< tiles at a time

  /// Channels of a filter that are transformed before they are packed.
  static constexpr int64_t packedDepth = 64;
  int64_t panels() const { return ceilDiv(width, tile.panelN()); }
  /// Floats from one tile's value to the next tile's: not those of a whole number of pages.
  int64_t depthFloats() const { return roundUp(depth, 16) + WinogradTiles::gap; }
  /// All filters, transformed and packed: [values][panels][depth][panel].
  int64_t sharedFloats() const { return WinogradTiles::values * panels() * tile.panelN() * depth; }
  /// Values of a block's positions, its products by a panel of filters, a line of zeros, and one
  /// that nobody reads.
  int64_t positionFloats() const { return WinogradTiles::values * block * depthFloats(); }
  int64_t productFloats() const {
    return WinogradTiles::values * (block * tile.panelN() + WinogradTiles::gap);
  }
  int64_t threadFloats() const;
};

/// The gradient for the filter. Threads transform some tiles, then sum them up, a value and some
/// filters each.
struct WinogradSums {
  WinogradSums(const ConvolutionSizes &sizes, const GemmTile &tile);

  const ConvolutionSizes sizes;
  const GemmTile tile;
  const WinogradTiles tiles;
  int64_t block; ///< tiles at a time

  static constexpr int64_t storedChannels = 32;
  int64_t panels() const { return ceilDiv(sizes.filters, tile.panelN()); }
  /// [values][block][channels], [values][panels][block][panel] and
  /// [values][panels][channels][panel].
  int64_t inputFloats() const {
    return WinogradTiles::values * (block * sizes.channels + WinogradTiles::gap);
  }
  int64_t outputFloats() const {
    return WinogradTiles::values * panels() * (tile.panelN() * block + WinogradTiles::gap);
  }
  int64_t sumFloats() const {
    return WinogradTiles::values * panels() * tile.panelN() * sizes.channels;
  }
  int64_t sharedFloats() const { return inputFloats() + outputFloats() + sumFloats(); }
  /// A line of zeros; or some channels' sums for a panel of filters, and those of a tap transposed.
  int64_t threadFloats() const;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_WINOGRAD_WORK_H
