// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-idioms`: activations that exporters write out become one op again.
#ifndef TRAINC_TRANSFORMS_RAISEIDIOMS_H
#define TRAINC_TRANSFORMS_RAISEIDIOMS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/RaiseIdioms/RaiseIdioms.h.inc"
} // namespace trainc

#endif // TRAINC_TRANSFORMS_RAISEIDIOMS_H
