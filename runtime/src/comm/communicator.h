// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's end of what the ranks of a run send each other (docs/design/distribute.md). It knows
// bytes; what is made of them is in collectives.h and in the sessions.
#ifndef TRAINRT_COMM_COMMUNICATOR_H
#define TRAINRT_COMM_COMMUNICATOR_H

#include "format/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainrt {

class Communicator {
public:
  struct Sent {
    const void *data = nullptr;
    int64_t bytes = 0;
  };
  struct Received {
    void *data = nullptr;
    int64_t bytes = 0;
  };

  Communicator(int rank, int world) : own(rank), count(world) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int rank() const { return own; }
  int world() const { return count; }

  /// To each rank its piece of `sent`, from each into its piece of `received`; as many bytes as
  /// that one sends. All ranks call it, in the same order among all calls; it returns when `sent`
  /// is no longer needed and `received` is there. RankLost when another rank has gone or has called
  /// `abort`; nothing works then any more.
  virtual Status exchange(std::span<const Sent> sent, std::span<const Received> received) = 0;
  /// Ends what the other ranks wait for, now and from now on, with this reason.
  virtual void abort(const Status &why) = 0;

  /// The bytes of all ranks, by rank.
  Status gather(const std::string &mine, std::vector<std::string> &all);

private:
  const int own, count;
};

} // namespace trainrt

#endif // TRAINRT_COMM_COMMUNICATOR_H
