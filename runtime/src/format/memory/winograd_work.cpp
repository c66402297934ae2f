// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which convolutions are computed by tiles, and how many at a time.
#include "format/memory/winograd_work.h"

#include <algorithm>

namespace trainrt {

namespace {

/// A block of tiles stays in L2.
constexpr int64_t blockFloats = int64_t(1) << 17;
/// Of gradients for filters, tiles that threads transform before they wait for each other: what
/// they make stays in L3, and fewer tiles would move the sums more often.
constexpr int64_t chunkFloats = int64_t(1) << 21, mostChunk = 256, leastChunk = 64;
/// Below these the sums and differences take longer than the products that they save.
constexpr int64_t fewestChannels = 32, fewestResults = 14 * 14, fewestTiles = 128;

int64_t results(const ConvolutionSizes &sizes, int axis) {
  const ConvolutionSizes::Axis &at = sizes.axes[size_t(axis)];
  return sizes.kind == Convolution::Kind::Data ? at.positions : at.windows;
}

} // namespace

WinogradTiles::WinogradTiles(const ConvolutionSizes &sizes)
    : rows(ceilDiv(results(sizes, 1), 2)), columns(ceilDiv(results(sizes, 2), 2)),
      count(sizes.batch * rows * columns) {}

bool WinogradTiles::areUsed(const ConvolutionSizes &sizes) {
  const auto isThree = [](const ConvolutionSizes::Axis &axis) {
    return axis.taps == 3 && axis.stride == 1 && axis.dilation == 1;
  };
  const ConvolutionSizes::Axis &planes = sizes.axes[0];
  return sizes.groups == 1 && planes.positions == 1 && planes.taps == 1 && planes.windows == 1 &&
         isThree(sizes.axes[1]) && isThree(sizes.axes[2]) &&
         std::min(sizes.channels, sizes.filters) >= fewestChannels &&
         (sizes.kind == Convolution::Kind::Filter
              ? WinogradTiles(sizes).count >= fewestTiles
              : sizes.axes[1].windows * sizes.axes[2].windows >= fewestResults);
}

WinogradProduct::WinogradProduct(const ConvolutionSizes &sizes, const GemmTile &tile)
    : sizes(sizes), tile(tile), tiles(sizes),
      depth(sizes.kind == Convolution::Kind::Forward ? sizes.channels : sizes.filters),
      width(sizes.kind == Convolution::Kind::Forward ? sizes.filters : sizes.channels) {
  const int64_t fits = blockFloats / (WinogradTiles::values * (depthFloats() + tile.panelN()));
  block = std::min(std::max<int64_t>(16, fits / 8 * 8), tiles.count);
}

int64_t WinogradProduct::threadFloats() const {
  const int64_t lines = roundUp(std::max(depth, tile.panelN()), 16) + tile.panelN();
  const int64_t packed = WinogradTiles::values * tile.panelN() * packedDepth;
  return std::max(positionFloats() + productFloats() + lines, packed);
}

WinogradSums::WinogradSums(const ConvolutionSizes &sizes, const GemmTile &tile)
    : sizes(sizes), tile(tile), tiles(sizes) {
  const int64_t fits = chunkFloats / (WinogradTiles::values * (sizes.channels + sizes.filters));
  block = std::min(std::clamp(fits, leastChunk, mostChunk), tiles.count);
}

int64_t WinogradSums::threadFloats() const {
  const int64_t taps = 9, piece = storedChannels * tile.panelN();
  return std::max(std::max(sizes.channels, sizes.filters), (taps + 1) * piece);
}

} // namespace trainrt
