// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of attention by matmuls of warpgroups, for samples of any length: one kernel for the
// gradient of q, then one for those of k and v. A warpgroup takes 64 rows of them, and all rows of
// the others that they see; those stream through shared memory, where another warpgroup puts them
// while they are computed with. Scores are computed in both kernels: seven matmuls instead of five,
// but every sum is one warpgroup's, in the order of rows (of heads that share one of k and v: head
// after head), nothing is added up in global memory, and no warpgroup waits for another.
//
// What it uses of a GPU is in namespace `warp`: for devices "warpgroup.h", for a test of the
// arithmetic on the host an emulation, which whoever includes this includes first.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H

#include "device/cuda/kernels/attention_gradients.h"
#include "device/cuda/kernels/warpgroup_tiles.h"

namespace trainrt::cuda::device {

/// What a thread block computes after another: blocks of rows of a head of a sample. All heads'
/// blocks of the same rows lie side by side, and every second round goes back, so that where
/// numbers rise with the work all thread blocks get alike.
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

/// Places in shared memory that are used in turn: where the turn of this number is, and the bit of
/// the phases of its barriers.
template <int Places> struct Turn {
  uint32_t count = 0;
  TRAINRT_DEVICE int place() const { return int(count % Places); }
  TRAINRT_DEVICE int placeBefore() const { return int((count - 1) % Places); }
  TRAINRT_DEVICE uint32_t phase() const { return count / Places % 2; }
};

template <typename T, typename Shape> struct WarpgroupGradients {
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

  // -- Shared memory ------------------------------------------------------------------------
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
  TRAINRT_DEVICE uint32_t own(int place, int which) const {
    return shared + 1024 + Shape::numberBytes + uint32_t(place * 2 + which) * Own::bytes;
  }
  TRAINRT_DEVICE uint32_t other(int stage, int which) const {
    return own(Shape::owns, 0) + uint32_t(stage * 2 + which) * Other::bytes;
  }

  // -- Which rows see which -----------------------------------------------------------------
  /// The blocks of others that some of `count` rows from `row` on see, as `Segment::firstTile`.
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

  // -- The warpgroup that copies ------------------------------------------------------------
  TRAINRT_DEVICE void copyOwn(const HeadMatrices &first, const HeadMatrices &second,
                              const Works::Work &work, int block, const Owns &turn) const {
    const int place = turn.place();
    warp::await(ownEmpty(place), turn.phase() ^ 1);
    Own::copy(own(place, 0), first, work.sample, work.head, block * ownRows, args);
    Own::copy(own(place, 1), second, work.sample, work.head, block * ownRows, args);
    warp::arriveCopied(ownFull(place));
  }
  TRAINRT_DEVICE void copyQueries() const {
    Others turn;
    for (Works works(args, args.heads, ownRows); works.next();) {
      const Works::Work work = works.now();
      const int block = works.blocks() - 1 - work.block, keyHead = work.head / args.group;
      copyOwn(args.q, args.dO, work, block, ownTurn(works));
      int first, end;
      blocksOf(block * ownRows, ownRows, args.before, args.after, first, end);
      for (; first < end; ++first, ++turn.count) {
        warp::await(empty(turn.place()), turn.phase() ^ 1);
        Other::copy(other(turn.place(), 0), args.k, work.sample, keyHead, first * rows, args);
        Other::copy(other(turn.place(), 1), args.v, work.sample, keyHead, first * rows, args);
        warp::arriveCopied(full(turn.place()));
      }
    }
  }
  TRAINRT_DEVICE int64_t numberOf(int sample, int head, int row) const {
    return (int64_t(sample) * args.heads + head) * args.rows + row;
  }
  /// Of each row its two numbers; where there is no row all is 0, and adds nothing.
  TRAINRT_DEVICE void copyNumbers(int stage, int sample, int head, int first) const {
    static_assert(copyingThreads >= rows, "each copies a number of either sort");
    const int own = int(warp::thread());
    if (own >= rows)
      return;
    const int64_t at = numberOf(sample, head, first + own);
    const bool isRow = first + own < args.rows;
    warp::copyWord(logs(stage) + uint32_t(own) * 4, reinterpret_cast<const float *>(args.logs) + at,
                   isRow);
    warp::copyWord(dots(stage) + uint32_t(own) * 4, reinterpret_cast<const float *>(args.dots) + at,
                   isRow);
  }
  TRAINRT_DEVICE void copyKeys() const {
    Others turn;
    for (Works works(args, args.heads / args.group, ownRows); works.next();) {
      const Works::Work work = works.now();
      copyOwn(args.k, args.v, work, work.block, ownTurn(works));
      int first, end;
      blocksOf(work.block * ownRows, ownRows, args.after, args.before, first, end);
      for (int head = work.head * args.group; head < (work.head + 1) * args.group; ++head)
        for (int block = first; block < end; ++block, ++turn.count) {
          const int stage = turn.place();
          warp::await(empty(stage), turn.phase() ^ 1);
          Other::copy(other(stage, 0), args.q, work.sample, head, block * rows, args);
          Other::copy(other(stage, 1), args.dO, work.sample, head, block * rows, args);
          copyNumbers(stage, work.sample, head, block * rows);
          warp::arriveCopied(full(stage));
        }
    }
  }

  // -- Those that compute -------------------------------------------------------------------
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
  /// Adds the products of weights, or of the gradients of scores, with a block of others.
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
  /// Weights are 0 of all others than those from `first` to `last`, which are told from the block's
  /// first row on.
  TRAINRT_DEVICE static void hide(float &weight, int other, int first, int last) {
    weight = other < first || other > last ? 0 : weight;
  }

  /// Adds a block of keys to the gradient of q. What was before in shared memory is done with.
  /// Matmuls may read `dS` until the next `wait`.
  TRAINRT_DEVICE void ofQueries(Sums &dQ, Operand &dS, const Left &left, const float (&log)[2],
                                const float (&dot)[2], const Others &turn, int row, int block,
                                bool isFirst) const {
    const Lane lane = thisLane();
    const uint32_t k = other(turn.place(), 0), v = other(turn.place(), 1);
    warp::await(full(turn.place()), turn.phase());
    warp::showToMatmuls();
    Scores p, dP;
    warp::beginMatmuls();
    multiply(p, left.at[0], k);
    multiply(dP, left.at[1], v);
    warp::wait<1>(p);
    warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
    const float scale = args.scale * log2e;
#pragma unroll
    for (int i = 0; i < rows / 2; ++i)
      p[i / 4][i % 4] = warp::exp2(p[i / 4][i % 4] * scale + log[i / 2 % 2]);
    const int begin = block * rows, last = begin + rows - 1;
    if (last >= args.rows || row + tileRows - 1 - begin > args.before || last - row > args.after) {
      const int from = row + lane.row - args.before - begin - lane.pair, on = args.rows - 1 - begin;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int until = row + lane.row + half * 8 + args.after - begin,
                  end = (until < on ? until : on) - lane.pair;
#pragma unroll
        for (int i = 0; i < rows / 4; ++i)
          hide(p[i / 2][half * 2 + i % 2], i / 2 * 8 + i % 2, from + half * 8, end);
      }
    }
    warp::wait<0>(dP);
#pragma unroll
    for (int i = 0; i < rows / 2; ++i)
      dP[i / 4][i % 4] = p[i / 4][i % 4] * (dP[i / 4][i % 4] - dot[i / 2 % 2]);
    round(dS, dP);
    add(dQ, dS, k);
  }

