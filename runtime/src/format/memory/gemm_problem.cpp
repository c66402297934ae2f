// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns of C contiguous, as few batches as possible.
#include "format/memory/gemm_problem.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace trainrt {

namespace {
/// Elements of k, at most, whose operands are packed at a time.
constexpr int64_t blockK = 512;
/// Columns of B that are packed at a time.
constexpr int64_t chunkN = 2048;
/// Floats of B that a thread may pack for itself: half of L2.
constexpr int64_t privateFloats = int64_t(1) << 18;
/// Blocks of k, at least, that threads share; results of chains that they keep until all have come
/// (2 MiB), and how many chains each thread has in that time, at least.
constexpr int64_t longBlocks = 4, keptResults = int64_t(1) << 19, chainsOfThread = 4;
/// Rows beside which packing B again takes too little of the time to hold it twice.
constexpr int64_t keptRows = 512;
} // namespace

/// C^T = B^T * A^T: the same sums, so the same bits. The lists of batch strides are swapped with
/// their operands.
void GemmProblem::swapOperands() {
  std::swap(a, b);
  std::swap(m, n);
  std::swap(a_m, b_n);
  std::swap(a_k, b_k);
  std::swap(c_m, c_n);
  std::swap(aBatch, bBatch);
  isSwapped = !isSwapped;
}

/// Makes a batch axis part of m where B does not depend on it and A and C continue their rows.
bool GemmProblem::mergeIntoRows() {
  // Its rows continue: one batch further is m rows further in A and in C, and B is the same.
  for (int i = 0; i < batchRank; ++i) {
    if (bBatch[i] != 0 || cBatch[i] != m * c_m || aBatch[i] != m * a_m)
      continue;
    m *= batch[i];
    --batchRank;
    for (int j = i; j < batchRank; ++j) {
      batch[j] = batch[j + 1];
      aBatch[j] = aBatch[j + 1];
      bBatch[j] = bBatch[j + 1];
      cBatch[j] = cBatch[j + 1];
    }
    return true;
  }
  return false;
}

GemmProblem::GemmProblem(const GemmArgs &args, const GemmTile &tile)
    : tile(tile), a(static_cast<const char *>(args.a)), b(static_cast<const char *>(args.b)),
      c(args.c), unit(args.bf16 ? 2 : 1), unitFloats(args.bf16 ? tile.pairFloats : 1),
      elementBytes(args.bf16 ? 2 : 4), elements(args.k), m(args.m), n(args.n),
      k(ceilDiv(args.k, unit)), a_m(args.a_m), a_k(args.a_k), b_k(args.b_k), b_n(args.b_n),
      c_m(args.c_m), c_n(args.c_n), batch(), aBatch(), bBatch(), cBatch(), alpha(args.alpha),
      beta(args.beta) {
  assert(args.batchRank >= 0 && args.batchRank <= maxBatchRank);
  assert(args.m >= 0 && args.n >= 0 && args.k >= 0);
  for (int i = 0; i < args.batchRank; ++i) {
    assert(args.batch[i] >= 0);
    // Axes of one would keep others from merging; their strides may be anything.
    if (args.batch[i] == 1)
      continue;
    batch[batchRank] = args.batch[i];
    aBatch[batchRank] = args.aBatch[i];
    bBatch[batchRank] = args.bBatch[i];
    cBatch[batchRank] = args.cBatch[i];
    ++batchRank;
  }
  // Both ways, since the batch may continue the columns instead: a shared A makes one wide matrix
  // of many. m and n are then swapped back.
  while (mergeIntoRows())
    ;
  swapOperands();
  while (mergeIntoRows())
    ;
  swapOperands();
  // Vectors run along n: it should be the contiguous axis of C, and not the tiny one.
  // Where both are contiguous nothing is gained, so nothing is swapped: results do not depend on
  // it, only the speed.
  bool contiguous = c_n == 1 || n == 1, swapped = c_m == 1 || m == 1;
  if ((!contiguous && swapped && m >= tile.lanes / 2) || (n < tile.lanes / 2 && m > n))
    swapOperands();
  // Blocks are cut by k alone: the sums' order is the same for every shape of C and every machine.
  blocks = std::max<int64_t>(1, ceilDiv(elements, blockK));
}

bool GemmProblem::isPrivate(unsigned threads, bool inside) const {
  // Within a loop of the pool there is no second one; else only what fits a thread's L2 and keeps
  // all of them busy, or is not worth waking them.
  return inside ||
         (ownFloats() <= privateFloats && (matrices() >= 2 * int64_t(threads) || isSmall()));
}

bool GemmProblem::isLong(unsigned threads, bool inside) const {
  return threads > 1 && !inside && blocks >= longBlocks && chainFloats() <= privateFloats &&
         m * n * chainsOfThread * int64_t(threads) <= keptResults;
}

int64_t GemmProblem::chainsAtOnce() const { return std::max<int64_t>(1, keptResults / (m * n)); }

bool GemmProblem::keepsB(unsigned threads, const GemmConstants &constants) const {
  return constants.loop && (isSwapped ? constants.a : constants.b) && matrices() == 1 &&
         m <= keptRows && !isPrivate(threads, false);
}

int64_t GemmProblem::sharedColumns() const {
  // Chunks of almost equal width, in whole panels.
  return roundUp(ceilDiv(n, ceilDiv(n, chunkN)), tile.panelN());
}

} // namespace trainrt
