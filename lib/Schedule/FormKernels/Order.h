// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which order kernels run: the third step of forming them.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_ORDER_H
#define TRAINC_SCHEDULE_FORMKERNELS_ORDER_H

#include "lib/Schedule/FormKernels/StoredValues.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// The groups of the block's ops in an order in which each stands behind those that it reads;
/// among those that could be next the one that is due first. `scheduleUpdates`: an update is due at
/// once, else behind all others.
llvm::SmallVector<int> orderGroups(mlir::Block &block, const KernelGroups &groups,
                                   const StoredValues &values, bool scheduleUpdates);

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_ORDER_H
