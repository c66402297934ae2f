// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradient of attention by matmuls of warpgroups, for samples of any
// length: one kernel for the gradient of q, then one for those of k and v. A
// warpgroup takes 64 rows of them, and all rows of the others that they see.
// Scores are computed in both kernels: seven matmuls instead of five, but every
// sum is one warpgroup's, in the order of rows (of heads that share one of k
// and v: head after head), nothing is added up in global memory, and no
// warpgroup waits for another.
//
// What it uses of a GPU is in namespace `warp`: for devices "warpgroup.h", for
// a test of the arithmetic on the host an emulation, which whoever includes
// this includes first.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H

#include "device/cuda/kernels/attention_gradients.h"
#include "device/cuda/kernels/warpgroup_blocks.h"

namespace trainrt::cuda::device {

template <typename T, typename Shape, bool drops>
struct WarpgroupGradients : WarpgroupBlocks<T, Shape> {
  using Blocks = WarpgroupBlocks<T, Shape>;
  using typename Blocks::Left, typename Blocks::M, typename Blocks::Operand, typename Blocks::Other,
      typename Blocks::Others, typename Blocks::Scores, typename Blocks::Sums;
  using Work = Works::Work;
  using Blocks::args, Blocks::rows, Blocks::ownRows, Blocks::parts, Blocks::columns;
  using Blocks::multiply, Blocks::add, Blocks::round, Blocks::numberOf, Blocks::blocksOf;
  using Blocks::other, Blocks::full, Blocks::empty, Blocks::logs, Blocks::dots, Blocks::mask,
      Blocks::tells;
  using Blocks::ownEmpty, Blocks::ownTurn, Blocks::ownTile, Blocks::awaitOwn, Blocks::pass;

  /// Of each row its two numbers; where there is no row all is 0, and adds
  /// nothing.
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
  /// What the other kernel has drawn, for all warpgroups that have rows.
  TRAINRT_DEVICE void copyMask(int stage, int sample, int head, int keys, int queries) const {
    constexpr int threads = maskBlockBytes / 16;
    static_assert(copyingThreads >= Shape::groups * threads, "each copies a part or none");
    const int group = int(warp::thread()) / threads, part = int(warp::thread()) % threads;
    if (group < Shape::groups)
      warp::copy(mask(stage) + warp::thread() * 16,
                 reinterpret_cast<const char *>(maskAt(args, sample, head, keys + group, queries)) +
                     part * 16,
                 (keys + group) * groupRows < args.rows);
  }
  TRAINRT_DEVICE void copyKeys() const {
    Others turn;
    for (Works works(args, args.heads / args.group, ownRows); works.next();) {
      const Works::Work work = works.now();
      this->copyOwn(args.k, &args.v, work, work.block, ownTurn(works));
      int first, end;
      blocksOf(work.block * ownRows, ownRows, args.after, args.before, first, end);
      for (int head = work.head * args.group; head < (work.head + 1) * args.group; ++head)
        for (int block = first; block < end; ++block, ++turn.count) {
          const int stage = turn.place();
          warp::await(empty(stage), turn.phase() ^ 1);
          Other::copy(other(stage, 0), args.q, work.sample, head, block * rows, args);
          Other::copy(other(stage, 1), args.dO, work.sample, head, block * rows, args);
          copyNumbers(stage, work.sample, head, block * rows);
          if constexpr (drops)
            copyMask(stage, work.sample, head, work.block * Shape::groups, block);
          warp::arriveCopied(full(stage));
        }
    }
  }

  /// Weights are 0 of all others than those from `first` to `last`, which are
  /// told from the block's first row on.
  TRAINRT_DEVICE static void hide(float &weight, int other, int first, int last) {
    weight = other < first || other > last ? 0 : weight;
  }

  /// The gradient of a score, of its weight and that one's gradient.
  TRAINRT_DEVICE float slope(float p, float dP, float dot, bool kept) const {
    if constexpr (drops)
      return p * ((kept ? dP : 0) * args.kept - dot);
    return p * (dP - dot);
  }
  /// Only those that dropout keeps; the others are needed as they are.
  TRAINRT_DEVICE static void roundKept(Operand &to, const Scores &p, const KeptOfKeys &kept) {
#pragma unroll
    for (int part = 0; part < rows / 16; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = part * 8 + i * 2;
        to[part][i] = warp::pack(T(), kept[first] ? p[first / 4][first % 4] : 0,
                                 kept[first + 1] ? p[first / 4][first % 4 + 1] : 0);
      }
  }

