// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels for attention by warpgroups have in common, for samples of any
// length. A warpgroup takes 64 rows, and all rows of the others that they see;
// those stream through shared memory, where another warpgroup puts them while
// they are computed with.
//
// What it uses of a GPU is in namespace `warp`: for devices "warpgroup.h", for
// a test of the arithmetic on the host an emulation, which whoever includes
// this includes first.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_BLOCKS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_BLOCKS_H

#include "device/cuda/kernels/attention_tiles.h"
#include "device/cuda/kernels/warpgroup_mask.h"
#include "device/cuda/kernels/warpgroup_tiles.h"

namespace trainrt::cuda::device {

/// What a thread block computes after another: blocks of rows of a head of a
/// sample. All heads' blocks of the same rows lie side by side, and every
/// second round goes back, so that where numbers rise with the work all thread
/// blocks get alike.
struct Works {
  const Arguments &args;
  const int heads, ownRows;
  int round = -1;

  TRAINRT_DEVICE Works(const Arguments &args, int heads, int ownRows)
      : args(args), heads(heads), ownRows(ownRows) {}
  TRAINRT_DEVICE int blocks() const { return (args.rows + ownRows - 1) / ownRows; }
  TRAINRT_DEVICE int number() const {
    // Worked out anew wherever it is asked for: the sums need the registers.
    const int now = int(warp::opaque(uint32_t(round))), step = int(warp::blocks()),
              own = int(warp::blockX());
    return now * step + (now % 2 ? step - 1 - own : own);
  }
  TRAINRT_DEVICE bool next() {
    ++round;
    return number() < heads * args.segments * blocks();
  }
  struct Work {
    int block, head, sample;
  };
  TRAINRT_DEVICE Work now() const {
    const int pairs = heads * args.segments, all = number(), pair = all % pairs;
    return {all / pairs, pair % heads, pair / heads};
  }
};

/// Places in shared memory that are used in turn: where the turn of this number
/// is, and the bit of the phases of its barriers.
template <int Places> struct Turn {
  uint32_t count = 0;
  TRAINRT_DEVICE int place() const { return int(count % Places); }
  TRAINRT_DEVICE int placeBefore() const { return int((count - 1) % Places); }
  TRAINRT_DEVICE uint32_t phase() const { return count / Places % 2; }
};

/// What a kernel's warps that copy draw of the mask of dropout.
enum class Mask { None, Drawn, DrawnAndLeft };

template <typename T, typename Shape> struct WarpgroupBlocks {
  static constexpr int columns = Shape::columns, rows = Shape::rows, stages = Shape::stages;
  static constexpr int ownRows = Shape::groups * groupRows;
  static constexpr int parts = columns / 16, chunks = columns / 8;
  using M = Tiles<T, columns>;
  using Own = StreamedMatrix<T, columns, ownRows>;
  using Other = StreamedMatrix<T, columns, rows>;
  using Others = Turn<stages>;
  using Owns = Turn<Shape::owns>;
  using Sums = float[chunks][4];
  using Scores = float[rows / 8][4];
  using Operand = uint32_t[rows / 16][4];

  const Arguments &args;
  const uint32_t shared = (warp::sharedMemory() + 1023) & ~uint32_t(1023);

  // -- Shared memory
  // ------------------------------------------------------------------------
  TRAINRT_DEVICE uint32_t ownFull(int place) const { return shared + uint32_t(place) * 16; }
  TRAINRT_DEVICE uint32_t ownEmpty(int place) const { return ownFull(place) + 8; }
  TRAINRT_DEVICE uint32_t full(int stage) const {
    return shared + uint32_t(Shape::owns + stage) * 16;
  }
  TRAINRT_DEVICE uint32_t empty(int stage) const { return full(stage) + 8; }
  TRAINRT_DEVICE uint32_t logs(int stage) const {
    return shared + 1024 + uint32_t(stage) * rows * 8;
  }
  TRAINRT_DEVICE uint32_t dots(int stage) const { return logs(stage) + rows * 4; }
  /// Of all warpgroups, a word for each of their threads.
  TRAINRT_DEVICE uint32_t mask(int stage) const {
    return logs(stages) + uint32_t(stage * Shape::groups * maskBlockBytes);
  }
  TRAINRT_DEVICE uint32_t own(int place, int which) const {
    return shared + 1024 + Shape::numberBytes + uint32_t(place * 2 + which) * Own::bytes;
  }
  TRAINRT_DEVICE uint32_t other(int stage, int which) const {
    return own(Shape::owns, 0) + uint32_t(stage * 2 + which) * Other::bytes;
  }

  // -- Which rows see which
  // -----------------------------------------------------------------
  /// The blocks of others that some of `count` rows from `row` on see, as
  /// `Segment::firstTile`.
  TRAINRT_DEVICE void blocksOf(int row, int count, int back, int on, int &first, int &end) const {
    const int begin = row - back, last = row + count + on;
    first = begin > 0 ? begin / rows : 0;
    end = ((last < args.rows ? last : args.rows) + rows - 1) / rows;
    first = row < args.rows ? first : end;
  }

  /// Where own rows are, which takes no registers between.
  TRAINRT_DEVICE static Owns ownTurn(const Works &works) {
    return {warp::opaque(uint32_t(works.round))};
  }

  // -- The warpgroup that copies
  // ------------------------------------------------------------
  /// Starts to copy own rows of one matrix, or of two.
  TRAINRT_DEVICE void copyOwn(const HeadMatrices &first, const HeadMatrices *second,
                              const Works::Work &work, int block, const Owns &turn) const {
    const int place = turn.place();
    warp::await(ownEmpty(place), turn.phase() ^ 1);
    Own::copy(own(place, 0), first, work.sample, work.head, block * ownRows, args);
    if (second)
      Own::copy(own(place, 1), *second, work.sample, work.head, block * ownRows, args);
    warp::arriveCopied(ownFull(place));
  }
  /// Own rows of q, and of another one of its shape, to all blocks of k and v
  /// that they see, with the mask of both.
  template <Mask masked> TRAINRT_DEVICE void copyQueries(const HeadMatrices *second) const {
    Others turn;
    for (Works works(args, args.heads, ownRows); works.next();) {
      const Works::Work work = works.now();
      const int block = works.blocks() - 1 - work.block, keyHead = work.head / args.group;
      copyOwn(args.q, second, work, block, ownTurn(works));
      int first, end;
      blocksOf(block * ownRows, ownRows, args.before, args.after, first, end);
      const MaskDrawing drawing(args, work.sample, work.head);
      for (; first < end; ++first, ++turn.count) {
        warp::await(empty(turn.place()), turn.phase() ^ 1);
        Other::copy(other(turn.place(), 0), args.k, work.sample, keyHead, first * rows, args);
        Other::copy(other(turn.place(), 1), args.v, work.sample, keyHead, first * rows, args);
        if constexpr (masked != Mask::None)
          draw<masked>(drawing, work, block, first, turn.place());
        warp::arriveCopied(full(turn.place()));
      }
    }
  }

  /// The mask of own rows and a block of keys, where a warpgroup has to do with
  /// it: each of the warps draws that of 16 keys.
  template <Mask masked>
  TRAINRT_DEVICE void draw(const MaskDrawing &drawing, const Works::Work &work, int ownBlock,
                           int block, int stage) const {
    static_assert(rows == groupRows, "a word for each lane");
    const int warpNumber = int(warp::thread()) / 32, lane = laneNumber();
#pragma nounroll
    for (int group = 0; group < Shape::groups; ++group) {
      const int queries = ownBlock * Shape::groups + group;
      int first, end;
      blocksOf(queries * groupRows, groupRows, args.before, args.after, first, end);
      if (block < first || block >= end)
        continue;
      uint32_t bytes[4];
      const uint32_t keys = drawing.draw(bytes, queries * (groupRows / tileRows),
                                         block * (groupRows / tileRows) + warpNumber);
      const uint32_t at = mask(stage) + uint32_t(group * maskBlockBytes + lane * 4 + warpNumber);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile)
        warp::storeSharedByte(at + uint32_t(tile) * 128, bytes[tile]);
      if constexpr (masked == Mask::DrawnAndLeft)
        warp::storeWords(maskAt(args, work.sample, work.head, block, queries) + warp::thread() * 4,
                         {warp::transposed(keys)});
    }
    warp::meet();
    warp::arrive(full(stage), tells());
  }

