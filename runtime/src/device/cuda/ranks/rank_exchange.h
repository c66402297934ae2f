// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks on GPUs compute together: sums in the order of ranks, unless NCCL's own are asked for,
// whatever the bytes go through.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H
#define TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H

#include "comm/communicator.h"
#include "comm/rank_parts.h"
#include "device/cuda/context.h"
#include "device/cuda/libraries.h"
#include "device/cuda/ranks/rank_kernels.h"
#include "format/commands/collective.h"

#include <memory>
#include <mutex>
#include <vector>

namespace trainrt::cuda {

class RankExchange {
public:
  /// In this rank's memory: a tensor, and where its shard is or becomes one. An all-reduce, which
  /// knows no shards, has those of `reduced`, which are parts of `sums`.
  struct Tensor {
    DeviceAddress whole, own;
    CutSize size;
    DeviceAddress sums = 0; ///< of an all-reduce alone: `whole`, or where its sums go
  };

  /// All ranks call it, unless they are threads; the context is current, here and when this is
  /// destroyed. `ranks` null: one alone.
  static Status open(const Context &context, Communicator *ranks,
                     std::unique_ptr<RankExchange> &exchange);
  virtual ~RankExchange();
  RankExchange(const RankExchange &) = delete;
  RankExchange &operator=(const RankExchange &) = delete;

  int rank() const { return ranks ? ranks->rank() : 0; }
  int world() const { return ranks ? ranks->world() : 1; }
  /// Ranks that share a replica of what is in shards, and which shard this one has.
  int shards() const { return ranks ? ranks->ranksPerReplica() : 1; }
  int shard() const { return rank() % shards(); }
  /// Whether another rank gets what this one makes of a collective: sums, or its shard.
  bool gives(Collective::Kind kind, int other) const {
    return kind == Collective::Kind::AllReduce ||
           (kind == Collective::Kind::AllGather ? other / shards() == rank() / shards()
                                                : other % shards() == shard());
  }
  /// Who adds up what, where that is what a collective does.
  SumParts sumsOf(Collective::Kind kind, std::vector<CutSize> tensors) const {
    return {std::move(tensors), world(), kind == Collective::Kind::AllReduce ? world() : shards()};
  }
  std::chrono::milliseconds limit() const;
  /// A tensor of an all-reduce, whose sums are of type `made`: cut into shards as equal as can be.
  Tensor reduced(DType made, DeviceAddress address, DeviceAddress sums, int64_t elements) const;
  Tensor inPlace(DType dtype, DeviceAddress address, int64_t elements) const {
    return reduced(dtype, address, address, elements);
  }

  /// Bytes that a collective needs beside its tensors.
  virtual int64_t stagingBytes(const ExchangeWork &work) const = 0;
  /// Where `run` may stage as much as the largest of its collectives needs.
  virtual void stageAt(DeviceAddress address, int64_t bytes) = 0;
  /// Bytes that a block of so many needs, so that tensors may lie in it.
  virtual int64_t blockBytes(int64_t bytes) const { return bytes; }
  /// Before a block is freed: all that is enqueued has ended.
  virtual void release(DeviceAddress block) {}
  /// The streams that this rank computes and exchanges on.
  virtual void useStreams(std::vector<CUstream> streams) {}
  /// Held while computation is started on them.
  virtual std::unique_lock<std::mutex> starting() { return {}; }

  /// Enqueues a collective (comm/collectives.h); some of an all-reduce with the next one, or with
  /// `finish`. `done` is recorded behind it. All ranks call it, in the same order among such calls.
  /// Behind an error nothing more is exchanged.
  virtual Status run(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                     const Event &done, CUstream stream) = 0;
  /// The rest of what was begun, if there is any: before anything reads the tensors.
  virtual Status finish(CUstream stream) = 0;
  /// Why what is enqueued will never end; OK while it may.
  virtual Status check() const = 0;
  const RankKernels &kernels() const { return *loaded; }
  Status record(const Event &event, CUstream stream) const;
  /// Ends what is enqueued, and what the other ranks wait for.
  virtual void abort(const Status &why) = 0;

protected:
  RankExchange(const Driver &driver, Communicator *ranks) : driver(driver), ranks(ranks) {}
  /// `kernels`. Unsupported where the build has none.
  Status loadKernels();
  /// Clears what shards have beyond the ends of their tensors.
  Status clearEnds(DType dtype, std::span<const Tensor> tensors, CUstream stream) const;

  const Driver &driver;
  Communicator *const ranks;

private:
  std::unique_ptr<RankKernels> loaded;
};

/// By pieces that NCCL carries, or, where ranks are threads, copies within the GPU.
Status createPieceExchange(const Context &context, Communicator *ranks,
                           std::unique_ptr<RankExchange> &exchange);
/// In each other's memory, of processes of one host whose GPUs, one each, reach it. All of them
/// call it. Where it cannot be for one of them `exchange` is null for all, and `why` says it.
/// RankLost where ranks do not come.
Status createPeerExchange(const Context &context, Communicator &ranks,
                          std::unique_ptr<RankExchange> &exchange, std::string &why);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H
