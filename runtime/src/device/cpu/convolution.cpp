// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions as matmuls whose windows are never laid out in memory. With the channels last the
// channels of a tap are a run of a matmul's k: the GEMM's micro kernels read them where they are, a
// window a row. What is in memory beside the operands is a packed filter, and for each thread the
// part of the input that it works on, surrounded by zeros (in its L2).
#include "device/cpu/convolution.h"

#include "device/cpu/choose_kernels.h"
#include "device/cpu/convolution_parts.h"
#include "device/cpu/gemm_kernels.h"
#include "device/cpu/winograd.h"
#include "device/thread_pool.h"
#include "format/memory/winograd_work.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

/// Longest chain of k in registers, as the GEMM has it.
constexpr int64_t chainK = 256;
/// Height of a tile whose rows are read in place (gemm.cpp).
constexpr int directRows = 8;

/// A run of k: where its source is, behind that of its window, and its filters.
struct Run {
  int64_t source, filter, length;
};

/// A convolution or its gradient for the input.
class Product {
public:
  Product(const ConvolutionProduct &plan, const GemmKernels &kernels, const float *source,
          const float *filter, float *result, ThreadPool &pool)
      : plan(plan), sizes(plan.sizes), kernels(kernels), source(source), filter(filter),
        result(result), pool(pool), isForward(sizes.kind == Convolution::Kind::Forward),
        sourceChannels(isForward ? sizes.channels : sizes.filters),
        resultChannels(isForward ? sizes.filters : sizes.channels) {
    for (int i = 0; i < 3; ++i)
      resultExtents[i] = isForward ? sizes.axes[i].windows : sizes.axes[i].positions;
  }

  void run() {
    packed = static_cast<float *>(pool.shared(0, size_t(plan.sharedFloats() * 4)));
    pool.parallelFor(sizes.groups * plan.panels(), 1, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack(i / plan.panels(), i % plan.panels());
    });
    firstTap = 0;
    for (size_t i = 0; i < plan.phases.size(); ++i) {
      const ConvolutionPhase &phase = plan.phases[i];
      if (phase.taps() == 0)
        clear(phase);
      else
        compute(phase, plan.blocks[i]);
      firstTap += phase.taps();
    }
  }

