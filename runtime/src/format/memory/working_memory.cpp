// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The buffers as the calls ask for them.
#include "format/memory/working_memory.h"
#include "format/memory/convolution_work.h"
#include "format/memory/exchange_work.h"

namespace trainrt {

namespace {
/// As the pool's buffers are.
/// GrowingBuffer rounds up to pages; the estimate must not be below it.
int64_t pages(int64_t bytes) { return roundUp(bytes, 4096); }
} // namespace

void WorkingMemory::add(const GemmProblem &problem, bool inside, const GemmConstants &constants) {
  // What the driver does not compute it packs nothing for.
  if (problem.matrices() == 0 || problem.m == 0 || problem.n == 0 || problem.k == 0)
    return;
  int64_t own = problem.rowFloats() * 4;
  if (problem.isPrivate(threads, inside)) {
    own += problem.ownFloats() * 4;
  } else if (problem.keepsB(threads, constants)) {
    if (loop != constants.loop)
      keptInLoop = 0;
    loop = constants.loop;
    keptInLoop += problem.keptFloats() * 4;
    kept = std::max(kept, keptInLoop);
    shared[0] = std::max(shared[0], problem.keptRowFloats() * 4);
    own = 0;
  } else if (problem.isLong(threads, inside)) {
    own += problem.chainFloats() * 4;
    shared[0] = std::max(shared[0], problem.chainSums() * 4);
  } else {
    shared[0] = std::max(shared[0], problem.sharedFloats() * 4);
  }
  first = std::max(first, own);
  // Many small ones are for all threads.
  // Below that parallelFor keeps all of it on the calling thread, so that the others pack nothing.
  if (inside || !problem.isSmall() ||
      problem.matrices() * problem.m * problem.paddedN() * problem.elements > parallelWork)
    others = std::max(others, own);
}

void WorkingMemory::addGemm(const GemmArgs &args, const GemmConstants &constants) {
  add(GemmProblem(args, tile), false, constants);
}

void WorkingMemory::addConvolution(const ConvolutionSizes &sizes) {
  const ConvolutionMemory memory = convolutionMemory(sizes, tile, threads);
  shared[0] = std::max(shared[0], memory.shared * 4);
  first = std::max(first, memory.thread * 4);
  others = std::max(others, memory.thread * 4);
}

void WorkingMemory::addAttention(const AttentionExtents &extents) {
  const int64_t n = attentionBlockColumns(extents.longest, extents.band);
  const int64_t rows = std::min(attentionBlockRows, extents.longest);
  const int64_t stride = attentionRowStride(n, attentionLanes);
  int64_t floats = (extents.backward ? 2 : 1) * attentionBlockRows * stride;
  if (extents.dropout)
    floats += attentionWords(ceilDiv(extents.longest, 4) + 1, attentionLanes) + stride;
  shared[1] = std::max(shared[1], floats * int64_t(threads) * 4);
  // Sums over columns are in blocks, the longest of them where there are 512 columns.
  auto product = [&](int64_t m, int64_t columns, int64_t k) {
    add(GemmProblem({nullptr, nullptr, nullptr, m, columns, std::min<int64_t>(k, 512), 0, 0, 0, 0,
                     columns, 1, 0, nullptr, nullptr, nullptr, nullptr, 1, 0},
                    tile),
        true);
  };
  for (int64_t size : {extents.depth, extents.width}) {
    product(rows, n, size);
    product(rows, size, n);
    if (extents.backward)
      product(n, size, rows);
  }
}

void WorkingMemory::addExchange(const ExchangeWork &work) {
  exchanged = std::max(exchanged, work.staging());
}

void WorkingMemory::add(const WorkingMemory &other) {
  exchanged = std::max(exchanged, other.exchanged);
  for (int i = 0; i < 2; ++i)
    shared[i] = std::max(shared[i], other.shared[i]);
  kept = std::max(kept, other.kept);
  first = std::max(first, other.first);
  others = std::max(others, other.others);
}

/// The thread that calls may have packed alone, hence a maximum of its own.
int64_t WorkingMemory::threadBytes() const {
  return pages(shared[0]) + pages(shared[1]) + pages(kept) + pages(first) +
         int64_t(threads - 1) * pages(others);
}

} // namespace trainrt
