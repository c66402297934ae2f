// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks compute together, over any communicator: whatever carries the bytes, the sums are ours
// and in the order of ranks.
#ifndef TRAINRT_COMM_COLLECTIVES_H
#define TRAINRT_COMM_COLLECTIVES_H

#include "comm/communicator.h"
#include "format/sum_types.h"

namespace trainrt {

/// Elements in memory of this rank, and where their sums go.
struct RankTensor {
  void *data = nullptr;
  int64_t elements = 0;
  void *sums = nullptr; ///< null: to the elements' place
};
/// And of its shard, of as many as there are ranks of a replica (Communicator::ranksPerReplica):
/// that of the r-th of these is of the elements from r * shard on. What is behind the end is 0.
struct CutTensor {
  RankTensor whole;
  void *own = nullptr;
  int64_t shard = 0;
};

/// Each tensor, of f32 or f64, becomes the sum of those of all ranks: 0 + that of rank 0 + that of
/// rank 1 + ..., the same on all of them. Those of bf16 or f16 have sums of f32 elsewhere.
/// `staging` grows to what ExchangeWork says, a few MiB.
Status allReduce(Communicator &ranks, SumTypes types, std::span<const RankTensor> tensors,
                 std::vector<unsigned char> &staging);

/// Each rank's shards become those of such sums; the tensors stay as they are.
Status reduceScatter(Communicator &ranks, SumTypes types, std::span<const CutTensor> tensors,
                     std::vector<unsigned char> &staging);
/// Each tensor, of whatever type, becomes what the shards of the ranks of a replica are behind each
/// other.
Status allGather(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                 std::vector<unsigned char> &staging);

} // namespace trainrt

#endif // TRAINRT_COMM_COLLECTIVES_H