  // -- Those that compute
  // -------------------------------------------------------------------
  TRAINRT_DEVICE static int group() {
    return int(warp::uniform((warp::thread() - copyingThreads) / groupThreads));
  }
  TRAINRT_DEVICE static bool tells() { return warp::thread() % 32 == 0; }

  /// Both matrices of own rows, from this warpgroup's first one on.
  struct Left {
    uint32_t at[2];
  };
  TRAINRT_DEVICE Left awaitOwn(const Owns &turn) const {
    warp::await(ownFull(turn.place()), turn.phase());
    warp::showToMatmuls();
    const uint32_t before = uint32_t(group() * groupRows * 128);
    return {{own(turn.place(), 0) + before, own(turn.place(), 1) + before}};
  }
  /// Of own rows and a block of others, scores or their gradients.
  TRAINRT_DEVICE static void multiply(Scores &scores, uint32_t ownRows, uint32_t block) {
    // Where its parts are is worked out anew: registers are scarce.
    const warp::Matrix own = warp::matrix(warp::opaque(ownRows), 0),
                       others = warp::matrix(block, 0);
    warp::multiplyRows<false>(T(), scores, own, others);
#pragma unroll
    for (int part = 1; part < parts; ++part)
      warp::multiplyRows<true>(T(), scores, warp::moved(own, Own::partAt(part)),
                               warp::moved(others, Other::partAt(part)));
    warp::endGroup();
  }
  /// Adds the products of weights, or of the gradients of scores, with a block
  /// of others.
  TRAINRT_DEVICE static void add(Sums &sums, Operand &weights, uint32_t block) {
    warp::beginMatmuls(weights);
    const warp::Matrix right = warp::matrix(block, Other::slabBytes);
#pragma unroll
    for (int part = 0; part < rows / 16; ++part)
      warp::multiplyColumns(T(), sums, weights[part],
                            warp::moved(right, uint32_t(part) * 16 * 128));
    warp::endGroup();
  }
  TRAINRT_DEVICE static void round(Operand &to, const Scores &scores) {
#pragma unroll
    for (int part = 0; part < rows / 16; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[part][i] = warp::pack(T(), scores[part * 2 + i / 2][i % 2 * 2],
                                 scores[part * 2 + i / 2][i % 2 * 2 + 1]);
  }
  /// Blocks that the thread block has use for and this warpgroup has not.
  TRAINRT_DEVICE void pass(Others &turn, int count) const {
    for (; count > 0; --count, ++turn.count) {
      warp::await(full(turn.place()), turn.phase());
      warp::arrive(empty(turn.place()), tells());
    }
  }

  /// The blocks of others that the thread block and this warpgroup have to do
  /// with.
  struct Blocks {
    int first, end;       ///< the thread block's
    int ownFirst, ownEnd; ///< within them
    TRAINRT_DEVICE int passedFirst() const { return ownFirst - first; }
    TRAINRT_DEVICE int passedLast() const { return end - ownEnd; }
  };
  TRAINRT_DEVICE Blocks blocksOf(int ownBlock, int back, int on) const {
    Blocks blocks;
    blocksOf(ownBlock * ownRows, ownRows, back, on, blocks.first, blocks.end);
    blocksOf(ownBlock * ownRows + group() * groupRows, groupRows, back, on, blocks.ownFirst,
             blocks.ownEnd);
    // A warpgroup without rows passes all blocks.
    blocks.ownEnd = blocks.ownEnd < blocks.end ? blocks.ownEnd : blocks.end;
    blocks.ownFirst = blocks.ownFirst < blocks.ownEnd ? blocks.ownFirst : blocks.ownEnd;
    return blocks;
  }
  TRAINRT_DEVICE static int ownTile(int ownBlock) {
    return ownBlock * (ownRows / tileRows) + int(warp::thread() - copyingThreads) / 32;
  }

  /// Where a row's numbers are, [samples, heads, rows].
  TRAINRT_DEVICE int64_t numberOf(int sample, int head, int row) const {
    return (int64_t(sample) * args.heads + head) * args.rows + row;
  }

  /// This thread's word of a block's mask, if there is dropout.
  template <typename Kept, bool drops> TRAINRT_DEVICE Kept keptOf(int stage) const {
    if constexpr (drops)
      return {warp::loadSharedWord(mask(stage) + (warp::thread() - copyingThreads) * 4)};
    return {};
  }

  // -- Both
  // ---------------------------------------------------------------------------------
  template <Mask masked> TRAINRT_DEVICE void makeBarriers() const {
    if (warp::thread() == 0) {
      constexpr uint32_t warps = Shape::groups * groupThreads / 32;
      for (int place = 0; place < Shape::owns; ++place) {
        warp::makeBarrier(ownFull(place), copyingThreads);
        warp::makeBarrier(ownEmpty(place), warps);
      }
      for (int stage = 0; stage < stages; ++stage) {
        // Warps that draw say so, beside the copies of their threads.
        warp::makeBarrier(full(stage),
                          copyingThreads + (masked == Mask::None ? 0 : copyingThreads / 32));
        warp::makeBarrier(empty(stage), warps);
      }
    }
    warp::barrier();
  }
};

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_BLOCKS_H
