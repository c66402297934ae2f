// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where sums are cut follows from the sizes of the convolution alone, never from the number of
// threads.
#include "format/memory/convolution_work.h"
#include "format/memory/winograd_work.h"

#include <algorithm>

namespace trainrt {

namespace {

/// A copied block stays in L2, beside a panel of filters.
constexpr int64_t mostBlockFloats = int64_t(1) << 17;
/// Results of a block, so that a panel of filters in L1 is used many times.
constexpr int64_t enoughResults = 192;
/// Windows of a block whose outputs are packed: their panel stays in L1, but for a little.
constexpr int64_t mostWindows = 384;
/// Sums of a thread stay in L2; each has that many pieces, at least.
constexpr int64_t mostSums = 2048, piecesOfThread = 2;
/// Parts of a batch whose depthwise sums are made apart.
constexpr int64_t enoughParts = 16;

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

/// Of the convolution itself.
ConvolutionPhase::Axis windowsOf(const ConvolutionSizes::Axis &axis) {
  ConvolutionPhase::Axis result = {0, 1, axis.windows, axis.stride, axis.positions, {}};
  for (int64_t tap = 0; tap < axis.taps; ++tap)
    result.taps.push_back({tap, tap * axis.dilation - axis.pad});
  return result;
}

/// Positions `remainder - pad`, modulo the stride: those that the same taps reach.
ConvolutionPhase::Axis positionsOf(const ConvolutionSizes::Axis &axis, int64_t remainder) {
  const int64_t first = modulo(remainder - axis.pad, axis.stride);
  ConvolutionPhase::Axis result = {
      first, axis.stride,  std::max<int64_t>(0, ceilDiv(axis.positions - first, axis.stride)),
      1,     axis.windows, {}};
  for (int64_t tap = axis.taps; tap-- > 0;) {
    const int64_t at = first + axis.pad - tap * axis.dilation;
    if (at % axis.stride == 0)
      result.taps.push_back({tap, at / axis.stride});
  }
  return result;
}

int64_t reach(const ConvolutionPhase::Axis &axis, int64_t results) {
  return (results - 1) * axis.sourceStep + axis.span();
}

} // namespace

std::vector<ConvolutionPhase> convolutionPhases(const ConvolutionSizes &sizes) {
  if (sizes.kind == Convolution::Kind::Forward)
    return {{{windowsOf(sizes.axes[0]), windowsOf(sizes.axes[1]), windowsOf(sizes.axes[2])}}};
  std::vector<ConvolutionPhase> phases;
  for (int64_t i = 0; i < sizes.axes[0].stride; ++i)
    for (int64_t j = 0; j < sizes.axes[1].stride; ++j)
      for (int64_t k = 0; k < sizes.axes[2].stride; ++k) {
        ConvolutionPhase phase = {{positionsOf(sizes.axes[0], i), positionsOf(sizes.axes[1], j),
                                   positionsOf(sizes.axes[2], k)}};
        if (!phase.isEmpty())
          phases.push_back(std::move(phase));
      }
  return phases;
}

ConvolutionProduct::ConvolutionProduct(const ConvolutionSizes &sizes, const GemmTile &tile)
    : sizes(sizes), tile(tile),
      depth(sizes.kind == Convolution::Kind::Forward ? sizes.groupChannels()
                                                     : sizes.groupFilters()),
      width(sizes.kind == Convolution::Kind::Forward ? sizes.groupFilters()
                                                     : sizes.groupChannels()),
      phases(convolutionPhases(sizes)) {
  for (const ConvolutionPhase &phase : phases) {
    ConvolutionBlock block;
    const auto &[planes, rows, columns] = phase.axes;
    if (phase.taps() != 0) {
      const auto fits = [&](const ConvolutionBlock &wanted) {
        return blockFloats(phase, wanted) <= mostBlockFloats;
      };
      // Whole rows where one fits; then as many as fit, then samples.
      block.columns = columns.count;
      while (block.columns > 1 && !fits(block))
        block.columns = ceilDiv(block.columns, 2);
      if (block.columns == columns.count) {
        block.rows = rows.count;
        while (block.rows > 1 && !fits(block))
          block.rows = ceilDiv(block.rows, 2);
        if (block.rows == rows.count)
          while (block.samples < sizes.batch &&
                 block.samples * block.rows * block.columns < enoughResults &&
                 fits({block.samples + 1, block.rows, block.columns}))
            ++block.samples;
      }
    }
    blocks.push_back(block);
  }
}

int64_t ConvolutionProduct::positionFloats() const {
  // Positions that are multiples of 1 KiB apart would share a few sets of L1.
  return depth >= 256 && depth % 256 == 0 ? depth + 16 : depth;
}

int64_t ConvolutionProduct::blockFloats(const ConvolutionPhase &phase,
                                        const ConvolutionBlock &block) const {
  return block.samples * phase.axes[0].span() * reach(phase.axes[1], block.rows) *
         reach(phase.axes[2], block.columns) * positionFloats();
}

int64_t ConvolutionProduct::threadFloats() const {
  int64_t floats = 0;
  for (size_t i = 0; i < phases.size(); ++i)
    if (phases[i].taps() != 0)
      floats = std::max(floats, blockFloats(phases[i], blocks[i]));
  return floats;
}

ConvolutionSums::ConvolutionSums(const ConvolutionSizes &sizes, const GemmTile &tile,
                                 unsigned threads)
    : sizes(sizes), tile(tile), channels(sizes.groupChannels()) {
  // Which channels are summed up together changes no sum: threads may decide, who pack the output
  // for each piece.
  const int64_t panels = sizes.groups * ceilDiv(sizes.groupFilters(), tile.panelN());
  while (channels > 16 &&
         (sizes.taps() * channels > mostSums ||
          panels * ceilDiv(sizes.groupChannels(), channels) < piecesOfThread * int64_t(threads)))
    channels = ceilDiv(channels, 2);
  const int64_t windows = sizes.axes[2].windows;
  block.columns = ceilDiv(windows, ceilDiv(windows, mostWindows));
  if (block.columns == windows)
    block.rows = std::clamp<int64_t>(mostWindows / windows, 1, sizes.axes[1].windows);
}

int64_t ConvolutionSums::blockFloats() const {
  auto reach = [](const ConvolutionSizes::Axis &axis, int64_t windows) {
    return (windows - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1;
  };
  return reach(sizes.axes[0], 1) * reach(sizes.axes[1], block.rows) *
         reach(sizes.axes[2], block.columns) * channels;
}

DepthwiseParts::DepthwiseParts(const ConvolutionSizes &sizes)
    : samples(ceilDiv(sizes.batch, enoughParts)), parts(ceilDiv(sizes.batch, samples)),
      channels(roundUp(ceilDiv(sizes.channels, ceilDiv(enoughParts, parts)), 16)),
      sums(sizes.taps() * sizes.channels) {}

ConvolutionMemory convolutionMemory(const ConvolutionSizes &sizes, const GemmTile &tile,
                                    unsigned threads) {
  if (sizes.isDepthwise())
    return {sizes.kind == Convolution::Kind::Filter ? DepthwiseParts(sizes).floats()
                                                    : sizes.taps() * sizes.channels,
            0};
  if (WinogradTiles::areUsed(sizes)) {
    if (sizes.kind == Convolution::Kind::Filter) {
      const WinogradSums sums(sizes, tile);
      return {sums.sharedFloats(), sums.threadFloats()};
    }
    const WinogradProduct product(sizes, tile);
    return {product.sharedFloats(), product.threadFloats()};
  }
  if (sizes.kind == Convolution::Kind::Filter)
    return {0, ConvolutionSums(sizes, tile, threads).threadFloats()};
  const ConvolutionProduct product(sizes, tile);
  return {product.sharedFloats(), product.threadFloats()};
}

} // namespace trainrt
