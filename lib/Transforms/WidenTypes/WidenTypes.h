// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `widen-types`: the types that a CPU computes in.
#ifndef TRAINC_TRANSFORMS_WIDENTYPES_H
#define TRAINC_TRANSFORMS_WIDENTYPES_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/WidenTypes/WidenTypes.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_WIDENTYPES_H
