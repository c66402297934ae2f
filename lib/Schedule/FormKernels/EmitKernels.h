// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups as ops: the last step of forming kernels.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_EMITKERNELS_H
#define TRAINC_SCHEDULE_FORMKERNELS_EMITKERNELS_H

#include "lib/Schedule/FormKernels/StoredValues.h"

namespace trainc {

/// Replaces the ops of the block by `train.fusion` ops, and by those that become no kernel, in the
/// `order` of their groups.
void emitKernels(mlir::Block &block, const KernelGroups &groups, const StoredValues &values,
                 llvm::ArrayRef<int> order);

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_EMITKERNELS_H
