// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the kernels for depthwise convolutions have in common: the rows that a block slides down,
// and how they come into shared memory. Included behind warp.h, or its emulation.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_STRIPS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_STRIPS_H

#include "device/cuda/kernels/depthwise_arguments.h"

#define TRAINRT_UNROLL _Pragma("clang loop unroll(full)")
/// Of a lambda: what it does with a phase is only known where it is called.
#define TRAINRT_INLINE __attribute__((always_inline))

namespace trainrt::cuda::device {

struct F32 {};
template <typename T> constexpr int bytesOf = 2;
template <> inline constexpr int bytesOf<F32> = 4;

/// A row of a tensor, of all images that a block has at once: where the first image's is, the
/// block's first channel, and how many positions from there on are of images. None: no row. A row
/// of the source may be the first one of its images: what was before has no part in it.
struct DepthwiseRow {
  uint64_t address;
  uint32_t limit, isNew;

  TRAINRT_DEVICE explicit DepthwiseRow(uint32_t from) {
    const warp::Chunk words = warp::loadSharedChunk(from);
    address = uint64_t(words.words[1]) << 32 | words.words[0];
    limit = words.words[2];
    isNew = words.words[3];
  }
};

/// A tensor as a block sees it. A thread copies places of a row, which are so many slots from each
/// other; the table has where they are in the tensor, seen from the row of the first image, or -1,
/// for a slot after the other.
struct DepthwiseTensor {
  uint64_t base;
  int32_t rows, columns;
  uint32_t step; ///< bytes from a position to the next one

  TRAINRT_DEVICE DepthwiseTensor(uint64_t tensor, int32_t rows, int32_t columns,
                                 const DepthwiseArguments &args, int32_t channel, int bytes)
      : base(tensor + uint64_t(channel) * uint64_t(bytes)), rows(rows), columns(columns),
        step(uint32_t(args.channels) * uint32_t(bytes)) {}

  TRAINRT_DEVICE void fill(uint32_t table, uint32_t slots, uint32_t images, uint32_t segment,
                           int32_t left) const {
    for (uint32_t i = warp::thread(); i < slots * depthwiseTurns; i += warp::threads()) {
      const uint32_t image = i / segment;
      const int32_t column = left + int32_t(i % segment);
      const bool isInside = image < images && uint32_t(column) < uint32_t(columns);
      warp::storeSharedWord(table + (i % slots * depthwiseTurns + i / slots) * 4,
                            isInside ? image * uint32_t(rows * columns) + uint32_t(column) : ~0u);
    }
  }
  /// Tells of a row of some images, the first of which is given.
  TRAINRT_DEVICE void tell(uint32_t to, const DepthwiseArguments &args, int32_t first, int32_t row,
                           bool isThere, bool isNew = false) const {
    const int32_t images = depthwiseStrips >> args.tilesShift;
    const int32_t left = args.images - first < images ? args.images - first : images;
    const uint64_t address =
        base + uint64_t((int64_t(first) * rows + row) * columns) * uint64_t(step);
    isThere = isThere && uint32_t(row) < uint32_t(rows);
    warp::storeShared(to,
                      {{uint32_t(address), uint32_t(address >> 32),
                        isThere ? uint32_t((left - 1) * rows + 1) * uint32_t(columns) : 0, isNew}});
  }
};

/// Where a strip's columns begin in a row of the source in shared memory.
TRAINRT_DEVICE uint32_t depthwiseBegin(const DepthwiseArguments &args, uint32_t strip) {
  return strip * depthwiseColumns + (strip >> args.tilesShift) * depthwiseColumns;
}

/// The rows of the source that a block reads, one after the other: for the rows of the result that
/// are its part, of one image (or of those that it has at once) after the other. Tells of each, and
/// of the row of the result that it meets first, or last. How many there are.
template <int Taps, bool First>
TRAINRT_DEVICE uint32_t depthwiseTell(const DepthwiseArguments &args, uint32_t to,
                                      const DepthwiseTensor &source,
                                      const DepthwiseTensor &result) {
  constexpr int32_t More = Taps - 1;
  const int32_t line = int32_t(warp::blockX()) * args.partLines, rows = args.resultRows;
  const int32_t left = args.lines - line, lines = left < args.partLines ? left : args.partLines;
  const int32_t images = depthwiseStrips >> args.tilesShift;
  const int32_t set = line / rows, begin = line % rows;
  const int32_t firstLines = rows - begin < lines ? rows - begin : lines;
  const int32_t sets = (lines - firstLines) / rows, lastLines = (lines - firstLines) % rows;
  const DepthwiseReads first(args, Taps, First, begin, firstLines);
  const DepthwiseReads whole(args, Taps, First, 0, rows), last(args, Taps, First, 0, lastLines);
  const int32_t firstReads = first.end - first.begin, reads = whole.end - whole.begin;
  const int32_t steps = firstReads + sets * reads + (lastLines ? last.end - last.begin : 0);
  for (int32_t i = int32_t(warp::thread()) - 1; i < steps + 7; i += int32_t(warp::threads())) {
    const int32_t behind = i - firstReads, next = behind < 0 ? 0 : behind / reads + 1;
    const int32_t at = behind < 0 ? i : behind % reads;
    const int32_t read = at + (next ? whole : first).begin, top = next ? 0 : begin;
    const int32_t count = next == 0 ? firstLines : next <= sets ? rows : lastLines;
    const bool isThere = i >= 0 && i < steps;
    const int32_t met = First ? read : read - More;
    const uint32_t told = to + uint32_t(i + 1) * depthwiseStepBytes;
    source.tell(told, args, (set + next) * images, top - args.padRows + read, isThere, at == 0);
    result.tell(told + 16, args, (set + next) * images, top + met,
                isThere && met >= 0 && met < count);
  }
  return uint32_t(steps);
}

/// Sets numbers in registers to 0.
TRAINRT_DEVICE void depthwiseClear(float &x) { x = 0; }
TRAINRT_DEVICE void depthwiseClear(uint32_t &x) { x = 0; }
template <typename T, int N> TRAINRT_DEVICE void depthwiseClear(T (&numbers)[N]) {
  TRAINRT_UNROLL
  for (int i = 0; i < N; ++i)
    depthwiseClear(numbers[i]);
}
/// Of the rows in registers, one for each row of taps: the one that begins in this phase, or all
/// where the source's row is the first one of its images.
template <typename T, int Taps>
TRAINRT_DEVICE void depthwiseBeginRow(T (&rows)[Taps], int phase, uint32_t isNew) {
  TRAINRT_UNROLL
  for (int i = 0; i < Taps; ++i)
    if (i == phase || isNew)
      depthwiseClear(rows[i]);
}

/// What a block has: some channels and columns, and in shared memory what it knows of its rows.
struct DepthwiseBlock {
  int32_t channel, column;
  uint32_t channels;
  DepthwiseTensor source, result;
  uint32_t told, sourceTable, resultTable, free; ///< addresses; behind the last one nothing is
  uint32_t places, steps = 0;

