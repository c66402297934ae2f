// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which op goes to which group: the first step of forming kernels.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_ASSIGNGROUPS_H
#define TRAINC_SCHEDULE_FORMKERNELS_ASSIGNGROUPS_H

#include "lib/Schedule/FormKernels/KernelGroups.h"

namespace trainc {

/// Assigns every op of the block, in program order. `recomputeCost`: what an element may cost that
/// readers of a view compute again. `unrelatedSums`: whether sums down the columns of tensors of
/// one shape share a kernel, related or not.
void assignGroups(mlir::Block &block, KernelGroups &groups, unsigned recomputeCost,
                  bool unrelatedSums);

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_ASSIGNGROUPS_H
