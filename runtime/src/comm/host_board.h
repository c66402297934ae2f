// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the processes of one host tell each other a few words within microseconds, if all come at
// about the same time.
#ifndef TRAINRT_COMM_HOST_BOARD_H
#define TRAINRT_COMM_HOST_BOARD_H

#include "comm/host_memory.h"
#include "comm/host_slots.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace trainrt {

class HostBoard {
public:
  static constexpr size_t mostBytes = size_t(16) << 10; ///< of a rank's words

  HostBoard(int rank, int world)
      : rank(size_t(rank)), world(size_t(world)), slots(size_t(world), mostBytes) {}

  /// By the first rank.
  Status create(std::string &name);
  /// By the others.
  Status open(const std::string &name);
  void removeName() { memory.removeName(); }

  /// The bytes of all ranks, by rank. All ranks call it, one thread of each. False, on all of them,
  /// where one had more than `mostBytes` to say or had waited `patience` for another: then nothing
  /// has been told, and they meet in some other way, which waits for all.
  bool gather(const std::string &mine, std::vector<std::string> &all,
              std::chrono::microseconds patience = std::chrono::milliseconds(2));

private:
  struct Head;
  enum class Outcome : uint64_t { Told = 1, GivenUp };
  Head &head() const;
  Outcome decide(Outcome wish);
  bool isDecided(Outcome &outcome) const;
  size_t bytes() const;
  Status mapped(Status status);

  const size_t rank, world;
  HostMemory memory;
  HostSlots slots;
  uint64_t turn = 0; ///< calls of `gather`, the one under way included
};

} // namespace trainrt

#endif // TRAINRT_COMM_HOST_BOARD_H
