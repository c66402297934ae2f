// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a piece of a convolution reads.
#include "device/cpu/convolution_parts.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

/// Positions of one axis of the source that a part reads; some may be outside of it.
struct Reach {
  int64_t first, count, size;

  Reach(const ConvolutionPhase::Axis &axis, int64_t begin, int64_t end)
      : first(begin * axis.sourceStep + axis.lowest()),
        count((end - 1 - begin) * axis.sourceStep + axis.span()), size(axis.sourceSize) {}

  bool isInside() const { return first >= 0 && first + count <= size; }
  bool has(int64_t i) const { return first + i >= 0 && first + i < size; }
  /// Those before the source, and the end of those within it.
  int64_t before() const { return std::clamp<int64_t>(-first, 0, count); }
  int64_t end() const { return std::clamp<int64_t>(size - first, before(), count); }
};

void copyPositions(float *to, const float *from, int64_t positions,
                   const ConvolutionChannels &channels) {
  if (channels.count == channels.all && channels.count == channels.position) {
    std::copy_n(from, positions * channels.count, to);
    return;
  }
  for (int64_t i = 0; i < positions; ++i, from += channels.all, to += channels.position)
    std::copy_n(from, channels.count, to);
}

} // namespace

ConvolutionSource readPart(const ConvolutionPhase &phase, const ConvolutionPart &part,
                           const ConvolutionChannels &channels, float *scratch) {
  assert(phase.taps() > 0 && part.rows.size() > 0 && part.columns.size() > 0 &&
         "something is read");
  const Reach planes(phase.axes[0], part.plane, part.plane + 1),
      rows(phase.axes[1], part.rows.begin, part.rows.end),
      columns(phase.axes[2], part.columns.begin, part.columns.end);
  auto sourceAt = [&](int64_t sample, int64_t plane, int64_t row, int64_t column) {
    const int64_t at =
        ((sample * planes.size + planes.first + plane) * rows.size + rows.first + row) *
            columns.size +
        columns.first + column;
    return channels.source + at * channels.all + channels.first;
  };
  if (channels.inPlace && planes.isInside() && rows.isInside() && columns.isInside()) {
    const int64_t row = columns.size * channels.all, plane = rows.size * row;
    return {sourceAt(part.samples.begin, 0, 0, 0), planes.size * plane, plane, row, channels.all};
  }
  float *to = scratch;
  const int64_t rowFloats = columns.count * channels.position;
  for (int64_t sample = part.samples.begin; sample < part.samples.end; ++sample)
    for (int64_t plane = 0; plane < planes.count; ++plane)
      for (int64_t row = 0; row < rows.count; ++row, to += rowFloats) {
        if (!planes.has(plane) || !rows.has(row)) {
          std::fill_n(to, rowFloats, 0.0f);
          continue;
        }
        const int64_t before = columns.before(), end = columns.end();
        std::fill_n(to, before * channels.position, 0.0f);
        if (end > before)
          copyPositions(to + before * channels.position, sourceAt(sample, plane, row, before),
                        end - before, channels);
        std::fill(to + end * channels.position, to + rowFloats, 0.0f);
      }
  const int64_t planeFloats = rows.count * rowFloats;
  return {scratch, planes.count * planeFloats, planeFloats, rowFloats, channels.position};
}

} // namespace trainrt
