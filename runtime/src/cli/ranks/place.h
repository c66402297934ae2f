// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rank of which run this process is, from the command line or from what started it; and what
// the ranks of a run do together beside their steps.
#ifndef TRAINRT_CLI_RANKS_PLACE_H
#define TRAINRT_CLI_RANKS_PLACE_H

#include "cli/failure.h"
#include "cli/options.h"
#include "trainrt/ranks.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainrt::run {

struct RankPlace {
  int64_t rank = 0, world = 1;
  int64_t gpu = -1;        ///< as this process counts them; -1: as --device says
  int64_t local = 0;       ///< ranks of this machine; 0: not known
  int64_t localRank = -1;  ///< among them; -1: not known
  std::string coordinator; ///< HOST:PORT
  std::string source;      ///< what says so: "torchrun"
  int listening = -1;      ///< a socket that is rank 0's already
  bool isAlone() const { return world == 1; }
  /// Whether the process writes and tells what all of them do.
  bool isFirst() const { return rank == 0; }
};

/// Of --rank, --world and --coordinator, else of torchrun, Open MPI and Slurm, in this order; alone
/// without any. Throws Failure where what there is does not do.
RankPlace findPlace(const Options &options);

/// Of processes that torchrun has started again: `--resume` is the folder of `--save`, where a
/// checkpoint is, as with --max-restarts.
void continueRestarted(const RankPlace &place, Options &options);

/// Throws a Failure where ranks of which there are `world` cannot be of the nodes, or share the
/// replicas, that the options ask for.
void checkGroups(const Options &options, int64_t world);

/// What the options come to on this rank: what only rank 0 does is not asked for on others.
void applyPlace(const RankPlace &place, Options &options);

/// Ranks that leave when it goes, and end the others' run where `fail` has been called.
class JoinedRanks {
public:
  JoinedRanks() = default;
  ~JoinedRanks() { trainrt_ranks_free(ranks); }
  JoinedRanks(const JoinedRanks &) = delete;
  JoinedRanks &operator=(const JoinedRanks &) = delete;
  void join(const RankPlace &place, const Options &options);
  void fail(const std::string &why) { trainrt_ranks_abort(ranks, why.c_str()); }
  bool isAlone() const { return !ranks; }
  int64_t rank() const { return own; }
  int64_t world() const { return count; }
  /// What `make` gives on each rank, by rank. A Failure of one is that of all, and names the rank.
  std::vector<std::string> together(const std::function<std::string()> &make);
  trainrt_ranks *get() const { return ranks; }

private:
  trainrt_ranks *ranks = nullptr;
  int64_t own = 0, count = 1;
};

/// What all ranks must have in common, by names for people. Throws a Failure, on all of them, that
/// names what differs. An empty value is a flag that is on.
void requireAlike(JoinedRanks &ranks, const std::map<std::string, std::string> &facts);

} // namespace trainrt::run

#endif // TRAINRT_CLI_RANKS_PLACE_H
