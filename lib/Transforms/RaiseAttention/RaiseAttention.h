// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-attention`: scaled dot product attention, written in parts, becomes one op.
#ifndef TRAINC_TRANSFORMS_RAISEATTENTION_H
#define TRAINC_TRANSFORMS_RAISEATTENTION_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/RaiseAttention/RaiseAttention.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEATTENTION_H
