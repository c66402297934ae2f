// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are threads of one process: they copy from each other's memory.
#ifndef TRAINRT_COMM_THREAD_RANKS_H
#define TRAINRT_COMM_THREAD_RANKS_H

#include "comm/communicator.h"

#include <memory>

namespace trainrt {

/// The ends of `world` ranks, by rank; each is for a thread of its own. `groups.perNode`: as if
/// that many were of a machine each.
std::vector<std::unique_ptr<Communicator>> createThreadRanks(int world, RankGroups groups = {});

} // namespace trainrt

#endif // TRAINRT_COMM_THREAD_RANKS_H