private:
  /// The filters of a panel: [k][panelN], phase after phase, tap after tap.
  void pack(int64_t group, int64_t panel) const {
    const int64_t width = plan.tile.panelN(), taps = sizes.taps(), depth = plan.depth;
    const int count = int(std::min(width, plan.width - panel * width));
    float *to = packed + (group * plan.panels() + panel) * width * taps * depth;
    // A filter is [filters, taps, channels of a group].
    const int64_t channels = sizes.groupChannels(), row = taps * channels;
    const float *from = filter + group * sizes.groupFilters() * row;
    if (isForward) {
      kernels.pack(to, from + panel * width * row, row, 1, count, int(width), taps * depth);
      return;
    }
    for (const ConvolutionPhase &phase : plan.phases)
      for (const auto &i : phase.axes[0].taps)
        for (const auto &j : phase.axes[1].taps)
          for (const auto &k : phase.axes[2].taps) {
            const int64_t tap =
                (i.index * sizes.axes[1].taps + j.index) * sizes.axes[2].taps + k.index;
            kernels.pack(to, from + tap * channels + panel * width, 1, row, count, int(width),
                         depth);
            to += depth * width;
          }
  }

  float *resultAt(const ConvolutionPhase &phase, int64_t sample, int64_t plane, int64_t row,
                  int64_t column) const {
    const auto &[p, r, c] = phase.axes;
    int64_t at = sample * resultExtents[0] + p.first + plane * p.step;
    at = at * resultExtents[1] + r.first + row * r.step;
    at = at * resultExtents[2] + c.first + column * c.step;
    return result + at * resultChannels;
  }

  /// No window reaches these.
  void clear(const ConvolutionPhase &phase) const {
    const auto &[planes, rows, columns] = phase.axes;
    const int64_t lines = sizes.batch * planes.count * rows.count;
    pool.parallelFor(lines, 16, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line)
        for (int64_t column = 0; column < columns.count; ++column)
          std::fill_n(resultAt(phase, line / rows.count / planes.count,
                               line / rows.count % planes.count, line % rows.count, column),
                      resultChannels, 0.0f);
    });
  }

  void compute(const ConvolutionPhase &phase, const ConvolutionBlock &block) const {
    const auto &[planes, rows, columns] = phase.axes;
    const Cuts samples(sizes.batch, block.samples), lines(rows.count, block.rows),
        parts(columns.count, block.columns);
    const int64_t blocks = samples.parts * planes.count * lines.parts * parts.parts * sizes.groups;
    // Where there are too few blocks, threads share them, some panels each.
    const int64_t shares =
        std::clamp<int64_t>(ceilDiv(4 * int64_t(pool.size()), blocks), 1, plan.panels());
    pool.parallelFor(blocks * shares, 1, [&](unsigned worker, int64_t begin, int64_t end) {
      float *scratch = static_cast<float *>(pool.scratch(worker, size_t(plan.threadFloats() * 4)));
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i;
        auto next = [&](int64_t extent) {
          const int64_t index = rest % extent;
          rest /= extent;
          return index;
        };
        const int64_t share = next(shares), group = next(sizes.groups);
        ConvolutionPart part;
        part.columns = parts.range(next(parts.parts));
        part.rows = lines.range(next(lines.parts));
        part.plane = next(planes.count);
        part.samples = samples.range(rest);
        computePart(phase, part, group, Cuts::cut(plan.panels(), share, shares),
                    Cuts::cut(plan.panels(), share + 1, shares), scratch);
      }
    });
  }

  /// k of a phase in runs: all taps of a row where they are neighbours and short, else one each,
  /// cut into parts of at most chainK. Depends on sizes alone.
  std::vector<Run> runsOf(const ConvolutionPhase &phase, const ConvolutionSource &from) const {
    const int64_t width = plan.tile.panelN();
    const auto &last = phase.axes[2];
    const bool merged = isMerged(phase);
    std::vector<Run> runs;
    int64_t k = firstTap * plan.depth;
    for (const auto &i : phase.axes[0].taps)
      for (const auto &j : phase.axes[1].taps)
        for (size_t t = 0; t < (merged ? 1 : last.taps.size()); ++t) {
          const int64_t length = plan.depth * (merged ? int64_t(last.taps.size()) : 1);
          const int64_t longest = ceilDiv(length, ceilDiv(length, chainK));
          const int64_t at = (i.offset - phase.axes[0].lowest()) * from.plane +
                             (j.offset - phase.axes[1].lowest()) * from.row +
                             (last.taps[t].offset - last.lowest()) * from.position;
          for (int64_t done = 0; done < length; done += longest)
            runs.push_back({at + done, (k + done) * width, std::min(longest, length - done)});
          k += length;
        }
    assert(k == (firstTap + phase.taps()) * plan.depth && "runs cover the phase's k");
    return runs;
  }

  bool isMerged(const ConvolutionPhase &phase) const {
    const auto &last = phase.axes[2];
    return last.taps.size() > 1 && last.span() == int64_t(last.taps.size()) &&
           int64_t(last.taps.size()) * plan.depth <= chainK;
  }

  void computePart(const ConvolutionPhase &phase, const ConvolutionPart &part, int64_t group,
                   int64_t panel0, int64_t panel1, float *scratch) const {
    const ConvolutionSource from =
        readPart(phase, part,
                 {source, sourceChannels, group * plan.depth, plan.depth, plan.positionFloats(),
                  /*inPlace=*/!isMerged(phase) || sourceChannels == plan.depth},
                 scratch);
    const std::vector<Run> runs = runsOf(phase, from);
    const int64_t width = plan.tile.panelN(), lanes = plan.tile.lanes;
    const auto &[planes, rows, columns] = phase.axes;
    const int64_t numColumns = part.columns.size();
    const int64_t tiles = ceilDiv(numColumns, std::min(plan.tile.rows, directRows));
    for (int64_t panel = panel0; panel < panel1; ++panel) {
      const int64_t filters = std::min(width, plan.width - panel * width);
      const int vectors = int(ceilDiv(filters, lanes));
      const int tail = int(filters - (vectors - 1) * lanes);
      const float *panelAt =
          packed + (group * plan.panels() + panel) * width * sizes.taps() * plan.depth;
      // A run of the panel stays in L1 while the windows of the block go by.
      for (const Run &run : runs) {
        const float keep = &run == &runs.front() ? 0.0f : 1.0f;
        for (int64_t sample = part.samples.begin; sample < part.samples.end; ++sample)
          for (int64_t row = part.rows.begin; row < part.rows.end; ++row) {
            const float *rowAt = from.data + run.source +
                                 (sample - part.samples.begin) * from.sample +
                                 (row - part.rows.begin) * rows.sourceStep * from.row;
            float *to = resultAt(phase, sample, part.plane, row, part.columns.begin) +
                        group * plan.width + panel * width;
            const int64_t aStride = columns.sourceStep * from.position;
            const int64_t cStride = columns.step * resultChannels;
            for (int64_t tile = 0; tile < tiles; ++tile) {
              const int64_t column = Cuts::cut(numColumns, tile, tiles);
              const int64_t height = Cuts::cut(numColumns, tile + 1, tiles) - column;
              kernels.micro[1][height - 1][vectors - 1](
                  run.length, rowAt + column * aStride, aStride, panelAt + run.filter,
                  to + column * cStride, cStride, tail, 1.0f, keep);
            }
          }
      }
    }
  }

  const ConvolutionProduct &plan;
  const ConvolutionSizes &sizes;
  const GemmKernels &kernels;
  const float *source, *filter;
  float *result;
  ThreadPool &pool;
  const bool isForward;
  const int64_t sourceChannels, resultChannels;
  int64_t resultExtents[3];
  float *packed = nullptr;
  int64_t firstTap = 0; ///< of the phase
};

