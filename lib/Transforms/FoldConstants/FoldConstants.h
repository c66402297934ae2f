// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fold-constants`: ops on constants are computed while compiling.
#ifndef TRAINC_TRANSFORMS_FOLDCONSTANTS_H
#define TRAINC_TRANSFORMS_FOLDCONSTANTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/FoldConstants/FoldConstants.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_FOLDCONSTANTS_H
