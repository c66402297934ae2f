// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a session would hold, told without one.
#ifndef TRAINRT_SESSION_ESTIMATE_H
#define TRAINRT_SESSION_ESTIMATE_H

#include "device/device.h"

#include <vector>

namespace trainrt {

/// What a session would hold for these symbol values; `microBatches` 0: evaluation only.
/// `byVariants`: of functions that have variants, these compute the batches. `world`: ranks
/// that train together, of which this is one; `perReplica`: RankGroups::perReplica.
Status estimateMemory(const Package &package, const std::vector<int64_t> &symbols,
                      unsigned microBatches, unsigned threads, MemoryUse &use,
                      bool byVariants = false, int64_t world = 1, int64_t perReplica = 0);

/// Cores that this process may use.
unsigned availableCores();

} // namespace trainrt

#endif // TRAINRT_SESSION_ESTIMATE_H
