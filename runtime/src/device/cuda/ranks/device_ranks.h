// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the GPUs of several ranks send each other: where they are processes through NCCL, by copies
// within one GPU where they are threads.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_DEVICE_RANKS_H
#define TRAINRT_DEVICE_CUDA_RANKS_DEVICE_RANKS_H

#include "comm/communicator.h"
#include "device/cuda/context.h"
#include "device/cuda/libraries.h"

#include <memory>
#include <span>
#include <string>

namespace trainrt::cuda {

class DeviceRanks {
public:
  /// Bytes of another rank's memory, or for it.
  struct Piece {
    int rank;
    DeviceAddress address;
    int64_t bytes;
  };

  /// Elements that are added up over all ranks: in place, or into the rank's one of as many equal
  /// shards as there are ranks.
  struct Sum {
    DeviceAddress from, to;
    int64_t elements;
    bool isShard;
  };

  virtual ~DeviceRanks() = default;

  // The context is current.
  /// Enqueues on `stream` what takes each piece of `sent` to its rank and fills each of `received`
  /// from its rank; of those between two ranks the first sent is the first received, and so on,
  /// with equal bytes. None is for the rank itself. All ranks call it, in the same order
  /// among such calls. RankLost where one does not come.
  virtual Status exchange(std::span<const Piece> sent, std::span<const Piece> received,
                          CUstream stream) = 0;
  /// Enqueues the sums, each in whatever order is quickest. Unsupported where there are none but
  /// ours.
  virtual Status addUp(DType dtype, std::span<const Sum> tensors, CUstream stream) = 0;
  /// Why what is enqueued will never end; OK while it may.
  virtual Status check() const = 0;
  /// Ends what is enqueued; nothing can be exchanged any more.
  virtual void abort() = 0;
};

/// Ranks that are threads, on one GPU.
Status createSharedRanks(const Context &context, Communicator &ranks,
                         std::unique_ptr<DeviceRanks> &result);
/// Ranks that are processes, with a GPU each. All of them call it; the context is current.
/// `ranks` null: one alone. DeviceError where NCCL is not installed or refuses, RankLost where
/// ranks do not come.
Status createNcclRanks(const Context &context, Communicator *ranks,
                       std::unique_ptr<DeviceRanks> &result);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_DEVICE_RANKS_H
