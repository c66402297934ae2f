// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ranks in one process, a session and a thread each: what W processes compute, bit for bit,
// in W times the time of one.
#ifndef TRAINRT_SESSION_RANKS_RANK_GROUP_H
#define TRAINRT_SESSION_RANKS_RANK_GROUP_H

#include "session/checkpoint.h"

namespace trainrt {

class RankGroup {
public:
  /// Makes the sessions of all ranks; `first`, that of rank 0, is the caller's, and what it sets
  /// there goes to the others before the next step. `groups`: as createThreadRanks has it.
  static Status create(std::shared_ptr<const Package> package, const SessionOptions &options,
                       int world, std::unique_ptr<Session> &first,
                       std::unique_ptr<RankGroup> &group, RankGroups groups = {});

  /// A step of all ranks: the first of them take one micro-batch each more than the others where
  /// the batches cannot be shared equally. The result is rank 0's, and what is not its alone is the
  /// same for all.
  Status step(Session &first, const std::vector<Batch> &batches, const StepOptions &options,
              StepResult &result);
  /// saveCheckpoint of all ranks.
  /// As `Session::eval`; by all ranks at once where each has a part of the parameters.
  Status eval(Session &first, const Batch &batch, bool fillMissing, double &loss);
  Status save(Session &first, const std::string &directory, unsigned keep,
              const std::string &dataPosition, CheckpointInfo &info, CheckpointClaim *claim);
  int world() const { return int(others.size()) + 1; }

private:
  RankGroup() = default;
  /// `body(rank, session)` on all ranks at once. Returns what it returns for rank 0.
  template <typename Body> Status together(Session &first, const Body &body);
  /// Gives the other ranks what a caller has changed on the first.
  Status follow(Session &first);

  std::vector<std::shared_ptr<Communicator>> ranks;
  std::vector<std::unique_ptr<Session>> others;
  uint64_t followed = 0;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_RANKS_RANK_GROUP_H
