// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the processes of one host tell each other of their GPUs' memory, through memory of the host:
// it is there within microseconds, whatever the control plane does.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_PEER_BOARD_H
#define TRAINRT_DEVICE_CUDA_RANKS_PEER_BOARD_H

#include "comm/communicator.h"
#include "comm/host_memory.h"
#include "comm/host_slots.h"

#include <cstddef>

namespace trainrt::cuda {

class PeerBoard {
public:
  static constexpr size_t mostRanks = 16, mostBytes = size_t(128) << 10;

  explicit PeerBoard(Communicator &ranks)
      : ranks(ranks), world(size_t(ranks.world())), slots(world, mostBytes) {}

  /// By the first rank. The name is for the others.
  Status create(std::string &name) { return mapped(memory.create(bytes(), name)); }
  /// By the others.
  Status open(const std::string &name) { return mapped(memory.open(name, bytes())); }
  void removeName() { memory.removeName(); }

  /// The bytes of all ranks, by rank, as they are until the next call. All ranks call it, with
  /// `mostBytes` at most; one thread of each. RankLost where one does not come.
  Status gather(std::span<const std::byte> mine, std::vector<std::span<const std::byte>> &all);

  /// A number that the others are to answer, one at a time; it is no 0.
  void ask(uint64_t number);
  /// Waits until all others that have not left have answered. RankLost where one will not.
  Status awaitAnswers() const;
  /// Another rank's number, if this one has not answered it; 0: none. By the thread that answers.
  uint64_t question(int rank) const;
  void answer(int rank);
  /// This one answers nothing any more, and nobody needs to wait for that.
  void leave();

private:
  struct Row;
  size_t bytes() const;
  Status mapped(Status status);
  Row &row(size_t rank) const;
  /// Waits until `isThere(rank)` for all others.
  template <typename Fn> Status await(const Fn &isThere) const;

  Communicator &ranks;
  const size_t world;
  HostMemory memory;
  HostSlots slots;
  uint64_t gathered = 0;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_RANKS_PEER_BOARD_H
