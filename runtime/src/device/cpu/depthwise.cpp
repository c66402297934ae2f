// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions with a filter for each channel. A vector runs along the channels, so that taps are
// vectors at other places: nothing is copied, and zeros around the input are taps left out.
#include "device/cpu/convolution_parts.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"

#include <algorithm>
#include <cassert>
#include <span>

namespace trainrt {

namespace {

using Phase = ConvolutionPhase;

/// Results [begin, end) of an axis whose tap reads within the source.
Cuts::Range inside(const Phase::Axis &axis, const Phase::Tap &tap) {
  const int64_t step = axis.sourceStep;
  const int64_t begin = tap.offset >= 0 ? 0 : ceilDiv(-tap.offset, step);
  const int64_t end =
      tap.offset >= axis.sourceSize ? 0 : ceilDiv(axis.sourceSize - tap.offset, step);
  return {std::min(begin, axis.count), std::clamp(end, std::min(begin, axis.count), axis.count)};
}

/// A convolution or its gradient for the input.
struct ImageLines {
  const ConvolutionSizes &sizes;
  const float *source, *weights; ///< weights [taps, channels]
  float *result;
  const GemmKernels &kernels;

  /// Phases of the same lines: what they write lies between each other.
  void run(std::span<const Phase> phases, ThreadPool &pool) const {
    const auto &[planes, rows, columns] = phases.front().axes;
    const int64_t work = columns.count * sizes.channels * sizes.taps();
    pool.parallelFor(sizes.batch * planes.count * rows.count,
                     std::max<int64_t>(1, parallelWork / 16 / work),
                     [&](unsigned, int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i)
                         for (const Phase &phase : phases)
                           line(phase, i / rows.count / planes.count, i / rows.count % planes.count,
                                i % rows.count);
                     });
  }

  /// Columns that the same taps reach are computed together.
  void line(const Phase &phase, int64_t sample, int64_t plane, int64_t row) const {
    const Phase::Axis &axis = phase.axes[2];
    std::vector<int64_t> cuts = {0, axis.count};
    for (const Phase::Tap &tap : axis.taps) {
      const Cuts::Range range = inside(axis, tap);
      cuts.push_back(range.begin);
      cuts.push_back(range.end);
    }
    std::ranges::sort(cuts);
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      if (cuts[i] < cuts[i + 1])
        columns(phase, sample, plane, row, {cuts[i], cuts[i + 1]});
  }

  void columns(const Phase &phase, int64_t sample, int64_t plane, int64_t row,
               const Cuts::Range &range) const {
    const auto &[d, h, w] = phase.axes;
    std::vector<int64_t> at, weightAt;
    auto has = [](const Cuts::Range &reached, int64_t i) {
      return i >= reached.begin && i < reached.end;
    };
    for (const Phase::Tap &i : d.taps)
      for (const Phase::Tap &j : h.taps)
        for (const Phase::Tap &k : w.taps) {
          if (!has(inside(d, i), plane) || !has(inside(h, j), row) ||
              !has(inside(w, k), range.begin))
            continue;
          const int64_t line =
              (sample * d.sourceSize + plane * d.sourceStep + i.offset) * h.sourceSize +
              row * h.sourceStep + j.offset;
          const int64_t position = line * w.sourceSize + range.begin * w.sourceStep + k.offset;
          at.push_back(position * sizes.channels);
          weightAt.push_back(
              ((i.index * sizes.axes[1].taps + j.index) * sizes.axes[2].taps + k.index) *
              sizes.channels);
        }
    const bool isForward = sizes.kind == Convolution::Kind::Forward;
    auto extent = [&](int i) {
      return isForward ? sizes.axes[i].windows : sizes.axes[i].positions;
    };
    int64_t to = sample * extent(0) + d.first + plane * d.step;
    to = to * extent(1) + h.first + row * h.step;
    to = to * extent(2) + w.first + range.begin * w.step;
    DepthwiseRow work = {source,
                         w.sourceStep * sizes.channels,
                         at.data(),
                         weights,
                         weightAt.data(),
                         int64_t(at.size()),
                         result + to * sizes.channels,
                         w.step * sizes.channels,
                         range.size(),
                         sizes.channels,
                         {},
                         0,
                         w.sourceStep * sizes.channels};
    // Of one plane: lines of more do not follow each other so.
    const int64_t read = row * h.sourceStep + (h.taps.empty() ? 0 : h.taps.back().offset);
    const int64_t end = std::min({read + h.sourceStep, h.sourceSize - 1, read + 2});
    for (int64_t next = std::max<int64_t>(read + 1, 0); d.sourceSize == 1 && next <= end; ++next)
      work.next[work.nextRows++] =
          source + ((sample * h.sourceSize + next) * w.sourceSize + range.begin * w.sourceStep) *
                       sizes.channels;
    kernels.convolution.depthwise(work);
  }
};

/// The gradient for the filter, of some samples at a time: window after window. Rows are read
/// whole; a thread has some channels of them where there are few samples.
struct DepthwiseSums {
  const ConvolutionSizes &sizes;
  const Phase phase;
  const float *input, *output;
  const GemmKernels &kernels;

