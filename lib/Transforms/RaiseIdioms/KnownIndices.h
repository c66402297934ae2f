// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers at indices that are known while compiling, as those of relative positions are.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_KNOWNINDICES_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_KNOWNINDICES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Lets gathers of elements read a slice of what is computed, where their indices are made of
/// constants and leave out an eighth of the axis or more: what is never read need not be computed.
/// The indices become constants.
void narrowGathers(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_KNOWNINDICES_H
