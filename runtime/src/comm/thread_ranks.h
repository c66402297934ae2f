// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are threads of one process: they copy from each other's memory.
#ifndef TRAINRT_COMM_THREAD_RANKS_H
#define TRAINRT_COMM_THREAD_RANKS_H

#include "comm/communicator.h"

#include <memory>

namespace trainrt {

/// The ends of `world` ranks, by rank; each is for a thread of its own. `ranksPerNode`: as if that
/// many were of a machine each; it divides the world.
std::vector<std::unique_ptr<Communicator>> createThreadRanks(int world, int ranksPerNode = 0);

} // namespace trainrt

#endif // TRAINRT_COMM_THREAD_RANKS_H
