// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions by tiles: transforms around matmuls, one for each of a tile's 16 values. The GEMM's
// micro kernels multiply; channels are summed up in chains, as in a matmul. Where these are cut
// depends on sizes alone, and a tile's results on nothing but what it reads.
#include "device/cpu/winograd.h"

#include "device/cpu/convolution_parts.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"
#include "format/memory/winograd_work.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

constexpr int64_t values = WinogradTiles::values;
/// Longest chain in registers: half of a matmul's, since a result adds up 9 to 16 of them. It takes
/// no longer.
constexpr int64_t chainK = 128;
/// Height of a tile of a matmul whose rows are read in place (gemm.cpp).
constexpr int64_t directRows = 8;

/// An image, or a batch of them: [batch, rows, columns, channels].
struct Images {
  const float *data;
  int64_t rows, columns, channels;

  /// The channels of a position; `zeros` outside of the image.
  const float *at(int64_t sample, int64_t row, int64_t column, const float *zeros) const {
    const bool isInside = row >= 0 && row < rows && column >= 0 && column < columns;
    return isInside ? data + ((sample * rows + row) * columns + column) * channels : zeros;
  }
};

/// A tile by its number in the batch: its sample, and its first result.
struct TilePlace {
  int64_t sample, row, column;
  TilePlace(const WinogradTiles &tiles, int64_t index)
      : sample(index / (tiles.rows * tiles.columns)), row(index / tiles.columns % tiles.rows * 2),
        column(index % tiles.columns * 2) {}
};

/// Transforms what a tile reads: 4 x 4 positions, the first `pad` before its first result.
void transformPositions(const GemmKernels &kernels, const Images &images, const TilePlace &place,
                        int64_t padRows, int64_t padColumns, const float *zeros, float *to,
                        int64_t valueFloats) {
  const float *from[values];
  float *into[values];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      from[i * 4 + j] =
          images.at(place.sample, place.row - padRows + i, place.column - padColumns + j, zeros);
      into[i * 4 + j] = to + (i * 4 + j) * valueFloats;
    }
  kernels.convolution.winograd.positions(from, into, images.channels);
}

/// A convolution or its gradient for the input.
class Product {
public:
  Product(const WinogradProduct &plan, const GemmKernels &kernels, const float *source,
          const float *filter, float *result, ThreadPool &pool)
      : plan(plan), kernels(kernels), filter(filter), result(result), pool(pool),
        isForward(plan.sizes.kind == Convolution::Kind::Forward) {
    const ConvolutionSizes::Axis &y = plan.sizes.axes[1], &x = plan.sizes.axes[2];
    images = {source, isForward ? y.positions : y.windows, isForward ? x.positions : x.windows,
              plan.depth};
    rows = isForward ? y.windows : y.positions;
    columns = isForward ? x.windows : x.positions;
    // The gradient is the convolution of the output with the filter turned around.
    padRows = isForward ? y.pad : y.taps - 1 - y.pad;
    padColumns = isForward ? x.pad : x.taps - 1 - x.pad;
  }

  void run() {
    packed = static_cast<float *>(pool.shared(0, size_t(plan.sharedFloats() * 4)));
    const int64_t pieces = ceilDiv(plan.depth, plan.packedDepth);
    pool.parallelFor(plan.panels() * pieces, 1, [&](unsigned worker, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack(i / pieces, i % pieces * plan.packedDepth, scratchOf(worker));
    });
    const int64_t blocks = ceilDiv(plan.tiles.count, plan.block);
    // Where there are too few blocks, threads share them, some panels each.
    const int64_t shares =
        std::clamp<int64_t>(ceilDiv(2 * int64_t(pool.size()), blocks), 1, plan.panels());
    pool.parallelFor(blocks * shares, 1, [&](unsigned worker, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        compute(Cuts(plan.tiles.count, plan.block).range(i / shares),
                {Cuts::cut(plan.panels(), i % shares, shares),
                 Cuts::cut(plan.panels(), i % shares + 1, shares)},
                scratchOf(worker));
    });
  }

private:
  float *scratchOf(unsigned worker) const {
    return static_cast<float *>(pool.scratch(worker, size_t(plan.threadFloats() * 4)));
  }
  float *panelAt(int64_t value, int64_t panel) const {
    return packed + (value * plan.panels() + panel) * plan.tile.panelN() * plan.depth;
  }

