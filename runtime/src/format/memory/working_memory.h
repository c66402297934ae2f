// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What matmuls, convolutions, attention and exchanges on the CPU need beside their operands, told
// ahead: buffers which are as large as the largest call needs.
#ifndef TRAINRT_FORMAT_MEMORY_WORKING_MEMORY_H
#define TRAINRT_FORMAT_MEMORY_WORKING_MEMORY_H

#include "format/attention_band.h"
#include "format/memory/exchange_work.h"
#include "format/memory/gemm_problem.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace trainrt {

struct ConvolutionSizes;

/// Rows of weights are padded to multiples of this, and sums of a row have as many parts, whatever
/// the instruction set.
inline constexpr int64_t attentionLanes = 16;
/// Attention computes so many rows of scores at a time.
inline constexpr int64_t attentionBlockRows = 64;
/// Of the columns that so many rows see at most.
inline int64_t attentionBlockColumns(int64_t longest, const AttentionBand &band) {
  return band.width(attentionBlockRows, longest);
}
/// Floats between rows of scores. Rows at multiples of 2 KiB would share a few sets of L1.
inline constexpr int64_t attentionRowStride(int64_t columns, int64_t lanes) {
  const int64_t stride = roundUp(columns, lanes);
  return stride % 512 == 0 ? stride + lanes : stride;
}
/// Random words of positions within `blocks` counters.
inline constexpr int64_t attentionWords(int64_t blocks, int64_t lanes) {
  return roundUp(blocks, 16) * 4 + lanes;
}

/// Sizes of an attention over segments.
struct AttentionExtents {
  int64_t longest, depth, width;
  bool backward, dropout;
  AttentionBand band;
};

class WorkingMemory {
public:
  /// `world`: ranks that train together, of which `shards` share a replica, 0: all.
  WorkingMemory(const GemmTile &tile, unsigned threads, int64_t world = 1, int64_t shards = 0)
      : world(world), shards(shards ? shards : world), tile(tile), threads(threads) {}

  const int64_t world, shards;

  /// Commands of a loop come one behind the other: what they keep is held at once.
  void addGemm(const GemmArgs &args, const GemmConstants &constants = {});
  void addConvolution(const ConvolutionSizes &sizes);
  /// Dropout's coordinates are taken to be those of the rows.
  void addAttention(const AttentionExtents &extents);
  void addExchange(const ExchangeWork &work);
  void add(const WorkingMemory &other);

  /// Bytes, if every thread takes part where several do.
  int64_t bytes() const { return threadBytes() + exchanged; }
  /// Of these, what threads' buffers take, and what ranks exchange through: each is as large as the
  /// largest call of all functions needs.
  int64_t threadBytes() const;
  int64_t stagingBytes() const { return exchanged; }

private:
  void add(const GemmProblem &problem, bool inside, const GemmConstants &constants = {});

  GemmTile tile;
  unsigned threads;
  /// Bytes of the buffers: those that threads share, the first thread's, every other one's.
  int64_t shared[2] = {}, first = 0, others = 0;
  /// What stays packed in the loop that needs most for it; and in `loop`, as far as it was added.
  int64_t kept = 0, keptInLoop = 0;
  const void *loop = nullptr;
  int64_t exchanged = 0; ///< staging of ranks, once for all threads
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_MEMORY_WORKING_MEMORY_H