  TRAINRT_DEVICE DepthwiseBlock(const DepthwiseArguments &args, int bytes)
      : channel(int32_t(warp::blockY()) / args.columnBlocks * depthwiseChannels),
        column(int32_t(warp::blockY()) % args.columnBlocks * depthwiseResults),
        channels(uint32_t(args.channels - channel < depthwiseChannels ? args.channels - channel
                                                                      : depthwiseChannels)),
        source(args.source, args.sourceRows, args.sourceColumns, args, channel, bytes),
        result(args.result, args.resultRows, args.resultColumns, args, channel, bytes),
        told(warp::sharedMemory()), sourceTable(told + depthwiseStepsBytes),
        resultTable(sourceTable + uint32_t(depthwiseTableBytes(bytes))),
        free(resultTable + uint32_t(depthwiseTableBytes(bytes))), places(uint32_t(args.places)) {}

  template <int Taps, bool First>
  TRAINRT_DEVICE void prepare(const DepthwiseArguments &args, int bytes) {
    const uint32_t images = depthwiseStrips >> args.tilesShift;
    const uint32_t slots = uint32_t(depthwiseSlots(bytes));
    source.fill(sourceTable, slots, images, uint32_t(depthwiseSegment(args.tilesShift)),
                column - args.padColumns);
    result.fill(resultTable, slots, images, depthwiseColumns << args.tilesShift, column);
    steps = depthwiseTell<Taps, First>(args, told, source, result);
    warp::barrier();
  }
  /// The filters of its channels, of so many bytes each, for all threads.
  TRAINRT_DEVICE void copyFilters(uint64_t from, uint32_t to, uint32_t bytes) const {
    from += uint64_t(channel) * bytes;
    for (uint32_t i = warp::thread() * 4; i < channels * bytes; i += warp::threads() * 4) {
      uint32_t word[1];
      warp::loadConstant(from + i, true, word);
      warp::storeSharedWord(to + i, word[0]);
    }
    warp::barrier();
  }
  /// Where the sums of one of its channels are, of the first tap.
  TRAINRT_DEVICE uint64_t sumsOf(const DepthwiseArguments &args, uint32_t taps,
                                 uint32_t own) const {
    const uint64_t part = uint64_t(warp::blockX()) * uint64_t(args.columnBlocks) +
                          warp::blockY() % uint32_t(args.columnBlocks);
    return args.filter + (part * taps * uint64_t(args.channels) + uint32_t(channel) + own) * 4;
  }
};

/// Slides down a block's rows. load(step, stage) begins copies of what is told at `step` into
/// shared memory; then begin() runs, and for each row use(step, phase, stage), with a phase that is
/// known when this is compiled, of `Taps`. All threads have come before a row is used, and have
/// used the one before it.
template <int Taps, int Stages, typename Load, typename Begin, typename Use>
TRAINRT_DEVICE void depthwiseSlide(const DepthwiseBlock &block, uint32_t stages,
                                   uint32_t stageBytes, const Load &load, const Begin &begin,
                                   const Use &use) {
  uint32_t step = block.told + depthwiseStepBytes;
  const uint32_t end = step + block.steps * depthwiseStepBytes;
  for (uint32_t i = 0; i < Stages - 1; ++i) {
    load(step + i * depthwiseStepBytes, stages + i * stageBytes);
    warp::endCopies();
  }
  begin();
  const uint32_t behind = stages + Stages * stageBytes;
  uint32_t stage = stages, free = stages + (Stages - 1) * stageBytes;
  while (step < end) {
    TRAINRT_UNROLL
    for (int phase = 0; phase < Taps; ++phase)
      if (step < end) {
        warp::copiedBut<Stages - 2>();
        warp::barrier();
        load(step + (Stages - 1) * depthwiseStepBytes, free);
        warp::endCopies();
        use(step, phase, stage);
        step += depthwiseStepBytes;
        free = stage;
        stage += stageBytes;
        stage = stage < behind ? stage : stages;
      }
  }
}

/// Elements of 16 bits: into rows of places for each two channels. Places of positions that are not
/// in the tensor are zeros.
TRAINRT_DEVICE void depthwiseCopyPairs(const DepthwiseRow &row, uint32_t step, uint32_t table,
                                       uint32_t places, uint32_t pitch, uint32_t to,
                                       uint32_t channels) {
  constexpr uint32_t pairs = depthwiseChannels / 2, slots = depthwiseSlots(2);
  const uint32_t pair = warp::thread() % pairs, slot = warp::thread() / pairs;
  if (!row.limit || pair * 2 >= channels)
    return;
  const uint64_t from = row.address + pair * 4;
  to += (pair * pitch + slot) * 4;
  table += slot * (depthwiseTurns * 4);
  TRAINRT_UNROLL
  for (uint32_t turn = 0; turn < depthwiseTurns; turn += 4)
    if (turn * slots < places) {
      const warp::Chunk at = warp::loadSharedChunk(table + turn * 4);
      TRAINRT_UNROLL
      for (uint32_t i = 0; i < 4; ++i)
        if ((turn + i) * slots < places)
          warp::copyWord(to + (turn + i) * slots * 4,
                         reinterpret_cast<const void *>(from + uint64_t(at.words[i]) * step),
                         at.words[i] < row.limit);
    }
}
/// Elements of 32 bits: the channels of each place.
TRAINRT_DEVICE void depthwiseCopyVectors(const DepthwiseRow &row, uint32_t step, uint32_t table,
                                         uint32_t places, uint32_t to, uint32_t channels) {
  constexpr uint32_t vectors = depthwiseChannels / 4, slots = depthwiseSlots(4);
  static_assert(depthwiseResults <= 4 * slots && depthwisePositions(0) <= 4 * slots);
  const uint32_t vector = warp::thread() % vectors, slot = warp::thread() / vectors;
  if (!row.limit || vector * 4 >= channels)
    return;
  const uint64_t from = row.address + vector * 16;
  to += slot * (depthwiseChannels * 4) + vector * 16;
  const warp::Chunk at = warp::loadSharedChunk(table + slot * (depthwiseTurns * 4));
  TRAINRT_UNROLL
  for (uint32_t turn = 0; turn < 4; ++turn)
    if (turn * slots + slot < places)
      warp::copy(to + turn * slots * (depthwiseChannels * 4),
                 reinterpret_cast<const void *>(from + uint64_t(at.words[turn]) * step),
                 at.words[turn] < row.limit);
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_DEPTHWISE_STRIPS_H
