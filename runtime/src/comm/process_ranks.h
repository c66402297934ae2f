// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes, of one machine or of several: the coordinator brings them together, and
// Gloo, a plugin, carries what they exchange.
#ifndef TRAINRT_COMM_PROCESS_RANKS_H
#define TRAINRT_COMM_PROCESS_RANKS_H

#include "comm/communicator.h"
#include "comm/coordinator.h"

#include <memory>

namespace trainrt {

struct ProcessRank {
  int rank = 0, world = 1;
  /// Where rank 0 listens: "HOST:PORT".
  std::string coordinator;
  /// Of rank 0: a socket that listens there already; -1: it opens one.
  int listening = -1;
  RankLimits limits;
};

/// Waits for all ranks. NotFound where the plugin is not installed, RankLost where ranks do not
/// come.
Status joinRanks(const ProcessRank &which, std::shared_ptr<Communicator> &ranks);

} // namespace trainrt

#endif // TRAINRT_COMM_PROCESS_RANKS_H
