// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks on GPUs compute together. Whatever carries the pieces, the sums are ours and in the
// order of ranks, unless NCCL's own are asked for.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H
#define TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H

#include "device/cuda/kernels/rank_sums.h"
#include "device/cuda/ranks/device_ranks.h"
#include "device/cuda/ranks/rank_parts.h"
#include "format/commands/collective.h"

namespace trainrt::cuda {

class RankExchange {
public:
  /// In this rank's memory: a tensor, and where its shard is or becomes one. An all-reduce, which
  /// knows no shards, has those of `inPlace`.
  struct Tensor {
    DeviceAddress whole, own;
    CutSize size;
  };

  /// All ranks call it, unless they are threads; the context is current, here and when this is
  /// destroyed. `ranks` null: one alone.
  static Status open(const Context &context, Communicator *ranks,
                     std::unique_ptr<RankExchange> &exchange);
  ~RankExchange();
  RankExchange(const RankExchange &) = delete;
  RankExchange &operator=(const RankExchange &) = delete;

  int rank() const { return ranks ? ranks->rank() : 0; }
  int world() const { return ranks ? ranks->world() : 1; }
  /// A tensor that is cut into shards as equal as can be, which lie within it.
  Tensor inPlace(DType dtype, DeviceAddress address, int64_t elements) const;
  /// Where `run` may stage as much as the largest of its collectives does
  /// (ExchangeWork::deviceStaging).
  void stageAt(DeviceAddress address, int64_t bytes) {
    staging = address;
    stagingSize = bytes;
  }
  /// Enqueues a collective (comm/collectives.h); some of an all-reduce with the next one, or with
  /// `finish`. `done` is recorded behind it. All ranks call it, in the same order among such calls.
  /// Behind an error nothing more is exchanged.
  Status run(Collective::Kind kind, DType dtype, std::span<const Tensor> tensors, const Event &done,
             CUstream stream);
  /// The rest of what was begun, if there is any: before anything reads the tensors.
  Status finish(CUstream stream);
  /// Why what is enqueued will never end; OK while it may.
  Status check() const { return carrier->check(); }
  /// Ends what is enqueued, and what the other ranks wait for.
  void abort(const Status &why);
  std::chrono::milliseconds limit() const;

private:
  RankExchange(const Driver &driver, Communicator *ranks) : driver(driver), ranks(ranks) {}
  Status loadSums();
  Status connect(const Context &context);
  Status addUp(Collective::Kind kind, DType dtype, std::span<const Tensor> tensors,
               const Event &done, CUstream stream);
  Status addInOrder(Collective::Kind kind, DType dtype, std::span<const Tensor> tensors,
                    const Event &done, CUstream stream);
  Status launchSums(DType dtype, RankSumsArguments arguments,
                    std::span<const RankSumsArguments::Range> ranges, CUstream stream);
  Status clearEnds(DType dtype, std::span<const Tensor> tensors, CUstream stream);
  Status gather(DType dtype, std::span<const Tensor> tensors, const Event &done, CUstream stream);
  Status record(const Event &event, CUstream stream) const;

  const Driver &driver;
  Communicator *const ranks;
  std::unique_ptr<DeviceRanks> carrier;
  DeviceAddress staging = 0;
  int64_t stagingSize = 0;
  /// The sums of an all-reduce's last block, which leave with the next one's pieces.
  struct {
    std::vector<DeviceRanks::Piece> sent, received;
    const Event *done = nullptr;
  } gathering;
  CUmodule module = nullptr;
  CUfunction sums[2] = {}; ///< of f32, of f64
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_RANK_EXCHANGE_H
