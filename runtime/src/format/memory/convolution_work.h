// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a convolution on the CPU is cut into pieces, and what these need beside the operands. Without
// the kernels, so that the compiler can tell the memory that a convolution will need.
#ifndef TRAINRT_FORMAT_MEMORY_CONVOLUTION_WORK_H
#define TRAINRT_FORMAT_MEMORY_CONVOLUTION_WORK_H

#include "format/commands/convolution.h"
#include "format/memory/gemm_problem.h"

#include <array>
#include <cstdint>
#include <vector>

namespace trainrt {

/// A convolution or one of its gradients. All have three axes of positions; those that are not
/// there have one position. None of the operands is empty.
struct ConvolutionSizes {
  using Axis = ConvolutionView::Axis;
  static constexpr Axis noAxis = {1, 1, 1, 1, 1, 0};

  Convolution::Kind kind = Convolution::Kind::Forward;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  std::array<Axis, 3> axes = {noAxis, noAxis, noAxis};

  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int64_t groupChannels() const { return channels / groups; }
  int64_t groupFilters() const { return filters / groups; }
  /// A filter for each channel: the channels are what a vector runs along.
  bool isDepthwise() const { return groups == channels && groups == filters && groups > 1; }
};

/// The gradient for a depthwise filter: sums over some samples, which are then added up in order.
struct DepthwiseParts {
  explicit DepthwiseParts(const ConvolutionSizes &sizes);
  int64_t samples;  ///< at a time
  int64_t parts;    ///< of the batch
  int64_t channels; ///< of a thread, at a time
  int64_t sums;     ///< floats of one part
  int64_t floats() const { return parts * sums; }
};

/// Results of which each is a sum over the same taps: all of a convolution's, or every `stride`-th
/// one of its gradient for the input.
struct ConvolutionPhase {
  /// What is read at result i of an axis through tap `index`: position i * `sourceStep` + `offset`.
  struct Tap {
    int64_t index, offset;
  };
  struct Axis {
    int64_t first, step, count; ///< where the results are
    int64_t sourceStep, sourceSize;
    std::vector<Tap> taps; ///< by offset

    int64_t lowest() const { return taps.front().offset; }
    int64_t span() const { return taps.back().offset - taps.front().offset + 1; }
  };
  std::array<Axis, 3> axes;

  bool isEmpty() const { return axes[0].count == 0 || axes[1].count == 0 || axes[2].count == 0; }
  int64_t taps() const {
    return int64_t(axes[0].taps.size() * axes[1].taps.size() * axes[2].taps.size());
  }
};

/// Those of a convolution or of its gradient for the input.
std::vector<ConvolutionPhase> convolutionPhases(const ConvolutionSizes &sizes);

/// Results that a thread computes from one copy of what they read, surrounded by zeros: some
/// samples, rows (the second axis) and columns (the third one) of them.
struct ConvolutionBlock {
  int64_t samples = 1, rows = 1, columns = 1;
};

/// A convolution, or its gradient for the input: as a matmul of windows by filters whose windows
/// are read where they lie.
struct ConvolutionProduct {
  ConvolutionProduct(const ConvolutionSizes &sizes, const GemmTile &tile);

  const ConvolutionSizes sizes;
  const GemmTile tile;
  /// Of a group: what is summed up and what is made.
  int64_t depth, width;
  std::vector<ConvolutionPhase> phases;
  std::vector<ConvolutionBlock> blocks; ///< of each phase

  /// Floats from one position of a copied block to the next.
  int64_t positionFloats() const;
  int64_t blockFloats(const ConvolutionPhase &phase, const ConvolutionBlock &block) const;
  int64_t panels() const { return ceilDiv(width, tile.panelN()); }
  /// All filters, packed.
  int64_t sharedFloats() const {
    return sizes.groups * panels() * tile.panelN() * sizes.taps() * depth;
  }
  int64_t threadFloats() const;
};

/// The gradient for the filter: each thread sums up some channels by some filters, over all
/// windows.
struct ConvolutionSums {
  ConvolutionSums(const ConvolutionSizes &sizes, const GemmTile &tile, unsigned threads);

  const ConvolutionSizes sizes;
  const GemmTile tile;
  int64_t channels;       ///< of a group, at a time; the filters are a panel's
  ConvolutionBlock block; ///< of windows; one sample

  int64_t blockFloats() const;
  int64_t windowFloats() const { return block.rows * block.columns * tile.panelN(); }
  int64_t sumFloats() const { return roundUp(sizes.taps() * channels, 16) * tile.panelN(); }
  int64_t threadFloats() const {
    return roundUp(blockFloats(), 16) + roundUp(windowFloats(), 16) + sumFloats();
  }
};

/// Floats that threads share, and those of each of them.
struct ConvolutionMemory {
  int64_t shared = 0, thread = 0;
};
ConvolutionMemory convolutionMemory(const ConvolutionSizes &sizes, const GemmTile &tile,
                                    unsigned threads);

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_CONVOLUTION_WORK_H