  /// Some of the depth of a panel's filters, transformed.
  void pack(int64_t panel, int64_t first, float *scratch) const {
    const int64_t width = plan.tile.panelN(), channels = plan.sizes.channels;
    const int64_t count = std::min(width, plan.width - panel * width);
    const int64_t length = std::min(plan.packedDepth, plan.depth - first);
    const float *from[9];
    float *to[values];
    // A filter is [filters, taps, channels].
    auto transform = [&](int64_t number, int64_t channel, int64_t n) {
      for (int tap = 0; tap < 9; ++tap)
        from[tap] = filter + (number * 9 + (isForward ? tap : 8 - tap)) * channels + channel;
      kernels.convolution.winograd.taps(from, to, n);
    };
    if (isForward) {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t v = 0; v < values; ++v)
          to[v] = scratch + (v * width + i) * plan.packedDepth;
        transform(panel * width + i, first, length);
      }
      for (int64_t v = 0; v < values; ++v)
        kernels.pack(panelAt(v, panel) + first * width, scratch + v * width * plan.packedDepth,
                     plan.packedDepth, 1, int(count), int(width), length);
      return;
    }
    for (int64_t i = first; i < first + length; ++i) {
      for (int64_t v = 0; v < values; ++v) {
        to[v] = panelAt(v, panel) + i * width;
        std::fill(to[v] + count, to[v] + width, 0.0f);
      }
      transform(i, panel * width, count);
    }
  }

  void compute(const Cuts::Range &tiles, const Cuts::Range &panels, float *scratch) const {
    const int64_t count = tiles.size(), stride = plan.depthFloats();
    const int64_t valueFloats = count * stride;
    const int64_t productFloats = count * plan.tile.panelN() + WinogradTiles::gap;
    assert(count <= plan.block && "there is room for the tiles");
    float *positions = scratch, *products = positions + plan.positionFloats(),
          *zeros = products + plan.productFloats(),
          *unread = zeros + roundUp(std::max(plan.depth, plan.tile.panelN()), 16);
    std::fill_n(zeros, plan.depth, 0.0f);
    for (int64_t i = 0; i < count; ++i)
      transformPositions(kernels, images, {plan.tiles, tiles.begin + i}, padRows, padColumns, zeros,
                         positions + i * stride, valueFloats);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      multiply(panel, count, positions, products, productFloats);
      for (int64_t i = 0; i < count; ++i)
        store({plan.tiles, tiles.begin + i}, panel, products + i * plan.tile.panelN(),
              productFloats, unread);
    }
  }

  /// The products of a block's values with a panel of filters: of each, [count][panel].
  void multiply(int64_t panel, int64_t count, const float *positions, float *products,
                int64_t productFloats) const {
    const int64_t width = plan.tile.panelN(), lanes = plan.tile.lanes, stride = plan.depthFloats();
    const int64_t filters = std::min(width, plan.width - panel * width);
    const int vectors = int(ceilDiv(filters, lanes));
    const int tail = int(filters - (vectors - 1) * lanes);
    const int64_t longest = ceilDiv(plan.depth, ceilDiv(plan.depth, chainK));
    const int64_t parts = ceilDiv(count, std::min<int64_t>(plan.tile.rows, directRows));
    for (int64_t v = 0; v < values; ++v)
      for (int64_t k = 0; k < plan.depth; k += longest)
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t row = Cuts::cut(count, part, parts);
          const int64_t height = Cuts::cut(count, part + 1, parts) - row;
          kernels.micro[1][height - 1][vectors - 1](
              std::min(longest, plan.depth - k), positions + (v * count + row) * stride + k, stride,
              panelAt(v, panel) + k * width, products + v * productFloats + row * width, width,
              tail, 1.0f, k == 0 ? 0.0f : 1.0f);
        }
  }

  /// Results that are not there are stored where nobody reads them.
  void store(const TilePlace &place, int64_t panel, const float *products, int64_t valueFloats,
             float *unread) const {
    const int64_t width = plan.tile.panelN();
    const float *from[values];
    float *to[4];
    for (int64_t v = 0; v < values; ++v)
      from[v] = products + v * valueFloats;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const int64_t row = place.row + i, column = place.column + j;
        to[i * 2 + j] = row < rows && column < columns
                            ? result +
                                  ((place.sample * rows + row) * columns + column) * plan.width +
                                  panel * width
                            : unread;
      }
    kernels.convolution.winograd.results(from, to, std::min(width, plan.width - panel * width));
  }

  const WinogradProduct &plan;
  const GemmKernels &kernels;
  const float *filter;
  float *result;
  ThreadPool &pool;
  const bool isForward;
  Images images;
  int64_t rows, columns, padRows, padColumns;
  float *packed = nullptr;
};

/// The gradient for the filter: the transposed transforms, around products that sum up tiles.
class Sums {
public:
  Sums(const WinogradSums &plan, const GemmKernels &kernels, const float *input,
       const float *output, float *filter, ThreadPool &pool)
      : plan(plan), sizes(plan.sizes), kernels(kernels), filter(filter), pool(pool),
        images{input, sizes.axes[1].positions, sizes.axes[2].positions, sizes.channels},
        windows{output, sizes.axes[1].windows, sizes.axes[2].windows, sizes.filters} {
    inputs = static_cast<float *>(pool.shared(0, size_t(plan.sharedFloats() * 4)));
    outputs = inputs + plan.inputFloats();
    sums = outputs + plan.outputFloats();
  }

