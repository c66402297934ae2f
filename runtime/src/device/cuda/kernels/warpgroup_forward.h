// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention by matmuls of warpgroups, with the same mask of dropout as its
// gradient. Weights are computed in one go over the blocks of keys: sums are
// made smaller where a larger score comes.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_FORWARD_H
#define TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_FORWARD_H

#include "device/cuda/kernels/warpgroup_blocks.h"

namespace trainrt::cuda::device {

template <typename T, typename Shape, bool drops>
struct WarpgroupForward : WarpgroupBlocks<T, Shape> {
  using Blocks = WarpgroupBlocks<T, Shape>;
  using typename Blocks::M, typename Blocks::Operand, typename Blocks::Others,
      typename Blocks::Scores, typename Blocks::Sums;
  using Work = Works::Work;
  using Blocks::args, Blocks::rows, Blocks::ownRows, Blocks::chunks;
  using Blocks::other, Blocks::full, Blocks::empty, Blocks::tells, Blocks::ownEmpty;
  using Blocks::ownTurn, Blocks::ownTile, Blocks::awaitOwn, Blocks::pass, Blocks::blocksOf;

  /// Scores to base 2, without those that are hidden.
  TRAINRT_DEVICE void scale(Scores &s, int row, int block) const {
    const Lane lane = thisLane();
    const float factor = args.scale * log2e;
#pragma unroll
    for (int i = 0; i < rows / 2; ++i)
      s[i / 4][i % 4] *= factor;
    const int begin = block * rows, last = begin + rows - 1;
    if (last < args.rows && row + tileRows - 1 - begin <= args.before && last - row <= args.after)
      return;
#pragma unroll
    for (int i = 0; i < rows / 2; ++i) {
      const int key = begin + i / 4 * 8 + lane.pair + i % 2,
                apart = row + lane.row + i / 2 % 2 * 8 - key;
      if (key >= args.rows || apart > args.before || -apart > args.after)
        s[i / 4][i % 4] = -infinity;
    }
  }
  /// Scores of one of the lane's rows become weights; returns what sums so far
  /// are to be multiplied with.
  template <int half> TRAINRT_DEVICE static float weigh(float &highest, float &sum, Scores &s) {
    float top = highest;
#pragma unroll
    for (int i = 0; i < rows / 4; ++i)
      top = __builtin_fmaxf(top, s[i / 2][half * 2 + i % 2]);
    top = maximumOfQuad(top);
    // A row of -inf has no weights.
    const float base = top == -infinity ? 0 : top;
    const float factor = warp::exp2(highest - base);
    highest = top;
    float more = 0;
#pragma unroll
    for (int i = 0; i < rows / 4; ++i) {
      float &x = s[i / 2][half * 2 + i % 2];
      x = warp::exp2(x - base);
      more += x;
    }
    sum = sum * factor + more;
    return factor;
  }

  /// Adds a block of keys. Of the lane's two rows `highest` is the highest
  /// score so far (to base 2), and `sum` its own share of the sum of weights as
  /// they are with it. Matmuls may read `weights` until the next `wait`.
  TRAINRT_DEVICE void add(Sums &o, float (&highest)[2], float (&sum)[2], Operand &weights,
                          uint32_t q, const Others &turn, int tile, int block, bool isFirst) const {
    warp::await(full(turn.place()), turn.phase());
    warp::showToMatmuls();
    Scores s;
    warp::beginMatmuls();
    this->multiply(s, q, other(turn.place(), 0));
    const auto kept = this->template keptOf<KeptOfQueries, drops>(turn.place());
    warp::wait<0>(s);
    warp::wait<0>(o);
    warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
    scale(s, tile * tileRows, block);
    const float factor[2] = {weigh<0>(highest[0], sum[0], s), weigh<1>(highest[1], sum[1], s)};
#pragma unroll
    for (int i = 0; i < chunks * 4; ++i)
      o[i / 4][i % 4] *= factor[i / 2 % 2];
    if constexpr (drops)
#pragma unroll
      for (int i = 0; i < rows / 2; ++i)
        s[i / 4][i % 4] = kept[i] ? s[i / 4][i % 4] : 0;
    this->round(weights, s);
    Blocks::add(o, weights, other(turn.place(), 1));
  }

  TRAINRT_DEVICE void rowsOfQueries() const {
    Others turn;
    for (Works works(args, args.heads, ownRows); works.next();) {
      auto ownBlock = [&] { return works.blocks() - 1 - works.now().block; };
      auto blocks = [&] { return blocksOf(ownBlock(), args.before, args.after); };
      const int tile = ownTile(ownBlock());
      const uint32_t q = awaitOwn(ownTurn(works)).at[0];
      pass(turn, blocks().passedFirst());
      Sums o = {};
      float highest[2] = {-infinity, -infinity}, sum[2] = {};
      Operand weights;
      const int end = blocks().ownEnd;
      bool isFirst = true;
      for (int block = blocks().ownFirst; block < end; ++block, ++turn.count, isFirst = false)
        add(o, highest, sum, weights, q, turn, tile, block, isFirst);
      warp::wait<0>(o);
      warp::arrive(empty(turn.placeBefore()), tells() && !isFirst);
      warp::arrive(ownEmpty(ownTurn(works).place()), tells());
      pass(turn, blocks().passedLast());
      store(o, highest, sum, works.now(), ownTile(ownBlock()));
    }
  }
  TRAINRT_DEVICE void store(const Sums &o, const float (&highest)[2], const float (&sums)[2],
                            const Work &work, int tile) const {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Lane lane = thisLane();
      const float sum = sumOfQuad(sums[half]);
      factor[half] = sum == 0 ? 0 : args.kept / sum;
      const int row = tile * tileRows + lane.row + half * 8;
      if (args.stats && lane.pair == 0 && row < args.rows)
        reinterpret_cast<float *>(args.stats)[this->numberOf(work.sample, work.head, row)] =
            (highest[half] + warp::log2(sum)) * ln2;
    }
    M::store(ofSample(args.o, work.sample), work.head, Segment{0, 0, args.rows}, tile, args.columns,
             o, factor[0], factor[1]);
  }
};

/// Any grid of one axis.
template <typename T, typename Shape, bool drops>
TRAINRT_DEVICE void warpgroupForward(const Arguments &args) {
  const WarpgroupForward<T, Shape, drops> forward{{args}};
  constexpr Mask mask = drops ? Mask::Drawn : Mask::None;
  forward.template makeBarriers<mask>();
  if (warp::thread() < copyingThreads) {
    warp::leaveRegisters<Shape::copyingRegisters(drops)>();
    forward.template copyQueries<mask>(nullptr);
  } else {
    warp::takeRegisters<Shape::registers(drops)>();
    forward.rowsOfQueries();
  }
}

} // namespace trainrt::cuda::device

#endif // TRAINRT_DEVICE_CUDA_KERNELS_WARPGROUP_FORWARD_H