  /// Adds a block of keys to the gradient of q. What was before in shared
  /// memory is done with. Matmuls may read `dS` until the next `wait`.
  TRAINRT_DEVICE void ofQueries(Sums &dQ, Operand &dS, const Left &left, const float (&log)[2],
                                const float (&dot)[2], const Others &turn, int tile, int block,
                                bool isFirst) const {
    const Lane lane = thisLane();
    const int row = tile * tileRows;
    const uint32_t k = other(turn.place(), 0), v = other(turn.place(), 1);
    warp::await(full(turn.place()), turn.phase());
    warp::showToMatmuls();
    Scores p, dP;
    warp::beginMatmuls();
    multiply(p, left.at[0], k);
    multiply(dP, left.at[1], v);
    const auto kept = this->template keptOf<KeptOfQueries, drops>(turn.place());
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
      dP[i / 4][i % 4] = slope(p[i / 4][i % 4], dP[i / 4][i % 4], dot[i / 2 % 2], kept[i]);
    round(dS, dP);
    add(dQ, dS, k);
  }

  /// The two numbers of the lane's rows, from what the forward has saved; kept
  /// for the other kernel.
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
        ofQueries(dQ, dS, left, log, dot, turn, tile, block, isFirst);
      warp::wait<0>(dQ);
      warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
      warp::arrive(ownEmpty(ownTurn(works).place()), tells());
      pass(turn, blocks().passedLast());
      M::store(ofSample(args.dQ, works.now().sample), works.now().head, Segment{0, 0, args.rows},
               ownTile(ownBlock()), args.columns, dQ, args.scale, args.scale);
    }
  }

  /// Adds a block of queries to the gradients of k and v: the matrix of scores
  /// is a transposed one.
  TRAINRT_DEVICE void ofKeys(Sums &dK, Sums &dV, Operand &weights, Operand &dS, const Left &left,
                             const Others &turn, int tile, int block, bool isFirst) const {
    const Lane lane = thisLane();
    const int row = tile * tileRows;
    const uint32_t q = other(turn.place(), 0), dO = other(turn.place(), 1);
    warp::await(full(turn.place()), turn.phase());
    warp::showToMatmuls();
    Scores p, dP;
    warp::beginMatmuls();
    multiply(p, left.at[0], q);
    multiply(dP, left.at[1], dO);
    const auto kept = this->template keptOf<KeptOfKeys, drops>(turn.place());
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
    if constexpr (drops)
      roundKept(weights, p, kept);
    else
      this->round(weights, p);
    this->add(dV, weights, dO);
    warp::wait<1>(dP);
#pragma unroll
    for (int n = 0; n < rows / 8; ++n) {
      float one, next;
      warp::loadShared(dot + uint32_t(n) * 32, one, next);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        dP[n][i] = slope(p[n][i], dP[n][i], i % 2 ? next : one, kept[n * 4 + i]);
    }
    round(dS, dP);
    add(dK, dS, q);
    // The weights need no registers while the next scores are computed, or all
    // is done.
    warp::wait<Shape::overlaps>();
    if constexpr (!Shape::overlaps)
      warp::arrive(empty(turn.place()), tells());
  }

  TRAINRT_DEVICE void keys() const {
    Others turn;
    for (Works works(args, args.heads / args.group, ownRows); works.next();) {
      auto blocks = [&] { return blocksOf(works.now().block, args.after, args.before); };
      const int ownedTile = ownTile(works.now().block);
      const Left left = awaitOwn(ownTurn(works));
      Sums dK = {}, dV = {};
      Operand weights, dS;
      for (int head = 0; head < args.group; ++head) {
        pass(turn, blocks().passedFirst());
        const int end = blocks().ownEnd;
        bool isFirst = true;
        for (int block = blocks().ownFirst; block < end; ++block, ++turn.count, isFirst = false)
          ofKeys(dK, dV, weights, dS, left, turn, ownedTile, block, isFirst);
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
      M::store(ofSample(args.dV, works.now().sample), head, segment, tile, args.columns, dV,
               args.kept, args.kept);
    }
  }
};

/// The gradient of q, and the numbers of its rows. Any grid of one axis.
template <typename T, typename Shape, bool drops>
TRAINRT_DEVICE void warpgroupQueries(const Arguments &args) {
  const WarpgroupGradients<T, Shape, drops> gradients{{args}};
  constexpr Mask mask = drops ? Mask::DrawnAndLeft : Mask::None;
  gradients.template makeBarriers<mask>();
  if (warp::thread() < copyingThreads) {
    warp::leaveRegisters<Shape::copyingRegisters(drops)>();
    gradients.template copyQueries<mask>(&args.dO);
  } else {
    warp::takeRegisters<Shape::registers(drops)>();
    gradients.queries();
  }
}

/// The gradients of k and v, after that of q. Any grid of one axis.
template <typename T, typename Shape, bool drops>
TRAINRT_DEVICE void warpgroupKeys(const Arguments &args) {
  const WarpgroupGradients<T, Shape, drops> gradients{{args}};
  gradients.template makeBarriers<Mask::None>();
  if (warp::thread() < copyingThreads) {
    warp::leaveRegisters<Shape::copyingRegisters(false)>();
    gradients.copyKeys();
  } else {
    warp::takeRegisters<Shape::registers(false)>();
    gradients.keys();
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_ATTENTION_H