  void run() const {
    const Cuts blocks(plan.tiles.count, plan.block);
    for (int64_t i = 0; i < blocks.parts; ++i) {
      const Cuts::Range block = blocks.range(i);
      pool.parallelFor(block.size(), 4, [&](unsigned worker, int64_t begin, int64_t end) {
        float *zeros = scratchOf(worker);
        std::fill_n(zeros, std::max(sizes.channels, sizes.filters), 0.0f);
        for (int64_t tile = begin; tile < end; ++tile)
          transform({plan.tiles, block.begin + tile}, tile, zeros);
      });
      pool.parallelFor(values * plan.panels(), 1, [&](unsigned, int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item)
          add(item / plan.panels(), item % plan.panels(), block.size(), i == 0);
      });
    }
    const Cuts channels(sizes.channels, plan.storedChannels);
    pool.parallelFor(
        plan.panels() * channels.parts, 1, [&](unsigned worker, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            store(i / channels.parts, channels.range(i % channels.parts), scratchOf(worker));
        });
  }

private:
  float *scratchOf(unsigned worker) const {
    return static_cast<float *>(pool.scratch(worker, size_t(plan.threadFloats() * 4)));
  }
  float *outputsAt(int64_t value, int64_t panel) const {
    return outputs +
           (value * plan.panels() + panel) * (plan.block * plan.tile.panelN() + WinogradTiles::gap);
  }
  float *sumsAt(int64_t value, int64_t panel) const {
    return sums + (value * plan.panels() + panel) * sizes.channels * plan.tile.panelN();
  }

  void transform(const TilePlace &place, int64_t index, const float *zeros) const {
    transformPositions(kernels, images, place, sizes.axes[1].pad, sizes.axes[2].pad, zeros,
                       inputs + index * sizes.channels,
                       plan.block * sizes.channels + WinogradTiles::gap);
    const int64_t width = plan.tile.panelN();
    for (int64_t panel = 0; panel < plan.panels(); ++panel) {
      const int64_t filters = std::min(width, sizes.filters - panel * width);
      const float *from[4];
      float *to[values];
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
          from[i * 2 + j] =
              windows.at(place.sample, place.row + i, place.column + j, zeros) + panel * width;
      for (int64_t v = 0; v < values; ++v) {
        to[v] = outputsAt(v, panel) + index * width;
        std::fill(to[v] + filters, to[v] + width, 0.0f);
      }
      kernels.convolution.winograd.outputs(from, to, filters);
    }
  }

  /// To the sums of a value by a panel of filters: [channels][panel].
  void add(int64_t value, int64_t panel, int64_t count, bool isFirst) const {
    const int64_t width = plan.tile.panelN();
    const int64_t filters = std::min(width, sizes.filters - panel * width);
    const int vectors = int(ceilDiv(filters, plan.tile.lanes));
    float *to = sumsAt(value, panel);
    if (isFirst)
      std::fill_n(to, sizes.channels * width, 0.0f);
    const float *from = inputs + value * (plan.block * sizes.channels + WinogradTiles::gap);
    const int64_t parts = ceilDiv(sizes.channels, plan.tile.rows);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = Cuts::cut(sizes.channels, part, parts);
      const int64_t height = Cuts::cut(sizes.channels, part + 1, parts) - first;
      kernels.convolution.sum[height - 1][vectors - 1](1, count, from + first, 0, sizes.channels,
                                                       outputsAt(value, panel), to + first * width);
    }
  }

  /// Sums to taps, and these to [filters, taps, channels].
  void store(int64_t panel, const Cuts::Range &channels, float *scratch) const {
    const int64_t width = plan.tile.panelN(), all = sizes.channels, size = channels.size();
    const int64_t filters = std::min(width, sizes.filters - panel * width);
    const int64_t piece = plan.storedChannels * width;
    for (int64_t c = 0; c < size; ++c) {
      const float *from[values];
      float *to[9];
      for (int64_t v = 0; v < values; ++v)
        from[v] = sumsAt(v, panel) + (channels.begin + c) * width;
      for (int64_t tap = 0; tap < 9; ++tap)
        to[tap] = scratch + tap * piece + c * width;
      kernels.convolution.winograd.tapSums(from, to, filters);
    }
    float *turned = scratch + 9 * piece;
    for (int64_t tap = 0; tap < 9; ++tap) {
      kernels.pack(turned, scratch + tap * piece, width, 1, int(size), int(plan.storedChannels),
                   filters);
      for (int64_t f = 0; f < filters; ++f)
        std::copy_n(turned + f * plan.storedChannels, size,
                    filter + ((panel * width + f) * 9 + tap) * all + channels.begin);
    }
  }

  const WinogradSums &plan;
  const ConvolutionSizes &sizes;
  const GemmKernels &kernels;
  float *filter;
  ThreadPool &pool;
  const Images images, windows;
  float *inputs, *outputs, *sums;
};

} // namespace

void winogradF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                 ThreadPool &pool, const GemmKernels &kernels) {
  assert(WinogradTiles::areUsed(sizes) && "it has tiles");
  const GemmTile tile = {kernels.lanes, kernels.rows, kernels.vectors};
  if (sizes.kind == Convolution::Kind::Filter) {
    const WinogradSums plan(sizes, tile);
    Sums(plan, kernels, input, output, filter, pool).run();
    return;
  }
  const WinogradProduct plan(sizes, tile);
  const bool isForward = sizes.kind == Convolution::Kind::Forward;
  Product(plan, kernels, isForward ? input : output, filter, isForward ? output : input, pool)
      .run();
}

} // namespace trainrt