  /// The two numbers of the lane's rows, from what the forward has saved; kept for the other
  /// kernel.
  TRAINRT_DEVICE void makeNumbers(float (&log)[2], float (&dot)[2], int sample, int head,
                                  int tile) const {
    const Segment segment{0, 0, args.rows};
    uint32_t slopes[parts][4], results[parts][4];
    M::left(slopes, ofSample(args.dO, sample), head, segment, tile, args.columns);
    M::left(results, ofSample(args.o, sample), head, segment, tile, args.columns);
    multiplyRowsOf<T, columns>(dot, slopes, results, args.columns);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Lane lane = thisLane();
      const int row = tile * tileRows + lane.row + half * 8;
      const bool isRow = row < args.rows;
      const int64_t at = numberOf(sample, head, isRow ? row : 0);
      log[half] = negativeLog2(warp::load(reinterpret_cast<const float *>(args.stats) + at));
      if (isRow && lane.pair == 0) {
        reinterpret_cast<float *>(args.logs)[at] = log[half];
        reinterpret_cast<float *>(args.dots)[at] = dot[half];
      }
    }
  }
  /// The blocks of others that the thread block and this warpgroup have to do with.
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

  TRAINRT_DEVICE void queries() const {
    Others turn;
    for (Works works(args, args.heads, ownRows); works.next();) {
      auto ownBlock = [&] { return works.blocks() - 1 - works.now().block; };
      auto blocks = [&] { return blocksOf(ownBlock(), args.before, args.after); };
      const int tile = ownTile(ownBlock());
      float log[2], dot[2];
      makeNumbers(log, dot, works.now().sample, works.now().head, tile);
      const Left left = awaitOwn(ownTurn(works));
      pass(turn, blocks().passedFirst());
      Sums dQ = {};
      Operand dS;
      const int end = blocks().ownEnd;
      bool isFirst = true;
      for (int block = blocks().ownFirst; block < end; ++block, ++turn.count, isFirst = false)
        ofQueries(dQ, dS, left, log, dot, turn, tile * tileRows, block, isFirst);
      warp::wait<0>(dQ);
      warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
      warp::arrive(ownEmpty(ownTurn(works).place()), tells());
      pass(turn, blocks().passedLast());
      M::store(ofSample(args.dQ, works.now().sample), works.now().head, Segment{0, 0, args.rows},
               ownTile(ownBlock()), args.columns, dQ, args.scale, args.scale);
    }
  }

  /// Adds a block of queries to the gradients of k and v: the matrix of scores is a transposed one.
  TRAINRT_DEVICE void ofKeys(Sums &dK, Sums &dV, Operand &weights, Operand &dS, const Left &left,
                             const Others &turn, int row, int block, bool isFirst) const {
    const Lane lane = thisLane();
    const uint32_t q = other(turn.place(), 0), dO = other(turn.place(), 1);
    warp::await(full(turn.place()), turn.phase());
    warp::showToMatmuls();
    Scores p, dP;
    warp::beginMatmuls();
    multiply(p, left.at[0], q);
    multiply(dP, left.at[1], dO);
    warp::wait<1>(p);
    if constexpr (Shape::overlaps)
      warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
    const float scale = args.scale * log2e;
    const uint32_t log = logs(turn.place()) + uint32_t(lane.pair) * 4,
                   dot = dots(turn.place()) + uint32_t(lane.pair) * 4;
#pragma unroll
    for (int n = 0; n < rows / 8; ++n) {
      float one, next;
      warp::loadShared(log + uint32_t(n) * 32, one, next);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[n][i] = warp::exp2(p[n][i] * scale + (i % 2 ? next : one));
    }
    const int begin = block * rows, last = begin + rows - 1;
    if (last - row > args.before || row + tileRows - 1 - begin > args.after) {
      const int from = row + lane.row - args.after - begin - lane.pair,
                until = row + lane.row + args.before - begin - lane.pair;
#pragma unroll
      for (int i = 0; i < rows / 2; ++i)
        hide(p[i / 4][i % 4], i / 4 * 8 + i % 2, from + i / 2 % 2 * 8, until + i / 2 % 2 * 8);
    }
    round(weights, p);
    add(dV, weights, dO);
    warp::wait<1>(dP);
#pragma unroll
    for (int n = 0; n < rows / 8; ++n) {
      float one, next;
      warp::loadShared(dot + uint32_t(n) * 32, one, next);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        dP[n][i] = p[n][i] * (dP[n][i] - (i % 2 ? next : one));
    }
    round(dS, dP);
    add(dK, dS, q);
    // The weights need no registers while the next scores are computed, or all is done.
    warp::wait<Shape::overlaps>();
    if constexpr (!Shape::overlaps)
      warp::arrive(empty(turn.place()), tells());
  }

  TRAINRT_DEVICE void keys() const {
    Others turn;
    for (Works works(args, args.heads / args.group, ownRows); works.next();) {
      auto blocks = [&] { return blocksOf(works.now().block, args.after, args.before); };
      const int row = ownTile(works.now().block) * tileRows;
      const Left left = awaitOwn(ownTurn(works));
      Sums dK = {}, dV = {};
      Operand weights, dS;
      for (int head = 0; head < args.group; ++head) {
        pass(turn, blocks().passedFirst());
        const int end = blocks().ownEnd;
        bool isFirst = true;
        for (int block = blocks().ownFirst; block < end; ++block, ++turn.count, isFirst = false)
          ofKeys(dK, dV, weights, dS, left, turn, row, block, isFirst);
        warp::wait<0>(dK);
        warp::wait<0>(dV);
        if constexpr (Shape::overlaps)
          warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
        pass(turn, blocks().passedLast());
      }
      warp::arrive(ownEmpty(ownTurn(works).place()), tells());
      const Segment segment{0, 0, args.rows};
      const int tile = ownTile(works.now().block), head = works.now().head;
      M::store(ofSample(args.dK, works.now().sample), head, segment, tile, args.columns, dK,
               args.scale, args.scale);
      M::store(ofSample(args.dV, works.now().sample), head, segment, tile, args.columns, dV, 1, 1);
    }
  }

  TRAINRT_DEVICE void makeBarriers() const {
    if (warp::thread() == 0) {
      constexpr uint32_t warps = Shape::groups * groupThreads / 32;
      for (int place = 0; place < Shape::owns; ++place) {
        warp::makeBarrier(ownFull(place), copyingThreads);
        warp::makeBarrier(ownEmpty(place), warps);
      }
      for (int stage = 0; stage < stages; ++stage) {
        warp::makeBarrier(full(stage), copyingThreads);
        warp::makeBarrier(empty(stage), warps);
      }
    }
    warp::barrier();
  }
};

/// The gradient of q, and the numbers of its rows. Any grid of one axis.
template <typename T, typename Shape> TRAINRT_DEVICE void warpgroupQueries(const Arguments &args) {
  const WarpgroupGradients<T, Shape> gradients{args};
  gradients.makeBarriers();
  if (warp::thread() < copyingThreads) {
    warp::leaveRegisters<Shape::copyingRegisters>();
    gradients.copyQueries();
  } else {
    warp::takeRegisters<Shape::registers>();
    gradients.queries();
  }
}

/// The gradients of k and v, after that of q. Any grid of one axis.
template <typename T, typename Shape> TRAINRT_DEVICE void warpgroupKeys(const Arguments &args) {
  const WarpgroupGradients<T, Shape> gradients{args};
  gradients.makeBarriers();
  if (warp::thread() < copyingThreads) {
    warp::leaveRegisters<Shape::copyingRegisters>();
    gradients.copyKeys();
  } else {
    warp::takeRegisters<Shape::registers>();
    gradients.keys();
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H
