// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rank of which run this process is: from the command line, or from what started it.
#ifndef TRAINRT_CLI_RANKS_PLACE_H
#define TRAINRT_CLI_RANKS_PLACE_H

#include "cli/failure.h"
#include "cli/options.h"
#include "trainrt/ranks.h"

#include <memory>
#include <string>

namespace trainrt::run {

struct RankPlace {
  int64_t rank = 0, world = 1;
  int64_t gpu = -1;        ///< as this process counts them; -1: as --device says
  std::string coordinator; ///< HOST:PORT
  std::string source;      ///< what says so: "torchrun"
  int listening = -1;      ///< a socket that is rank 0's already
  bool isAlone() const { return world == 1; }
  /// Whether the process tells what all of them do.
  bool speaks() const { return rank == 0; }
};

/// Of --rank, --world and --coordinator, else of torchrun, Open MPI and Slurm, in this order; alone
/// without any. Throws Failure where what there is does not do.
RankPlace findPlace(const Options &options);

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
  trainrt_ranks *get() const { return ranks; }

private:
  trainrt_ranks *ranks = nullptr;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_RANKS_PLACE_H
