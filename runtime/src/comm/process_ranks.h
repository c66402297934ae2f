// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes, of one machine or of several: the coordinator brings them together and
// carries what they tell each other, and Gloo, a plugin, what they exchange in the host's memory.
#ifndef TRAINRT_COMM_PROCESS_RANKS_H
#define TRAINRT_COMM_PROCESS_RANKS_H

#include "comm/communicator.h"
#include "comm/coordinator.h"
#include "comm/nodes.h"

#include <memory>

namespace trainrt {

struct ProcessRank {
  int rank = 0, world = 1;
  /// Where rank 0 listens: "HOST:PORT".
  std::string coordinator;
  /// Of rank 0: a socket that listens there already; -1: it opens one.
  int listening = -1;
  RankLimits limits;
  bool vendorSums = false; ///< Communicator::wantsVendorSums
  NodePlace node;          ///< its host is found here
  int64_t perReplica = 0;  ///< RankGroups::perReplica, the same for all
};

/// InvalidArgument where there is no such rank.
Status checkRank(int64_t rank, int64_t world);

/// InvalidArgument where ranks cannot share replicas by so many each; 0: all share one.
Status checkReplicas(int64_t perReplica, int64_t world);

/// Waits for all ranks. RankLost where ranks do not come. Their `connect` loads the plugin:
/// NotFound where it is not installed. InvalidArgument, on all of them, where they cannot be of the
/// nodes, or share the replicas, that they are told of.
Status joinRanks(const ProcessRank &which, std::shared_ptr<Communicator> &ranks);

} // namespace trainrt

#endif // TRAINRT_COMM_PROCESS_RANKS_H
