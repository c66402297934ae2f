// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks exchange through each other's memory in large pieces: copy engines carry them, so that
// matmuls beside them keep all multiprocessors.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_PEER_COPIES_H
#define TRAINRT_DEVICE_CUDA_RANKS_PEER_COPIES_H

#include "device/cuda/ranks/rank_exchange.h"

namespace trainrt::cuda {

class PeerCopies {
public:
  struct PeerTensor {
    RankExchange::Tensor tensor;
    /// By rank. `targets`, where its sums go: shards, where those of other ranks get something; of
    /// an all-reduce tensors of sums.
    std::vector<DeviceAddress> wholes, targets;
  };

  PeerCopies(const Context &context, const RankExchange &exchange)
      : context(context), driver(context.driver()), exchange(exchange) {}
  ~PeerCopies();
  Status start();

  /// Room for pieces of other ranks, as much as `ExchangeWork::deviceStaging` has.
  void stageAt(DeviceAddress address, int64_t bytes) {
    staging = address;
    stagingSize = bytes;
  }
  /// A collective of these tensors, behind what is on `stream`, where all ranks' operands are known
  /// to be there. What is on it later is behind this rank's part.
  Status run(Collective::Kind kind, SumTypes types, std::span<const PeerTensor> tensors,
             CUstream stream);

private:
  Status addUp(Collective::Kind kind, SumTypes types, std::span<const PeerTensor> tensors,
               CUstream stream);
  Status gather(int64_t width, std::span<const PeerTensor> tensors);
  Status copy(DeviceAddress to, DeviceAddress from, int64_t bytes, CUstream stream) const;
  Status order(const Event &event, CUstream before, CUstream behind) const;
  /// Calls `fn(rank)` for the others, from the next one on: each is read by another one at a time.
  template <typename Fn> Status forOthers(const Fn &fn) const;

  const Context &context;
  const Driver &driver;
  const RankExchange &exchange;
  CUstream pulls = nullptr, pushes = nullptr;
  /// By half of the room: pieces are in it, and are added up. Around all of a collective.
  Event pulled[2], summed[2], begun, done;
  DeviceAddress staging = 0;
  int64_t stagingSize = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_PEER_COPIES_H