/// The gradient for the filter. A thread adds up all windows of some channels by a panel of
/// filters: sums [taps, channels][panel], from blocks of windows that are packed as the panel's k.
class Sums {
public:
  Sums(const ConvolutionSums &plan, const GemmKernels &kernels, const float *input,
       const float *output, float *filter, ThreadPool &pool)
      : plan(plan), sizes(plan.sizes), kernels(kernels), input(input), output(output),
        filter(filter), pool(pool), phase(windowsOf(plan.sizes)) {}

  void run() const {
    const int64_t width = plan.tile.panelN();
    const int64_t panels = ceilDiv(sizes.groupFilters(), width);
    const Cuts channels(sizes.groupChannels(), plan.channels);
    pool.parallelFor(sizes.groups * panels * channels.parts, 1,
                     [&](unsigned worker, int64_t begin, int64_t end) {
                       float *scratch = static_cast<float *>(
                           pool.scratch(worker, size_t(plan.threadFloats() * 4)));
                       for (int64_t i = begin; i < end; ++i)
                         sum(i / channels.parts / panels, i / channels.parts % panels * width,
                             channels.range(i % channels.parts), scratch);
                     });
  }

private:
  static ConvolutionPhase windowsOf(ConvolutionSizes sizes) {
    sizes.kind = Convolution::Kind::Forward;
    return convolutionPhases(sizes).front();
  }

  /// Whether the taps of a row are one run of the sums' rows: neighbours in the source.
  bool isMerged() const { return sizes.axes[2].taps > 1 && sizes.axes[2].dilation == 1; }

  void sum(int64_t group, int64_t filter0, const Cuts::Range &channels, float *scratch) const {
    assert(channels.size() <= plan.channels && "there is room for the sums");
    float *sums = scratch, *packed = sums + plan.sumFloats(),
          *copied = packed + roundUp(plan.windowFloats(), 16);
    std::fill_n(sums, sizes.taps() * channels.size() * plan.tile.panelN(), 0.0f);
    const auto &[planes, rows, columns] = phase.axes;
    const Cuts lines(rows.count, plan.block.rows), parts(columns.count, plan.block.columns);
    ConvolutionPart part;
    for (int64_t sample = 0; sample < sizes.batch; ++sample)
      for (part.plane = 0; part.plane < planes.count; ++part.plane)
        for (int64_t line = 0; line < lines.parts; ++line)
          for (int64_t column = 0; column < parts.parts; ++column) {
            part.samples = {sample, sample + 1};
            part.rows = lines.range(line);
            part.columns = parts.range(column);
            addPart(part, group, filter0, channels, sums, packed, copied);
          }
    store(group, filter0, channels, sums);
  }

