// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's end of what the ranks of a run send each other (docs/design/distribute.md). It knows
// bytes; what is made of them is in collectives.h and in the sessions.
#ifndef TRAINRT_COMM_COMMUNICATOR_H
#define TRAINRT_COMM_COMMUNICATOR_H

#include "format/status.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainrt {

/// What a rank's caller says beside its next step, which takes it.
struct StepNotes {
  /// Why this rank cannot make the step: an error of all ranks, before anything is changed.
  Status refusal;
  /// A number of the caller's own, and what it adds up to over all ranks, once the step has begun;
  /// -1 where one has none.
  int64_t count = -1, total = -1;
};

/// Neighbours among the ranks of a run: both divide the world, and are all of it where they are 0.
struct RankGroups {
  int perNode = 0;    ///< ranks of a node
  int perReplica = 0; ///< ranks that share a replica of what is in shards
};

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

  Communicator(int rank, int world, RankGroups groups = {})
      : own(rank), count(world), perNode(groups.perNode ? groups.perNode : world),
        perReplica(groups.perReplica ? groups.perReplica : world) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int rank() const { return own; }
  int world() const { return count; }
  /// Ranks of a node, which are neighbours: rank = node * ranksPerNode() + one of them. The world
  /// where there is one node, or where they are not equal.
  int ranksPerNode() const { return perNode; }
  /// Ranks that share a replica: rank = replica * ranksPerReplica() + the shard that it holds.
  int ranksPerReplica() const { return perReplica; }

  /// To each rank its piece of `sent`, from each into its piece of `received`; as many bytes as
  /// that one sends. All ranks call it, in the same order among all calls; it returns when `sent`
  /// is no longer needed and `received` is there. RankLost when another rank has gone or has called
  /// `abort`; nothing works then any more.
  virtual Status exchange(std::span<const Sent> sent, std::span<const Received> received) = 0;
  /// Ends what the other ranks wait for, now and from now on, with this reason.
  virtual void abort(const Status &why) = 0;
  /// Why the run has to end, for whoever waits for something else than an exchange; OK while it
  /// need not. Any thread.
  virtual Status failure() const = 0;

  /// Makes what `exchange` needs, where that is not there from the beginning. All ranks call it.
  /// NotFound where something is not installed.
  virtual Status connect() { return {}; }
  /// Whether the ranks are threads of one process, which see each other's memory.
  virtual bool sharesMemory() const { return false; }
  /// Whether another thread than the one that computes may exchange; one at a time does.
  virtual bool exchangesBeside() const { return true; }
  /// Whether sums may be those of a library of the device's vendor, not in the order of ranks.
  virtual bool wantsVendorSums() const { return false; }
  /// How long what ranks do together may take.
  virtual std::chrono::milliseconds limit() const { return std::chrono::minutes(2); }

  /// The bytes of all ranks, by rank: a few hundred, or thousands. Needs no `connect`.
  virtual Status gather(const std::string &mine, std::vector<std::string> &all);

  StepNotes notes;
  /// How the ranks lie on nodes, for people; empty where all are of one.
  std::string nodes;
  /// What carries the pieces between GPUs, for people; empty where nobody has asked for it yet.
  std::string carrier;

private:
  const int own, count, perNode, perReplica;
};

} // namespace trainrt

#endif // TRAINRT_COMM_COMMUNICATOR_H