  void run(float *filter, ThreadPool &pool) const {
    const DepthwiseParts plan(sizes);
    const Cuts samples(sizes.batch, plan.samples), channels(sizes.channels, plan.channels);
    const int64_t row = sizes.channels, taps = sizes.taps(), items = plan.parts * channels.parts;
    float *sums = static_cast<float *>(pool.shared(0, size_t(plan.floats() * 4)));
    pool.parallelFor(items, 1, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i / channels.parts;
        const Cuts::Range range = channels.range(i % channels.parts);
        float *to = sums + part * plan.sums + range.begin;
        for (int64_t tap = 0; tap < taps; ++tap)
          std::fill_n(to + tap * row, range.size(), 0.0f);
        add(samples.range(part), range, to);
      }
    });
    pool.parallelFor(row, std::max<int64_t>(1, parallelWork / 16 / (taps * plan.parts)),
                     [&](unsigned, int64_t begin, int64_t end) {
                       for (int64_t c = begin; c < end; ++c)
                         for (int64_t tap = 0; tap < taps; ++tap) {
                           float sum = 0;
                           for (int64_t part = 0; part < plan.parts; ++part)
                             sum += sums[part * plan.sums + tap * row + c];
                           filter[c * taps + tap] = sum;
                         }
                     });
  }

private:
  /// Samples to the sums [taps][channels].
  void add(const Cuts::Range &samples, const Cuts::Range &channels, float *sums) const {
    const auto &[d, h, w] = phase.axes;
    for (int64_t sample = samples.begin; sample < samples.end; ++sample)
      for (int64_t plane = 0; plane < d.count; ++plane)
        for (int64_t row = 0; row < h.count; ++row)
          for (const Phase::Tap &i : d.taps)
            for (const Phase::Tap &j : h.taps) {
              const int64_t inputPlane = plane * d.sourceStep + i.offset;
              const int64_t inputRow = row * h.sourceStep + j.offset;
              if (inputPlane < 0 || inputPlane >= d.sourceSize || inputRow < 0 ||
                  inputRow >= h.sourceSize)
                continue;
              const int64_t line = (sample * d.sourceSize + inputPlane) * h.sourceSize + inputRow;
              const int64_t window = ((sample * d.count + plane) * h.count + row) * w.count;
              const int64_t tap =
                  (i.index * int64_t(h.taps.size()) + j.index) * int64_t(w.taps.size());
              addLine(input + line * w.sourceSize * sizes.channels + channels.begin,
                      output + window * sizes.channels + channels.begin, channels.size(),
                      sums + tap * sizes.channels);
            }
  }

  /// Taps side by side share the columns that all of them reach; the others come behind these.
  void addLine(const float *from, const float *windows, int64_t count, float *sums) const {
    const Phase::Axis &w = phase.axes[2];
    const int64_t step = w.sourceStep * sizes.channels;
    const int64_t tapStep =
        w.taps.size() > 1 ? (w.taps[1].offset - w.taps[0].offset) * sizes.channels : 0;
    auto add = [&](size_t tap, size_t taps, int64_t begin, int64_t end) {
      if (begin < end)
        kernels.convolution.depthwiseSum[taps - 1](
            end - begin, from + begin * step + w.taps[tap].offset * sizes.channels, step, tapStep,
            windows + begin * sizes.channels, sizes.channels, count,
            sums + int64_t(tap) * sizes.channels, sizes.channels);
    };
    for (size_t tap = 0; tap < w.taps.size(); tap += ConvolutionKernels::maxTaps) {
      const size_t taps = std::min<size_t>(ConvolutionKernels::maxTaps, w.taps.size() - tap);
      const int64_t begin = inside(w, w.taps[tap]).begin;
      const int64_t end = std::max(begin, inside(w, w.taps[tap + taps - 1]).end);
      add(tap, taps, begin, end);
      for (size_t one = tap; one < tap + taps; ++one) {
        const Cuts::Range range = inside(w, w.taps[one]);
        add(one, 1, range.begin, std::min(begin, range.end));
        add(one, 1, std::max(end, range.begin), range.end);
      }
    }
  }
};

} // namespace

void depthwiseF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                  ThreadPool &pool, const GemmKernels &kernels) {
  assert(sizes.isDepthwise() && "a filter for each channel");
  const int64_t taps = sizes.taps(), channels = sizes.channels;
  if (sizes.kind == Convolution::Kind::Filter) {
    ConvolutionSizes forward = sizes;
    forward.kind = Convolution::Kind::Forward;
    DepthwiseSums{sizes, convolutionPhases(forward).front(), input, output, kernels}.run(filter,
                                                                                         pool);
    return;
  }
  float *weights = static_cast<float *>(pool.shared(0, size_t(taps * channels * 4)));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < taps; ++tap)
      weights[tap * channels + c] = filter[c * taps + tap];
  const bool isForward = sizes.kind == Convolution::Kind::Forward;
  const ImageLines lines = {sizes, isForward ? input : output, weights, isForward ? output : input,
                            kernels};
  const std::vector<Phase> phases = convolutionPhases(sizes);
  for (std::span<const Phase> rest = phases; !rest.empty();) {
    const auto &[planes, rows, columns] = rest.front().axes;
    const auto end = std::ranges::find_if(rest, [&](const Phase &phase) {
      return phase.axes[0].first != planes.first || phase.axes[1].first != rows.first;
    });
    const size_t count = size_t(end - rest.begin());
    lines.run(rest.first(count), pool);
    rest = rest.subspan(count);
  }
}

} // namespace trainrt