  void addPart(const ConvolutionPart &part, int64_t group, int64_t filter0,
               const Cuts::Range &channels, float *sums, float *packed, float *copied) const {
    const int64_t size = channels.size(), width = plan.tile.panelN();
    const ConvolutionSource from =
        readPart(phase, part,
                 {input, sizes.channels, group * sizes.groupChannels() + channels.begin, size, size,
                  /*inPlace=*/!isMerged() || sizes.channels == size},
                 copied);
    const int count = int(std::min(width, sizes.groupFilters() - filter0));
    const int vectors = int(ceilDiv(count, plan.tile.lanes));
    const auto &[planes, rows, columns] = phase.axes;
    float *to = packed;
    for (int64_t row = part.rows.begin; row < part.rows.end; ++row) {
      const int64_t at =
          ((part.samples.begin * planes.count + part.plane) * rows.count + row) * columns.count +
          part.columns.begin;
      kernels.pack(to, output + at * sizes.filters + group * sizes.groupFilters() + filter0, 1,
                   sizes.filters, count, int(width), part.columns.size());
      to += part.columns.size() * width;
    }
    const int64_t runs = isMerged() ? 1 : sizes.axes[2].taps;
    const int64_t length = sizes.axes[2].taps / runs * size;
    const int64_t tiles = ceilDiv(length, plan.tile.rows);
    for (int64_t i = 0; i < sizes.axes[0].taps; ++i)
      for (int64_t j = 0; j < sizes.axes[1].taps; ++j)
        for (int64_t k = 0; k < runs; ++k, sums += length * width) {
          const float *at = from.data + i * sizes.axes[0].dilation * from.plane +
                            j * sizes.axes[1].dilation * from.row +
                            k * sizes.axes[2].dilation * from.position;
          for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t first = Cuts::cut(length, tile, tiles);
            const int64_t height = Cuts::cut(length, tile + 1, tiles) - first;
            kernels.convolution.sum[height - 1][vectors - 1](
                part.rows.size(), part.columns.size(), at + first, rows.sourceStep * from.row,
                columns.sourceStep * from.position, packed, sums + first * width);
          }
        }
  }

  /// [taps, channels][panel] to [filters, taps, channels].
  void store(int64_t group, int64_t filter0, const Cuts::Range &channels, const float *sums) const {
    const int64_t width = plan.tile.panelN(), all = sizes.groupChannels();
    const int64_t count = std::min(width, sizes.groupFilters() - filter0);
    float *to =
        filter + (group * sizes.groupFilters() + filter0) * sizes.taps() * all + channels.begin;
    for (int64_t tap = 0; tap < sizes.taps(); ++tap)
      for (int64_t f = 0; f < count; ++f) {
        const float *from = sums + tap * channels.size() * width + f;
        float *row = to + (f * sizes.taps() + tap) * all;
        for (int64_t c = 0; c < channels.size(); ++c)
          row[c] = from[c * width];
      }
  }

  const ConvolutionSums &plan;
  const ConvolutionSizes &sizes;
  const GemmKernels &kernels;
  const float *input, *output;
  float *filter;
  ThreadPool &pool;
  const ConvolutionPhase phase;
};

} // namespace

void convolutionF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                    ThreadPool &pool, const GemmKernels &kernels) {
  assert(input && filter && output && sizes.batch > 0 && "nothing is empty");
  assert(sizes.channels % sizes.groups == 0 && sizes.filters % sizes.groups == 0 &&
         "groups are equal");
  const GemmTile tile = {kernels.lanes, kernels.rows, kernels.vectors};
  if (sizes.isDepthwise()) {
    depthwiseF32(sizes, input, filter, output, pool, kernels);
  } else if (WinogradTiles::areUsed(sizes)) {
    winogradF32(sizes, input, filter, output, pool, kernels);
  } else if (sizes.kind == Convolution::Kind::Filter) {
    const ConvolutionSums plan(sizes, tile, pool.size());
    Sums(plan, kernels, input, output, filter, pool).run();
  } else {
    const ConvolutionProduct plan(sizes, tile);
    const bool isForward = sizes.kind == Convolution::Kind::Forward;
    Product(plan, kernels, isForward ? input : output, filter, isForward ? output : input, pool)
        .run();
  }
}

void convolutionF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                    ThreadPool &pool) {
  static const GemmKernels *const kernels =
      chooseKernels(gemmKernelsAvx512(), gemmKernelsAvx2(), gemmKernelsNeon());
  convolutionF32(sizes, input, filter, output, pool, *kernels);
}

} // namespace trainrt
