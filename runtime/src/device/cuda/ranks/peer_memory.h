// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of other ranks' GPUs, as this process sees it, and who may free what.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_PEER_MEMORY_H
#define TRAINRT_DEVICE_CUDA_RANKS_PEER_MEMORY_H

#include "device/cuda/context.h"
#include "device/cuda/libraries.h"
#include "device/cuda/ranks/peer_board.h"

#include <map>
#include <thread>

namespace trainrt::cuda {

/// An address in a block of a rank's memory, as the others are told it.
struct PeerPlace {
  uint64_t block = 0; ///< the rank's number of the block, which no other one gets; 0: none
  uint64_t offset = 0;
  CUipcMemHandle handle{};
};

/// A block is opened by the others where they first meet it, and stays so until its owner gives it
/// back: it asks them to close it, which a thread of theirs does whatever they are doing, and frees
/// it when all have. The owner has come behind all that they do with it, and they go on with it in
/// no other way than together.
///
/// Nothing is computed where memory is offered, opened or closed: cuDNN 9.19's attention with
/// dropout has made other bits there, on H100s, of processes that did nothing else together.
class PeerMemory {
public:
  /// The driver may put smaller blocks together, and opens them together. Where there are many, as
  /// launch tables, they stay so; tensors are in larger ones.
  static constexpr int64_t blockUnit = int64_t(2) << 20, smallBlock = int64_t(64) << 10;
  static constexpr int64_t blockBytes(int64_t bytes) {
    return bytes < smallBlock ? bytes : (bytes + blockUnit - 1) / blockUnit * blockUnit;
  }

  PeerMemory(const Context &context, Communicator &ranks, PeerBoard &board);
  ~PeerMemory();
  PeerMemory(const PeerMemory &) = delete;
  PeerMemory &operator=(const PeerMemory &) = delete;

  /// Those that this rank's GPU computes and exchanges on.
  void useStreams(std::vector<CUstream> all) { streams = std::move(all); }
  /// Held while computation is started on them.
  std::unique_lock<std::mutex> starting() { return std::unique_lock(startings); }

  // The context is current.
  /// Until all that is on the streams has ended. RankLost where it never will.
  Status awaitIdle() const;
  /// Whether the others have been told of the block that the address is in.
  bool isKnown(DeviceAddress address) const { return find(address) != own.end(); }
  /// Whether another rank's block is open here.
  bool isOpen(int rank, const PeerPlace &place);
  /// Of an address of this rank's.
  Status place(DeviceAddress address, PeerPlace &place);
  /// Of another rank's place what it is here.
  Status address(int rank, const PeerPlace &place, DeviceAddress &address);
  /// Answers the others from now on. All of them have the board.
  void serve();
  /// The block that begins here is about to be freed: nobody else has it then, or it is left.
  void release(DeviceAddress block);
  /// All of this rank's blocks are its own again, and it has none of the others'; where that cannot
  /// be known they are left. What any rank enqueued with them has ended, unless `isLost`.
  void leave(bool isLost);
  /// All that is of others.
  void closeAll();

private:
  struct Block {
    uint64_t bytes;
    PeerPlace begin;
  };
  using Blocks = std::map<DeviceAddress, Block>;
  /// The one that the address is in, or the end.
  Blocks::const_iterator find(DeviceAddress address) const;
  /// Another rank's block, or all of them.
  void close(size_t rank, uint64_t block);
  bool isGivenBack(uint64_t number);

  const Driver &driver;
  const Context &context;
  Communicator &ranks;
  PeerBoard &board;
  std::vector<CUstream> streams;
  std::mutex startings;
  Blocks own;
  uint64_t lastBlock = 0;
  std::mutex mutex;                                    ///< of what follows
  std::vector<std::map<uint64_t, CUdeviceptr>> opened; ///< by rank and number
  std::atomic<bool> isEnding{false};
  std::thread server;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_PEER_MEMORY_H
